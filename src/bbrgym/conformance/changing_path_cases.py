# SPDX-License-Identifier: GPL-2.0-only
"""The draft's cases of a rate that rises and one that falls tenfold."""

from __future__ import annotations

import itertools
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


def _steps_of_up(history: AckHistory, row: int, end: int) -> list[int]:
    """Return how much inflight_hi grew in each whole round of an UP."""
    starts = [at for at in range(row + 1, end) if history["round_count"][at] != history["round_count"][at - 1]]
    levels = [int(history["inflight_hi_pkts"][at]) for at in (row, *starts)]
    return [after - before for before, after in itertools.pairwise(levels)]


IN_ROUNDS = "in 4 log2(BDP) rounds of UP"
FINDS = "90 % of the new rate are found"
DOUBLES = "the step by which inflight_longterm grows doubles from round to round of an UP, three times in a row"


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
    steps = max((_steps_of_up(history, at, end) for at, end in bounded), key=len, default=[])
    yield statement(
        DOUBLES,
        _longest_doubling(steps) >= _DOUBLINGS,
        f"steps {', '.join(map(str, steps))}",
        history.time_s(bounded[0][1]) if bounded else end_s(history),
    )


_DOUBLINGS = 3
_LEAST_DOUBLING, _MOST_DOUBLING = 1.3, 3.0  # of whole packets


def _longest_doubling(steps: list[int]) -> int:
    """Return how many steps in a row are about twice the one before."""
    longest = now = 0
    for one, two in itertools.pairwise(steps):
        now = now + 1 if one > 0 and _LEAST_DOUBLING <= two / one <= _MOST_DOUBLING else 0
        longest = max(longest, now)
    return longest


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
