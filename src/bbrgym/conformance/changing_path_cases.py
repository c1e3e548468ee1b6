# SPDX-License-Identifier: GPL-2.0-only
"""The draft's cases of a rate that rises and one that falls tenfold."""

from __future__ import annotations

import math

from bbrgym.conformance.ack_history import CRUISE, DOWN, NO_RATE, UP, AckHistory
from bbrgym.conformance.draft_case import Known, draft_case, interrupted
from bbrgym.conformance.setup import CaseSetup, Stage, conditions, is_long, rate_becomes
from bbrgym.conformance.statements import Statements
from bbrgym.conformance.up_cases import LOSES_UNTIL_STARTUP_ENDS, lose_in_startup


def _cruise_begins(history: AckHistory, setup: CaseSetup) -> int | None:
    return history.entry(CRUISE) if setup.sender.cc != "bbr" else history.first(history.in_probe_bw())


# ---- the rate rises -----------------------------------------------------------------------------------

IN_ROUNDS = "in 4 log2(BDP) rounds of UP"
FINDS = "90 % of the new rate are found"
DOUBLES = "the step by which inflight_longterm grows doubles with each round of UP that it holds back, three times"
GROWS = "at each ACK of UP inflight_longterm grows by this step for each window of packets"
_DOUBLINGS = 3


def _found_more(history: AckHistory, setup: CaseSetup) -> int | None:
    if not setup.moments_s:
        return None
    return history.rounds_later(history.first(history.mbps("bw_Bps") >= 0.9 * 10 * setup.condition.payload_mbps), 0)


def _growth_in_up(history: AckHistory, row: int, end: int, forgets: bool) -> tuple[int, int | None]:
    """Return how often the step of an UP doubled, and the first row at which inflight_hi is not as the draft has it.

    BBRProbeInflightLongtermUpward(): while the bound holds the sender, each window of packets acknowledged raises it by
    2^n packets, n the rounds of this UP that ended so. What was in flight when a packet left raises it too. BBRv2
    forgets the packets counted when the bound does not hold the sender.
    """
    names = ("inflight_hi_pkts", "cwnd_pkts", "tx_in_flight_pkts", "delivered_pkts", "is_cwnd_limited", "round_count")
    bounds, windows, in_flight, delivered, limited, rounds = (history[name][row - 1 : end].tolist() for name in names)
    doublings, window, acked = 0, windows[0], 0
    for at in range(2, len(bounds)):
        expected = max(bounds[at - 1], in_flight[at])
        if limited[at] and windows[at - 1] >= expected:
            acked += delivered[at] - delivered[at - 1]
            steps, acked = divmod(acked, max(window >> doublings, 1))
            expected += steps
            if rounds[at] != rounds[at - 1]:
                doublings, window = doublings + 1, windows[at - 1]
        elif forgets:
            acked = 0
        if bounds[at] != expected:
            return doublings, row - 1 + at
    return doublings, None


_SHORT_UP = (
    "BBRv2's UP ends when 1.25 BDP are in flight, after a round or two, and the step begins at one packet again in the "
    "next one."
)
_LONG_BURSTS = (
    "At 1.5 Gbit/s a burst is 45 packets, a third of the BDP of 131, and BBRv2 counts the one that leaves next as in "
    "flight: 136 and 45 are more than the 1.25 BDP that end UP, so it ends after 1.05 ms each time, with the window at "
    "inflight_longterm, 138 packets, which grows by a packet or none meanwhile."
)


@draft_case(
    15,
    conditions=conditions((1.0, 1000.0), (10.0, 100.0), (40.0, 10.0), (100.0, 10.0), (200.0, 1.0), (1000.0, 1.0)),
    begin=lose_in_startup,
    stages=(
        LOSES_UNTIL_STARTUP_ENDS,
        Stage("CRUISE begins", _cruise_begins, rate_becomes(lambda one: 10 * one.rate_mbps)),
    ),
    end=_found_more,
    known=(
        *interrupted(DOUBLES, FINDS, IN_ROUNDS),
        *(Known(text, _SHORT_UP, controls=("bbr2",)) for text in (DOUBLES, IN_ROUNDS)),
        Known(FINDS, _LONG_BURSTS, controls=("bbr2",), applies=lambda one: one.rate_mbps >= 1000),
    ),
    queue_bdp=40.0,
    lasts=lambda condition: 40.0 + 200 * condition.turn_s,
)
def bandwidth_up(run: Statements) -> None:
    """Increasing Bandwidth 10x and Ensuring Full Bandwidth is Reached"""
    history, cc, changed_s = run.history, run.setup.sender.cc, run.setup.moments_s[-1]
    full = 10 * run.setup.condition.payload_mbps
    after = history.first_after(changed_s)
    found = history.first(history.mbps("bw_Bps") >= 0.9 * full)
    if after is None:
        run.needs("the rate rises", after)
        return
    best, end = float(history.mbps("bw_Bps")[after:].max()), -1 if found is None else found
    delay = "" if found is None else f", {history.time_s(found) - changed_s:.3g} s later"
    run.states(FINDS, found is not None, f"max_bw {best:.4g} of {full:.4g} Mbit/s{delay}")
    if cc == "bbr":
        rounds = int(history.round_starts()[after:found].sum())
        most = 8 * math.ceil(math.log(10, 1.25)) + 16
        run.states("in the cycles that a gain of 1.25 takes", rounds <= most, f"{rounds} rounds of {most}", end)
        return
    rounds = int((history.round_starts() & history.is_in(UP))[after:found].sum())
    most = 4 * math.ceil(math.log2(10 * run.setup.condition.bdp_pkts))
    run.states(IN_ROUNDS, rounds <= most, f"{rounds} rounds of {most}", end)
    probes = [(at, history.end_of(at) or len(history) - 1) for at in history.entries(UP) if at >= after]
    bounded = [(at, end) for at, end in probes if history.at("inflight_hi_pkts", at) >= 0]
    ended = bounded[0][1] if bounded else -1
    grown = [_growth_in_up(history, at, end, cc == "bbr2") for at, end in bounded]
    doublings = max((times for times, _ in grown), default=0)
    run.states(DOUBLES, doublings >= _DOUBLINGS, f"doublings in one UP: {doublings}", ended)
    other = next((row for _, row in grown if row is not None), None)
    acks = sum(end - at for at, end in bounded)
    measured = f"in {acks} ACKs" if other is None else f"{history.at('inflight_hi_pkts', other)} packets"
    run.states(GROWS, other is None, measured, ended if other is None else other)


