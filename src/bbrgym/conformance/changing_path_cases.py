# SPDX-License-Identifier: GPL-2.0-only
"""The draft's cases of a rate that rises and one that falls tenfold."""

from __future__ import annotations

import math
from collections.abc import Iterator

from bbrgym.conformance.ack_history import CRUISE, DOWN, NO_RATE, UP, AckHistory
from bbrgym.conformance.bounded_up_cases import lose_in_startup, startup_ends, stop_losing
from bbrgym.conformance.draft_case import DraftCase, DraftStatement, Known, statement
from bbrgym.conformance.moments import end_s, moment_is_there
from bbrgym.conformance.paths import is_long
from bbrgym.conformance.reasons import INTERRUPTED
from bbrgym.conformance.setup import CaseSetup, Condition, Stage


def _cruise_begins(history: AckHistory, setup: CaseSetup) -> int | None:
    return history.entry(CRUISE) if setup.sender.cc != "bbr" else history.first(history.in_probe_bw())


def _ten_times(setup: CaseSetup, history: AckHistory, row: int) -> None:
    setup.change(history.time_s(row), rate_mbps=10 * setup.condition.rate_mbps)


def _tenth(setup: CaseSetup, history: AckHistory, row: int) -> None:
    setup.change(history.time_s(row), rate_mbps=setup.condition.rate_mbps / 10)


def _found_more(history: AckHistory, setup: CaseSetup) -> int | None:
    if not setup.moments_s:
        return None
    row = history.first(history.mbps("bw_Bps") >= 0.9 * 10 * setup.condition.payload_mbps)
    return None if row is None else history.first(history["round_count"] > history["round_count"][row])


