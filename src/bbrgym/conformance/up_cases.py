# SPDX-License-Identifier: GPL-2.0-only
"""The draft's cases of what ends UP, and of a sender that its application limits."""

from __future__ import annotations

from collections.abc import Iterator

from bbrgym.conformance.ack_history import DOWN, PROBE_RTT, STARTUP, UP, AckHistory
from bbrgym.conformance.draft_case import DraftCase, DraftStatement, Known, statement
from bbrgym.conformance.moments import (
    INTERRUPTS,
    Stay,
    end_s,
    goes_down,
    moment_is_there,
    of_stay,
    up_begins,
    up_is_over,
    whole_stay,
)
from bbrgym.conformance.paths import MANY_PKTS, PATHS, is_long
from bbrgym.conformance.reasons import INTERRUPTED, V1_CYCLES
from bbrgym.conformance.setup import CaseSetup, Stage, ahead, limited, outgrown
from bbrgym.conformance.tolerances import PLATEAU_ROUNDS


def _first_up(history: AckHistory, _: CaseSetup) -> Stay | None:
    return whole_stay(history, history.entries(UP))


@of_stay("UP begins and ends", _first_up)
def _check_up_plateau(history: AckHistory, _: CaseSetup, row: int, end: int) -> Iterator[DraftStatement]:
    lost = int(history["lost_pkts"][row : end + 1].sum())
    yield statement("nothing is lost in UP", lost == 0, f"{lost} packets", history.time_s(end))
    count, now = int(history["full_bw_count"][end]), int(history["full_bw_now"][end])
    early = history.first(history["full_bw_now"][row:end] == 1)
    rounds = int(history["round_count"][end] - history["round_count"][row])
    yield statement(
        "UP ends when full_bw_count reaches 3 and full_bw_now becomes true",
        count == PLATEAU_ROUNDS and now == 1 and early is None and rounds >= PLATEAU_ROUNDS,
        f"count {count} after {rounds} rounds",
        history.time_s(end),
    )
    phase = int(history["phase"][end])
    yield statement("DOWN follows", phase == DOWN, f"phase {phase}", history.time_s(end))


UP_PLATEAU = DraftCase(
    number=5,
    name="up-plateau",
    title="Exiting PROBE_UP on Bandwidth Plateau",
    how="A bulk flow and a queue of four BDP, until the first UP is over that PROBE_RTT does not end.",
    conditions=PATHS,
    end=up_is_over,
    check=_check_up_plateau,
    not_for={"bbr": V1_CYCLES, "bbr2": "BBRv2's UP ends when 1.25 BDP are in flight"},
    known=(Known(INTERRUPTS, INTERRUPTED, applies=is_long),),
)


def _up_is_limited(history: AckHistory, setup: CaseSetup) -> int | None:
    """Return the row from which on the application limits the UP in which the bottleneck outgrew it."""
    row = None if not setup.moments_s else history.first(history["time_us"] >= setup.moments_s[0] * 1e6)
    if row is None:
        return None
    return history.first((history["is_app_limited"] == 1) & history.is_in(UP), row)


def _lose_from_now(setup: CaseSetup, history: AckHistory, row: int) -> None:
    setup.change(history.time_s(row), loss_rate=min(0.3, max(0.1, 12 / setup.condition.bdp_pkts)))


UPDATES_HI = "inflight_longterm is updated, though the samples are application-limited"


def _limited_up(history: AckHistory, setup: CaseSetup) -> Stay | None:
    """Return begin and end of the UP that the application limited."""
    if len(setup.moments_s) < 2 or end_s(history) <= setup.moments_s[-1]:
        return None
    rows = [row for row in history.entries(UP) if history.time_s(row) <= setup.moments_s[-1]]
    end = history.end_of(rows[-1]) if rows else None
    return None if end is None else (rows[-1], end)


def _limited_up_is_over(history: AckHistory, setup: CaseSetup) -> int | None:
    found = _limited_up(history, setup)
    return None if found is None else found[1]


@of_stay("UP ends by loss", _limited_up)
def _check_up_loss(history: AckHistory, setup: CaseSetup, row: int, end: int) -> Iterator[DraftStatement]:
    lossy_s = setup.moments_s[-1]
    at_s = history.time_s(end)
    yield statement("UP lasts until packets are lost", at_s >= lossy_s, f"loss from {lossy_s:.6g} s", at_s)
    yield goes_down(history, end)
    marked = int(history["lost_pkts"][row : end + 1].sum())
    lossy = history.first(history["time_us"] >= lossy_s * 1e6) or row
    yield statement(
        "the sender marked packets lost, from three rounds ago on at most",
        marked > 0 and int(history["round_count"][end] - history["round_count"][lossy]) <= 3,
        f"{marked} packets, {at_s - lossy_s:.3g} s after the first could be",
        at_s,
    )
    yield statement(
        "the samples are application-limited",
        bool(history["is_app_limited"][end]),
        f"{int(history['is_app_limited'][row : end + 1].sum())} of {end + 1 - row} ACKs of UP",
        at_s,
    )
    before, after = int(history["inflight_hi_pkts"][end - 1]), int(history["inflight_hi_pkts"][end])
    yield statement(UPDATES_HI, before != after, f"{_bound(before)} before, {_bound(after)} after", at_s)


