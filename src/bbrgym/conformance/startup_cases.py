# SPDX-License-Identifier: GPL-2.0-only
"""The draft's cases of what ends STARTUP and DRAIN."""

from __future__ import annotations

import numpy as np

from bbrgym.conformance.ack_history import DRAIN, RECOVERY, STARTUP, AckHistory
from bbrgym.conformance.draft_case import SHORT_PATH, Known, draft_case, interrupted
from bbrgym.conformance.setup import (
    MSS_BYTES,
    PATHS,
    CaseSetup,
    Stage,
    limited,
    loses,
    loss_for_gaps,
    paths,
    rate_becomes,
    varied,
)
from bbrgym.conformance.statements import BANDWIDTH_TOLERANCE, PLATEAU_ROUNDS, Statements, Stay

# ---- a plateau ends STARTUP ---------------------------------------------------------------------------

_GROWTH = 1.25
BANDWIDTH_IS_FOUND = "max_bw is within 2 % of the bottleneck's rate"


def _left_startup(history: AckHistory, _: CaseSetup) -> int | None:
    return history.left_startup()


def _states_drain(run: Statements, row: int) -> None:
    out, wanted = run.history["in_flight_pkts"][row], run.history.wanted_pkts(row)
    is_over = run.history.at("phase", row) >= 8 and out <= wanted
    run.goes_to("STARTUP goes over to DRAIN", DRAIN, row, over="DRAIN" if is_over else "")


def _plateau_row(history: AckHistory, *, at_round_starts_only: bool) -> int | None:
    """Return the row at which three rounds without growth by a quarter are over, by the samples alone."""
    samples, starts = history.sample_mbps(MSS_BYTES), history.round_starts()
    full_mbps, rounds = 0.0, 0
    for row in range(len(history)):
        if history["is_app_limited"][row] or (at_round_starts_only and not starts[row]):
            continue
        if samples[row] >= _GROWTH * full_mbps:
            full_mbps, rounds = samples[row], 0
        elif starts[row]:
            rounds += 1
            if rounds == PLATEAU_ROUNDS:
                return row
    return None


@draft_case(
    1,
    conditions=PATHS,
    end=_left_startup,
    known=(
        Known(
            BANDWIDTH_IS_FOUND,
            "A packet takes 186 ms here, and Linux doubles the delay of an ACK each time it is over before a second "
            "packet came: 43, 81 and 163 ms. A sample that begins with such an ACK and ends with one in time is too "
            "short by that: 20 packets in 3.639 s in place of 3.72 s.",
            applies=lambda one: one.rate_mbps == 0.064,
        ),
    ),
)
def startup_plateau(run: Statements) -> None:
    """Exiting STARTUP on Bandwidth Plateau"""
    history, sender = run.history, run.setup.sender
    row = run.needs("STARTUP ends", history.left_startup())
    _states_drain(run, row)
    off = history.mbps("bw_Bps")[row] / run.setup.condition.payload_mbps - 1
    run.states(BANDWIDTH_IS_FOUND, abs(off) <= BANDWIDTH_TOLERANCE, f"max_bw {100 * off:+.2f} %", row)
    count, reached, now = (history.at(name, row) for name in ("full_bw_count", "full_bw_reached", "full_bw_now"))
    is_full = count == PLATEAU_ROUNDS and reached == 1 and (now == 1 or sender.cc != "bbr3")
    is_early = bool((history["full_bw_reached"][:row] == 1).any())
    text = "full_bw_count is 3 when full_bw_now and full_bw_reached become true"
    run.states(text, is_full and not is_early, f"count {count}", row)
    if sender.cc != "bbr3":
        return
    found = _plateau_row(history.ending_at(row), at_round_starts_only=sender.is_draft)
    text = "the samples have grown by less than a quarter in three rounds at this ACK"
    rounds = history.at("round_count", row)
    run.states(text, found == row, f"STARTUP took {rounds} rounds", row if found is None else found)


# ---- loss ends STARTUP --------------------------------------------------------------------------------

_LIMITED_ROUNDS = 4  # of an application that limits STARTUP, before the loss
_LOSSY_ROUNDS = 20  # that the loss may take to end STARTUP
SETS_NOW = "the loss sets full_bw_now and full_bw_reached"


def _is_limited(history: AckHistory, setup: CaseSetup) -> int | None:
    """Return the row from which on the application has limited STARTUP for long enough."""
    limits = (history["is_app_limited"] == 1) & history.is_in(STARTUP)
    begun_us = np.maximum.accumulate(np.where(limits, 0, history["time_us"]))
    return history.first(limits & (history["time_us"] > begun_us + _LIMITED_ROUNDS * 1e6 * setup.condition.turn_s))


def _lossy_end(history: AckHistory, setup: CaseSetup) -> int | None:
    if not setup.moments_s:
        return None
    begun, ended = history.first_after(setup.moments_s[-1]), history.left_startup()
    return ended if ended is not None else history.rounds_later(begun, _LOSSY_ROUNDS)


