# SPDX-License-Identifier: GPL-2.0-only
"""The draft's cases of what ends UP, of a sender that its application limits."""

from __future__ import annotations

import math

import numpy as np

from bbrgym.conformance.ack_history import DOWN, PROBE_RTT, STARTUP, UP, AckHistory
from bbrgym.conformance.draft_case import V1_CYCLES, Known, draft_case, interrupted
from bbrgym.conformance.setup import PATHS, CaseSetup, Stage, ahead, limited, loses, loss_for_gaps, outgrown, paths
from bbrgym.conformance.statements import PLATEAU_ROUNDS, Statements, Stay, end_of, whole_stay

LOSES_A_TENTH = loses(lambda condition: loss_for_gaps(condition.bdp_pkts))


#: Doubles the bottleneck's rate when the first UP begins.
UP_BEGINS = Stage("UP begins", lambda history, _: history.entry(UP), outgrown)


# ---- a plateau ends UP --------------------------------------------------------------------------------


def _whole_up(history: AckHistory, _: CaseSetup) -> Stay | None:
    return whole_stay(history, history.entries(UP))


@draft_case(
    5,
    conditions=PATHS,
    end=end_of(_whole_up),
    not_for={**V1_CYCLES, "bbr2": "BBRv2's UP ends when 1.25 BDP are in flight"},
    known=tuple(interrupted()),
)
def up_plateau(run: Statements) -> None:
    """Exiting PROBE_UP on Bandwidth Plateau"""
    history = run.history
    row, end = run.needs_stay("UP begins and ends", _whole_up(history, run.setup))
    lost = int(history["lost_pkts"][row : end + 1].sum())
    run.states("nothing is lost in UP", lost == 0, f"{lost} packets", end)
    count, rounds = history.at("full_bw_count", end), history.rounds(row, end)
    is_full = count == PLATEAU_ROUNDS and history.at("full_bw_now", end) == 1
    is_in_time = history.first(history["full_bw_now"][row:end] == 1) is None and rounds >= PLATEAU_ROUNDS
    text = "UP ends when full_bw_count reaches 3 and full_bw_now becomes true"
    run.states(text, is_full and is_in_time, f"count {count} after {rounds} rounds", end)
    run.goes_to("DOWN follows", DOWN, end)


# ---- loss ends an UP that the application limits ------------------------------------------------------

UPDATES_HI = "inflight_longterm is updated, though the samples are application-limited"


def _up_is_limited(history: AckHistory, setup: CaseSetup) -> int | None:
    """Return the row from which on the application limits the UP in which the bottleneck outgrew it."""
    row = None if not setup.moments_s else history.first(history["time_us"] >= setup.moments_s[0] * 1e6)
    if row is None:
        return None
    return history.first((history["is_app_limited"] == 1) & history.is_in(UP), row)


def _limited_up(history: AckHistory, setup: CaseSetup) -> Stay | None:
    """Return begin and end of the UP that the application limited."""
    if len(setup.moments_s) < 2 or history.end_s <= setup.moments_s[-1]:
        return None
    rows = [row for row in history.entries(UP) if history.time_s(row) <= setup.moments_s[-1]]
    end = history.end_of(rows[-1]) if rows else None
    return None if end is None else (rows[-1], end)


def _bound(pkts: int) -> str:
    return "none" if pkts < 0 else f"{pkts}"


@draft_case(
    6,
    conditions=paths(least_pkts=80),
    begin=ahead,
    stages=(UP_BEGINS, Stage("the application limits UP", _up_is_limited, LOSES_A_TENTH)),
    end=end_of(_limited_up),
    not_for=V1_CYCLES,
    known=(
        Known(
            UPDATES_HI,
            "The draft's HandleInflightTooHigh() leaves inflight_longterm as it is where RS.is_app_limited holds; the "
            "case's last step contradicts it.",
        ),
        *interrupted(),
    ),
)
def up_loss_limited(run: Statements) -> None:
    """Exiting PROBE_UP on Loss When Application-Limited"""
    history, lossy_s = run.history, run.setup.moments_s[-1]
    row, end = run.needs_stay("UP ends by loss", _limited_up(history, run.setup))
    at_s = history.time_s(end)
    run.states("UP lasts until packets are lost", at_s >= lossy_s, f"loss from {lossy_s:.6g} s", end)
    run.goes_down(end)
    marked = int(history["lost_pkts"][row : end + 1].sum())
    lossy = history.first(history["time_us"] >= lossy_s * 1e6) or row
    text = "the sender marked packets lost, from three rounds ago on at most"
    measured = f"{marked} packets, {at_s - lossy_s:.3g} s after the first could be"
    run.states(text, marked > 0 and history.rounds(lossy, end) <= 3, measured, end)
    limited_acks = int(history["is_app_limited"][row : end + 1].sum())
    measured = f"{limited_acks} of {end + 1 - row} ACKs of UP"
    run.states("the samples are application-limited", bool(history["is_app_limited"][end]), measured, end)
    before, after = (history.at("inflight_hi_pkts", at) for at in (end - 1, end))
    run.states(UPDATES_HI, before != after, f"{_bound(before)} before, {_bound(after)} after", end)


# ---- an application that limits the sender ends neither STARTUP nor UP --------------------------------