def _bound(pkts: int) -> str:
    return "none" if pkts < 0 else f"{pkts}"


UP_LOSS = DraftCase(
    number=6,
    name="up-loss-limited",
    title="Exiting PROBE_UP on Loss When Application-Limited",
    how=(
        "An application is 5 % ahead of the bottleneck, whose rate doubles when UP begins; packets are lost at random "
        "from the first application-limited sample of this UP."
    ),
    conditions=MANY_PKTS,
    begin=ahead,
    stages=(
        Stage("UP begins", up_begins, outgrown),
        Stage("the application limits UP", _up_is_limited, _lose_from_now),
    ),
    end=_limited_up_is_over,
    check=_check_up_loss,
    not_for={"bbr": V1_CYCLES},
    known=(
        Known(
            UPDATES_HI,
            "The draft's HandleInflightTooHigh() leaves inflight_longterm as it is where RS.is_app_limited holds; the "
            "case's last step contradicts it.",
        ),
        Known(INTERRUPTS, INTERRUPTED, applies=is_long),
    ),
)


def _leave(setup: CaseSetup, history: AckHistory, row: int) -> None:
    """Change nothing."""


LIMITS = "nothing is lost and most samples are application-limited"
STAYS = "the sender stays where it is"


def _long_after(history: AckHistory, setup: CaseSetup) -> int | None:
    begun_us = setup.moments_s[-1] * 1e6 if setup.moments_s else 0.0
    left = ~history.is_in(UP if setup.moments_s else STARTUP) & (history["time_us"] > begun_us)
    late = history["time_us"] > begun_us + 8e6 + 20e6 * setup.condition.turn_s
    return history.first(left | late)


def _check_stays(history: AckHistory, _: CaseSetup, phase: int, row: int) -> Iterator[DraftStatement]:
    left = history.first(history["phase"] != phase, row)
    to = None if left is None else int(history["phase"][left])
    limited_share = float(history["is_app_limited"][row:left].mean())
    yield statement(
        LIMITS,
        int(history["lost_pkts"][row:left].sum()) == 0 and limited_share > 0.5,
        f"{100 * limited_share:.0f} % of the ACKs",
        history.time_s(row),
    )
    at_s = end_s(history) if left is None else history.time_s(left)
    yield statement(
        "it leaves for PROBE_RTT at most", to in (None, PROBE_RTT), "" if to is None else f"phase {to}", at_s
    )
    yield statement(STAYS, left is None, f"for {at_s - history.time_s(row):.3g} s", at_s)


def _check_never(history: AckHistory, setup: CaseSetup) -> Iterator[DraftStatement]:
    if not setup.moments_s:
        begun = history.first(history["is_app_limited"] == 1) or 0
        yield from _check_stays(history, setup, STARTUP, begun)
        return
    row = history.entry(UP)
    yield moment_is_there("UP begins", row, history)
    if row is not None:
        limits = history.first(history["time_us"] >= setup.moments_s[-1] * 1e6) or row
        yield from _check_stays(history, setup, UP, limits)


_INDEFINITELY = (
    "PROBE_RTT is due five seconds after the last smaller RTT, in UP and STARTUP too: an application-limited flow that "
    "does not fall idle has no smaller one. After PROBE_RTT STARTUP goes on, UP does not: DOWN and CRUISE follow."
)

STARTUP_LIMITED = DraftCase(
    number=7,
    name="never-exiting-startup",
    title="Never Exiting PROBE_UP (or STARTUP) When Application-Limited With No Loss",
    how="STARTUP: an application writes 0.3 of what the bottleneck carries.",
    conditions=tuple(one for one in PATHS if one.rate_mbps <= 1000),
    begin=limited,
    end=_long_after,
    check=_check_never,
    lasts=lambda condition: 9.0 + 25 * condition.turn_s,
    known=(Known(STAYS, _INDEFINITELY), Known(LIMITS, INTERRUPTED, applies=is_long)),
)

UP_LIMITED = DraftCase(
    number=7,
    name="never-exiting-up",
    title="Never Exiting PROBE_UP (or STARTUP) When Application-Limited With No Loss",
    how="UP: an application is 5 % ahead of the bottleneck, whose rate doubles when UP begins.",
    conditions=tuple(one for one in MANY_PKTS if one.rate_mbps <= 1000),
    begin=ahead,
    stages=(Stage("UP begins", up_begins, outgrown), Stage("the application limits UP", _up_is_limited, _leave)),
    end=_long_after,
    check=_check_never,
    not_for={"bbr": V1_CYCLES},
    known=(Known(STAYS, _INDEFINITELY),),
)