def _growth_in_up(history: AckHistory, row: int, end: int, forgets: bool) -> tuple[int, int | None]:
    """Return how often the step of an UP doubled, and the first row at which inflight_hi is not as the draft has it.

    BBRProbeInflightLongtermUpward(): while the bound holds the sender, each window of packets acknowledged raises it by
    2^n packets, n the rounds of this UP that ended so. What was in flight when a packet left raises it too.

    Args:
        history: ACKs of the run.
        row: with which UP begins, with a bound.
        end: first row after it.
        forgets: the packets counted are forgotten when the bound does not hold the sender, as in BBRv2.
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


IN_ROUNDS = "in 4 log2(BDP) rounds of UP"
FINDS = "90 % of the new rate are found"
DOUBLES = "the step by which inflight_longterm grows doubles with each round of UP that it holds back, three times"
GROWS = "at each ACK of UP inflight_longterm grows by this step for each window of packets"
_DOUBLINGS = 3


def _check_more(history: AckHistory, setup: CaseSetup) -> Iterator[DraftStatement]:
    changed_s, full = setup.moments_s[-1], 10 * setup.condition.payload_mbps
    after = history.first(history["time_us"] > changed_s * 1e6)
    found = history.first(history.mbps("bw_Bps") >= 0.9 * full)
    if after is None:
        yield moment_is_there("the rate rises", after, history)
        return
    ups = history.is_in(UP)
    rounds = int((history.round_starts() & ups)[after : found if found is not None else None].sum())
    best = float(history.mbps("bw_Bps")[after:].max())
    most = 4 * math.ceil(math.log2(10 * setup.condition.bdp_pkts))
    if setup.sender.cc == "bbr":
        rounds = int(history.round_starts()[after : found if found is not None else None].sum())
        most = 8 * math.ceil(math.log(10, 1.25)) + 16
    yield statement(
        FINDS,
        found is not None,
        f"max_bw {best:.4g} of {full:.4g} Mbit/s"
        + ("" if found is None else f", {history.time_s(found) - changed_s:.3g} s later"),
        end_s(history),
    )
    yield statement(
        IN_ROUNDS if setup.sender.cc != "bbr" else "in the cycles that a gain of 1.25 takes",
        rounds <= most,
        f"{rounds} rounds of {most}",
        end_s(history) if found is None else history.time_s(found),
    )
    if setup.sender.cc == "bbr":
        return
    probes = [(at, history.end_of(at) or len(history) - 1) for at in history.entries(UP) if at >= after]
    bounded = [(at, end) for at, end in probes if int(history["inflight_hi_pkts"][at]) >= 0]
    ended_s = history.time_s(bounded[0][1]) if bounded else end_s(history)
    grown = [_growth_in_up(history, at, end, setup.sender.cc == "bbr2") for at, end in bounded]
    doublings = max((times for times, _ in grown), default=0)
    yield statement(DOUBLES, doublings >= _DOUBLINGS, f"doublings in one UP: {doublings}", ended_s)
    other = next((row for _, row in grown if row is not None), None)
    acks = sum(end - at for at, end in bounded)
    yield statement(
        GROWS,
        other is None,
        f"in {acks} ACKs" if other is None else f"{int(history['inflight_hi_pkts'][other])} packets",
        ended_s if other is None else history.time_s(other),
    )


_GROWING = (
    Condition(1.0, 1000.0),
    Condition(10.0, 100.0),
    Condition(40.0, 10.0),
    Condition(100.0, 10.0),
    Condition(200.0, 1.0),
    Condition(1000.0, 1.0),
)

_SHORT_UP = (
    "BBRv2's UP ends when 1.25 BDP are in flight, after a round or two, and the step begins at one packet again in the "
    "next one."
)

_LONG_BURSTS = (
    "At 1.5 Gbit/s a burst is 45 packets, a third of the BDP of 131, and BBRv2 counts the one that leaves next as in "
    "flight: 136 and 45 are more than the 1.25 BDP that end UP, so it ends after 1.05 ms each time, with the window at "
    "inflight_longterm, 138 packets, which grows by a packet or none meanwhile."
)

MORE = DraftCase(
    number=15,
    name="bandwidth-up",
    title="Increasing Bandwidth 10x and Ensuring Full Bandwidth is Reached",
    how=(
        "Random loss until STARTUP is over, which sets inflight_longterm; the rate rises tenfold when CRUISE begins, "
        "and the queue holds four of the new BDP."
    ),
    conditions=_GROWING,
    begin=lose_in_startup,
    stages=(
        Stage("STARTUP ends", startup_ends, stop_losing),
        Stage("CRUISE begins", _cruise_begins, _ten_times),
    ),
    end=_found_more,
    check=_check_more,
    known=(
        *(Known(text, INTERRUPTED, applies=is_long) for text in (DOUBLES, FINDS, IN_ROUNDS)),
        *(Known(text, _SHORT_UP, controls=("bbr2",)) for text in (DOUBLES, IN_ROUNDS)),
        Known(FINDS, _LONG_BURSTS, controls=("bbr2",), applies=lambda one: one.rate_mbps >= 1000),
    ),
    queue_bdp=40.0,
    lasts=lambda condition: 40.0 + 200 * condition.turn_s,
)

_FILTER_CYCLES = 2


def _adapted(history: AckHistory, setup: CaseSetup) -> int | None:
    """Return the row after which the filter of max_bw has forgotten the old rate: two cycles."""
    if not setup.moments_s:
        return None
    after = history.first(history["time_us"] > setup.moments_s[-1] * 1e6)
    if after is None:
        return None
    if setup.sender.cc == "bbr":
        return history.first(history["round_count"] > history["round_count"][after] + 12)
    downs = [row for row in history.entries(DOWN) if row > after and history["phase"][row - 1] == UP]
    if len(downs) <= _FILTER_CYCLES:
        return None
    return history.first(history["round_count"] > history["round_count"][downs[_FILTER_CYCLES]] + 1)


LOSES = "losses lower bw_shortterm"
FORGETS = "max_bw is the new rate, within 5 %, once its window has passed"
WINDOW_PASSES = "the window of max_bw passes"

_NO_CYCLE = (
    "The window is two cycles of probing, and it advances only when a round ends in PROBE_BW after UP, not "
    "application-limited. Behind a queue of a BDP of the old rate, ten of the new one, a round is so long that "
    "PROBE_RTT, due every five seconds, ends each cycle before, and the samples after it count as application-limited."
)


def _check_less(history: AckHistory, setup: CaseSetup) -> Iterator[DraftStatement]:
    changed_s, rate = setup.moments_s[-1], setup.condition.payload_mbps / 10
    if setup.sender.cc != "bbr":
        after = history["time_us"] > changed_s * 1e6
        lost = history.first(after & (history["lost_pkts"] > 0))
        low = history.first(after & (history["bw_lo_Bps"] != NO_RATE))
        lost_s = end_s(history) if lost is None else history.time_s(lost)
        yield statement(
            LOSES,
            low is not None and lost is not None,
            "nothing was lost"
            if lost is None
            else "no bound was set"
            if low is None
            else f"{history.time_s(low) - lost_s:.3g} s after the first loss",
            lost_s,
        )
        if low is not None:
            lows = history.mbps("bw_lo_Bps")[low:]
            most = (1 - setup.sender.constant("beta")) * float(history.mbps("bw_Bps")[low])
            yield statement(
                "and falls to Beta times max_bw at least, before the next probe",
                bool(lows.min() <= 1.001 * most),
                f"down to {lows.min():.4g} of {float(history.mbps('bw_Bps')[low]):.4g} Mbit/s",
                end_s(history),
            )
    row = _adapted(history, setup)
    yield moment_is_there(WINDOW_PASSES, row, history)
    if row is None:
        return
    bw = float(history.mbps("bw_Bps")[row])
    yield statement(FORGETS, abs(bw / rate - 1) <= 0.05, f"max_bw {bw:.4g} of {rate:.4g} Mbit/s", history.time_s(row))


_SHRINKING = (
    Condition(1.0, 10_000.0),
    Condition(10.0, 1000.0),
    Condition(40.0, 100.0),
    Condition(100.0, 100.0),
    Condition(200.0, 10.0),
    Condition(1000.0, 10.0),
)

LESS = DraftCase(
    number=16,
    name="bandwidth-down",
    title="Decreasing Bandwidth 10x and Ensuring Max Bandwidth Adapts Down",
    how="A bulk flow behind a queue of one BDP; the rate falls to a tenth when CRUISE begins.",
    conditions=_SHRINKING,
    stages=(Stage("CRUISE begins", _cruise_begins, _tenth),),
    end=_adapted,
    check=_check_less,
    known=(
        Known(
            LOSES,
            "BBRv2 leaves STARTUP by loss with the BDP as inflight_longterm: less headroom a window of 718 packets, "
            "which the queue of 840 holds.",
            applies=is_long,
            controls=("bbr2",),
        ),
        Known(FORGETS, _NO_CYCLE, applies=is_long),
        Known(WINDOW_PASSES, _NO_CYCLE, applies=is_long),
    ),
    queue_bdp=1.0,
    least_queue_pkts=8,
    lasts=lambda condition: 60.0 + 300 * condition.turn_s,
)