LIMITS = "nothing is lost and most samples are application-limited"
STAYS = "the sender stays where it is"
_INDEFINITELY = (
    "PROBE_RTT is due five seconds after the last smaller RTT, in UP and STARTUP too: an application-limited flow that "
    "does not fall idle has no smaller one. After PROBE_RTT STARTUP goes on, UP does not: DOWN and CRUISE follow."
)


def _long_after(history: AckHistory, setup: CaseSetup) -> int | None:
    begun_us = setup.moments_s[-1] * 1e6 if setup.moments_s else 0.0
    left = ~history.is_in(UP if setup.moments_s else STARTUP) & (history["time_us"] > begun_us)
    late = history["time_us"] > begun_us + 8e6 + 20e6 * setup.condition.turn_s
    return history.first(left | late)


@draft_case(
    7,
    conditions=paths(most_mbps=1000),
    begin=limited,
    end=_long_after,
    lasts=lambda condition: 9.0 + 25 * condition.turn_s,
    known=(Known(STAYS, _INDEFINITELY), *interrupted(LIMITS)),
)
def never_exiting_startup(run: Statements) -> None:
    """Never Exiting PROBE_UP (or STARTUP) When Application-Limited With No Loss"""
    history, moments_s = run.history, run.setup.moments_s
    phase, row = STARTUP, history.first(history["is_app_limited"] == 1) or 0
    if moments_s:
        begun = run.needs("UP begins", history.entry(UP))
        phase, row = UP, history.first(history["time_us"] >= moments_s[-1] * 1e6) or begun
    left = history.first(history["phase"] != phase, row)
    share = float(history["is_app_limited"][row:left].mean())
    is_lossless = int(history["lost_pkts"][row:left].sum()) == 0
    run.states(LIMITS, is_lossless and share > 0.5, f"{100 * share:.0f} % of the ACKs", row)
    end = -1 if left is None else left
    is_in_time = left is None or history.at("phase", left) == PROBE_RTT
    measured = "" if left is None else f"phase {history.at('phase', left)}"
    run.states("it leaves for PROBE_RTT at most", is_in_time, measured, end)
    run.states(STAYS, left is None, f"for {history.time_s(end) - history.time_s(row):.3g} s", end)


@draft_case(
    7,
    conditions=paths(least_pkts=80, most_mbps=1000),
    begin=ahead,
    stages=(UP_BEGINS, Stage("the application limits UP", _up_is_limited, lambda *_: None)),
    end=_long_after,
    not_for=V1_CYCLES,
    known=(Known(STAYS, _INDEFINITELY),),
)
def never_exiting_up(run: Statements) -> None:
    """Never Exiting PROBE_UP (or STARTUP) When Application-Limited With No Loss"""
    never_exiting_startup(run)


# ---- loss ends an UP that has a bound -----------------------------------------------------------------


def lose_in_startup(setup: CaseSetup) -> None:
    """Lose packets from the beginning, so that STARTUP ends with a bound of what may be in flight."""
    rate = min(0.2, max(0.05, 12 / setup.condition.bdp_pkts))
    setup.link["loss"] = {"kind": "bernoulli", "rate": rate}


#: Ends the loss of `lose_in_startup`.
LOSES_UNTIL_STARTUP_ENDS = Stage(
    "STARTUP ends", lambda history, _: history.first(~history.is_in(STARTUP)), loses(lambda _: 0.0)
)


def _bounded_up(history: AckHistory, _: CaseSetup) -> int | None:
    """Return the row with which the first UP that has a bound begins."""
    return next((row for row in history.entries(UP) if history["inflight_hi_pkts"][row] >= 0), None)


@draft_case(
    21,
    conditions=paths(least_pkts=80),
    begin=lose_in_startup,
    stages=(LOSES_UNTIL_STARTUP_ENDS, Stage("UP begins", _bounded_up, LOSES_A_TENTH)),
    end=lambda history, setup: history.end_of(_bounded_up(history, setup)),
    not_for=V1_CYCLES,
    known=tuple(interrupted()),
)
def up_loss_bounded(run: Statements) -> None:
    """Handling Loss During PROBE_UP After inflight_longterm is Set"""
    history = run.history
    row = run.needs("UP begins with inflight_longterm set", _bounded_up(history, run.setup))
    end = run.needs("UP ends", history.end_of(row))
    run.uninterrupted(end)
    marked = np.flatnonzero(history["lost_pkts"][row : end + 1])
    run.states("packets are lost in UP", len(marked) > 0, f"{len(marked)} ACKs reported of losses", end)
    run.goes_down(end, "DOWN follows at once")
    run.states("the plateau did not end UP", history.at("full_bw_now", end) == 0, "full_bw_now is false", end)
    before, after = (history.at("inflight_hi_pkts", at) for at in (end - 1, end))
    target = min(history.at("target_pkts", end - 1), history.at("cwnd_pkts", end - 1))
    least = (1 - run.setup.sender.constant("beta")) * target
    columns = ("tx_in_flight_pkts", "prior_in_flight_pkts")  # the first of packets that arrived only
    most = max(int(history[name][row : end + 1].max()) for name in columns)
    run.states(
        "inflight_longterm is what was in flight when too much was lost, 0.7 of the target at least",
        after < before + 1 and math.floor(least) <= after <= max(most, math.ceil(least)),
        f"{before} before, {after} after; 0.7 of the target is {least:.1f}, in flight were up to {most}",
        end,
    )