# ---- the rate falls -----------------------------------------------------------------------------------

_FILTER_CYCLES = 2
LOSES = "losses lower bw_shortterm"
FORGETS = "max_bw is the new rate, within 5 %, once its window has passed"
WINDOW_PASSES = "the window of max_bw passes"


def _adapted(history: AckHistory, setup: CaseSetup) -> int | None:
    """Return the row after which the filter of max_bw has forgotten the old rate: two cycles."""
    after = history.first_after(setup.moments_s[-1]) if setup.moments_s else None
    if after is None:
        return None
    if setup.sender.cc == "bbr":
        return history.rounds_later(after, 12)
    downs = [row for row in history.entries(DOWN) if row > after and history["phase"][row - 1] == UP]
    return history.rounds_later(downs[_FILTER_CYCLES], 1) if len(downs) > _FILTER_CYCLES else None


def _states_losses(run: Statements, changed_s: float) -> None:
    history = run.history
    after = history["time_us"] > changed_s * 1e6
    lost = history.first(after & (history["lost_pkts"] > 0))
    low = history.first(after & (history["bw_lo_Bps"] != NO_RATE))
    lost_s = history.end_s if lost is None else history.time_s(lost)
    measured = "nothing was lost" if lost is None else "no bound was set"
    if low is not None and lost is not None:
        measured = f"{history.time_s(low) - lost_s:.3g} s after the first loss"
    run.states(LOSES, low is not None and lost is not None, measured, at_s=lost_s)
    if low is None:
        return
    least, bw = history.mbps("bw_lo_Bps")[low:].min(), float(history.mbps("bw_Bps")[low])
    is_low = bool(least <= 1.001 * ((1 - run.setup.sender.constant("beta")) * bw))
    text = "and falls to Beta times max_bw at least, before the next probe"
    run.states(text, is_low, f"down to {least:.4g} of {bw:.4g} Mbit/s")


_NO_CYCLE = (
    "The window is two cycles of probing, and it advances only when a round ends in PROBE_BW after UP, not "
    "application-limited. Behind a queue of a BDP of the old rate, ten of the new one, a round is so long that "
    "PROBE_RTT, due every five seconds, ends each cycle before, and the samples after it count as application-limited."
)


@draft_case(
    16,
    conditions=conditions(
        (1.0, 10_000.0), (10.0, 1000.0), (40.0, 100.0), (100.0, 100.0), (200.0, 10.0), (1000.0, 10.0)
    ),
    stages=(Stage("CRUISE begins", _cruise_begins, rate_becomes(lambda one: one.rate_mbps / 10)),),
    end=_adapted,
    known=(
        Known(
            LOSES,
            "BBRv2 leaves STARTUP by loss with the BDP as inflight_longterm: less headroom a window of 718 packets, "
            "which the queue of 840 holds.",
            applies=is_long,
            controls=("bbr2",),
        ),
        *(Known(text, _NO_CYCLE, applies=is_long) for text in (FORGETS, WINDOW_PASSES)),
    ),
    queue_bdp=1.0,
    least_queue_pkts=8,
    lasts=lambda condition: 60.0 + 300 * condition.turn_s,
)
def bandwidth_down(run: Statements) -> None:
    """Decreasing Bandwidth 10x and Ensuring Max Bandwidth Adapts Down"""
    if run.setup.sender.cc != "bbr":
        _states_losses(run, run.setup.moments_s[-1])
    row = run.needs(WINDOW_PASSES, _adapted(run.history, run.setup))
    bw, rate = float(run.history.mbps("bw_Bps")[row]), run.setup.condition.payload_mbps / 10
    run.states(FORGETS, abs(bw / rate - 1) <= 0.05, f"max_bw {bw:.4g} of {rate:.4g} Mbit/s", row)