@draft_case(
    2,
    conditions=paths(least_pkts=80),
    begin=limited,
    stages=(Stage("the application limits STARTUP", _is_limited, loses(lambda one: loss_for_gaps(one.bdp_pkts / 3))),),
    end=_lossy_end,
    not_for={"bbr": "BBR v1 leaves STARTUP by a plateau only"},
    known=(
        Known(
            SETS_NOW,
            "The draft's section on leaving Startup by loss sets full_bw_reached only, as google/bbr does; full_bw_now "
            "belongs to the plateau's detector, and nothing reads it before the next UP resets it.",
        ),
    ),
)
def startup_loss_limited(run: Statements) -> None:
    """Exiting STARTUP on Loss When Application-Limited"""
    history, lossy_s = run.history, run.setup.moments_s[-1]
    row = history.left_startup()
    is_after = row is not None and history.time_s(row) > lossy_s
    ended_s = lossy_s if row is None else history.time_s(row)
    text = "STARTUP lasts until packets are lost"
    run.states(text, row is None or is_after, f"loss from {lossy_s:.3g} s", at_s=ended_s)
    row = run.needs("STARTUP ends by loss", row)
    if not is_after:
        return
    _states_drain(run, row)
    ahead_us = (lossy_s - _LIMITED_ROUNDS / 2 * run.setup.condition.turn_s) * 1e6
    ahead = (history["time_us"] > ahead_us) & (history["time_us"] <= lossy_s * 1e6)
    share = float(history["is_app_limited"][ahead].mean())
    text = "the samples before the loss are application-limited"
    run.states(text, share > 0.9, f"{100 * share:.0f} % of the ACKs", at_s=lossy_s)
    lost, out = history.at("lost_since_pkts", row), history.at("tx_in_flight_pkts", row)
    is_much = lost > run.setup.sender.constant("loss_thresh") * out
    text = "the loss of a round trip exceeds LossThresh, in recovery"
    run.states(text, is_much and history.at("ca_state", row) == RECOVERY, f"{lost} of {out} packets lost", row)
    now, reached = history.at("full_bw_now", row), history.at("full_bw_reached", row)
    run.states(SETS_NOW, (now, reached) == (1, 1), f"full_bw_now {now}, full_bw_reached {reached}", row)


# ---- what is in flight ends DRAIN ---------------------------------------------------------------------

GAIN_OF_DRAFT = "the pacing gain of DRAIN is 0.5"
BY_INFLIGHT = "DRAIN ends at the first ACK with no more than Inflight(1.0) in flight"


def _drain_is_over(history: AckHistory, _: CaseSetup) -> int | None:
    row = history.left_startup()  # with which DRAIN begins; one ACK may end it as well
    return None if row is None else history.first(~history.is_in(DRAIN), row)


def _needs_drain(run: Statements) -> Stay:
    """State that DRAIN begins and ends, and PROBE_BW follows; return its rows."""
    row, end = run.history.left_startup(), _drain_is_over(run.history, run.setup)
    stay = run.needs_stay("DRAIN begins and ends", None if row is None or end is None else (row, end))
    run.goes_to_probe_bw(stay[1])
    return stay


@draft_case(
    3,
    conditions=PATHS,
    end=_drain_is_over,
    known=(
        Known(GAIN_OF_DRAFT, "google/bbr paces with 88/256 in DRAIN, BBRv1 and v2 with 1/2.89.", ("code",)),
        *interrupted(),
    ),
)
def drain_inflight(run: Statements) -> None:
    """Exiting DRAIN Based on Inflight"""
    history = run.history
    row, end = _needs_drain(run)
    if end > row:
        own = run.setup.sender.drain_gain
        run.has_gain("DRAIN", own, (row, end), history["bw_Bps"])
        run.states(GAIN_OF_DRAFT, abs(own - 0.5) < 1e-9, f"its own is {own:.4f}", row)
    is_now = run.setup.sender.is_draft  # what the sender's rules count: in flight now, or when the next packet departs
    out = history["in_flight_pkts"] if is_now else history.departing_pkts("in_flight_pkts", MSS_BYTES)
    target, wanted = history["target_pkts"], history.wanted_pkts(end)
    early = next((at for at in range(row, end) if out[at] <= min(target[at - 1], target[at])), None)
    measured = f"{float(out[end]):.0f} in flight, {wanted} wanted, after {history.rounds(row, end)} rounds"
    run.states(BY_INFLIGHT, early is None and bool(out[end] <= wanted), measured, end if early is None else early)


# ---- time ends DRAIN ----------------------------------------------------------------------------------

_DRAIN_ROUNDS = 3
BY_TIME = "DRAIN ends after more than three rounds with more than Inflight(1.0) in flight"


# The rate falls by a tenth, as the draft says, or by 70 %.
@draft_case(
    4,
    conditions=varied(("-10 %", -10.0), ("-70 %", -70.0)),
    stages=(Stage("DRAIN begins", _left_startup, rate_becomes(lambda one: one.varied_rate_mbps)),),
    end=_drain_is_over,
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
            applies=lambda one: one.amount == -10.0,
        ),
        Known(BY_TIME, SHORT_PATH, applies=lambda one: one.amount != -10.0 and one.bdp_pkts < 20),
        *interrupted(),
    ),
)
def drain_time(run: Statements) -> None:
    """Exiting DRAIN Based on Time"""
    row, end = _needs_drain(run)
    rounds, out, wanted = (
        run.history.rounds(row, end),
        run.history.at("in_flight_pkts", end),
        run.history.wanted_pkts(end),
    )
    text = "DRAIN lasts no longer than to the fourth round after its own"
    run.states(text, rounds <= _DRAIN_ROUNDS + 1, f"{rounds} rounds", end)
    measured = f"after {rounds} rounds, {out} in flight, {wanted} wanted"
    run.states(BY_TIME, rounds == _DRAIN_ROUNDS + 1 and out > wanted, measured, end)
