# SPDX-License-Identifier: GPL-2.0-only
"""The draft's cases of DRAIN."""

from __future__ import annotations

from collections.abc import Iterator

from bbrgym.conformance.ack_history import DRAIN, AckHistory
from bbrgym.conformance.draft_case import DraftCase, DraftStatement, Known, statement
from bbrgym.conformance.moments import INTERRUPTS, Stay, left_startup, of_stay, wanted_pkts
from bbrgym.conformance.paths import PATHS, is_long, varied
from bbrgym.conformance.reasons import INTERRUPTED, SHORT_PATH
from bbrgym.conformance.setup import MSS_BYTES, CaseSetup, Condition, Stage
from bbrgym.conformance.tolerances import GAIN_TOLERANCE, MARGIN

_DRAIN_ROUNDS = 3


def drain_begins(history: AckHistory, setup: CaseSetup) -> int | None:
    """Return the row with which DRAIN begins; one ACK may end it as well."""
    return left_startup(history, setup)


def drain_is_over(history: AckHistory, setup: CaseSetup) -> int | None:
    """Return the row with which DRAIN ends."""
    row = left_startup(history, setup)
    return None if row is None else history.first(~history.is_in(DRAIN), row)


GAIN_OF_DRAFT = "the pacing gain of DRAIN is 0.5"
BY_INFLIGHT = "DRAIN ends at the first ACK with no more than Inflight(1.0) in flight"


def _in_flight(history: AckHistory, setup: CaseSetup, column: str) -> list[float]:
    """Return what is in flight as the sender's rules count it: now, or when the next packet departs."""
    if setup.sender.is_draft:
        return [float(pkts) for pkts in history[column]]
    return [float(pkts) for pkts in history.departing_pkts(column, MSS_BYTES)]


def _check_drain_gain(history: AckHistory, setup: CaseSetup, row: int, end: int) -> Iterator[DraftStatement]:
    inside = slice(row, end)
    gains = history["pacing_Bps"][inside] / (MARGIN * history["bw_Bps"][inside].astype(float))
    own = setup.sender.drain_gain
    worst = int(abs(gains / own - 1).argmax())
    yield statement(
        "the pacing gain is DRAIN's",
        abs(gains[worst] / own - 1) <= GAIN_TOLERANCE,
        f"gain {gains[worst]:.4f}",
        history.time_s(row + worst),
    )
    yield statement(GAIN_OF_DRAFT, abs(own - 0.5) < 1e-9, f"its own is {own:.4f}", history.time_s(row))


def _drain(history: AckHistory, setup: CaseSetup) -> Stay | None:
    """Return the rows with which DRAIN begins and ends."""
    row = left_startup(history, setup)
    end = drain_is_over(history, setup)
    return None if row is None or end is None else (row, end)


def _probe_bw_follows(history: AckHistory, end: int) -> DraftStatement:
    phase = int(history["phase"][end])
    return statement("PROBE_BW follows", phase >= 8, f"phase {phase}", history.time_s(end))


@of_stay("DRAIN begins and ends", _drain)
def _check_drain(history: AckHistory, setup: CaseSetup, row: int, end: int) -> Iterator[DraftStatement]:
    yield _probe_bw_follows(history, end)
    if end > row:
        yield from _check_drain_gain(history, setup, row, end)
    out, target = _in_flight(history, setup, "in_flight_pkts"), history["target_pkts"]
    early = next((at for at in range(row, end) if out[at] <= min(target[at - 1], target[at])), None)
    below = out[end] <= wanted_pkts(history, end)
    rounds = int(history["round_count"][end] - history["round_count"][row])
    yield statement(
        BY_INFLIGHT,
        below and early is None,
        f"{out[end]:.0f} in flight, {wanted_pkts(history, end)} wanted, after {rounds} rounds",
        history.time_s(end if early is None else early),
    )


DRAIN_INFLIGHT = DraftCase(
    number=3,
    name="drain-inflight",
    title="Exiting DRAIN Based on Inflight",
    how="A bulk flow and a queue of four BDP, until DRAIN is over.",
    conditions=PATHS,
    end=drain_is_over,
    check=_check_drain,
    known=(
        Known(GAIN_OF_DRAFT, "google/bbr paces with 88/256 in DRAIN, BBRv1 and v2 with 1/2.89.", ("code",)),
        Known(INTERRUPTS, INTERRUPTED, applies=is_long),
    ),
)

BY_TIME = "DRAIN ends after more than three rounds with more than Inflight(1.0) in flight"


def _slow_down(setup: CaseSetup, history: AckHistory, row: int) -> None:
    part = 1 + _amount(setup.condition) / 100
    setup.change(history.time_s(row), rate_mbps=part * setup.condition.rate_mbps)


def _amount(condition: Condition) -> float:
    return condition.amount


@of_stay("DRAIN begins and ends", _drain)
def _check_drain_time(history: AckHistory, _: CaseSetup, row: int, end: int) -> Iterator[DraftStatement]:
    yield _probe_bw_follows(history, end)
    rounds = int(history["round_count"][end] - history["round_count"][row])
    out, target = int(history["in_flight_pkts"][end]), wanted_pkts(history, end)
    yield statement(
        "DRAIN lasts no longer than to the fourth round after its own",
        rounds <= _DRAIN_ROUNDS + 1,
        f"{rounds} rounds",
        history.time_s(end),
    )
    yield statement(
        BY_TIME,
        rounds == _DRAIN_ROUNDS + 1 and out > target,
        f"after {rounds} rounds, {out} in flight, {target} wanted",
        history.time_s(end),
    )


DRAIN_TIME = DraftCase(
    number=4,
    name="drain-time",
    title="Exiting DRAIN Based on Time",
    how="As drain-inflight; the rate falls by a tenth, as the draft says, or by 70 % when DRAIN begins.",
    conditions=varied(PATHS, ("-10 %", -10.0), ("-70 %", -70.0)),
    stages=(Stage("DRAIN begins", drain_begins, _slow_down),),
    end=drain_is_over,
    check=_check_drain_time,
    not_for={
        "bbr": "BBR v1 leaves DRAIN by what is in flight only",
        "bbr2": "BBRv2 leaves DRAIN by what is in flight only",
        "bbr3/code": "google/bbr leaves DRAIN by what is in flight only; the draft's rule is bbr3_drain_rounds",
    },
    known=(
        Known(
            BY_TIME,
            "A fall by a tenth does not suffice: with a pacing gain of 0.5 against 0.9 of the rate what STARTUP left, "
            "a BDP beside the target, is drained within three rounds, which the queue lengthens.",
            applies=lambda condition: condition.amount == -10.0,
        ),
        Known(
            BY_TIME,
            SHORT_PATH,
            applies=lambda condition: condition.amount != -10.0 and condition.bdp_pkts < 20,
        ),
        Known(INTERRUPTS, INTERRUPTED, applies=is_long),
    ),
)
