# SPDX-License-Identifier: GPL-2.0-only
"""The draft's cases of PROBE_RTT, of aggregation, of small and changing paths, and of policers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from bbrgym.conformance.ack_history import (
    CRUISE,
    DOWN,
    NO_RATE,
    PROBE_RTT,
    UP,
    AckHistory,
)
from bbrgym.conformance.draft_case import DraftCase, DraftStatement, Known, statement
from bbrgym.conformance.probe_cases import lose_in_startup, startup_ends, stop_losing
from bbrgym.conformance.setup import MSS_BYTES, CaseSetup, Condition, Stage, ahead, silent_from
from bbrgym.conformance.startup_cases import (
    INTERRUPTED,
    PATHS,
    PROBE_RTT_BEGINS,
    RENEWED,
    aggregating,
    end_s,
    is_long,
    moment_is_there,
)

_FLOOR_PKTS = 4
_MARGIN = 0.99
_PROBE_RTT_S = 0.2
_V1_BOUNDS = "BBR v1 has no bounds that losses set"


# ---- PROBE_RTT --------------------------------------------------------------------------------------------


def _late_probe_rtt(history: AckHistory) -> int | None:
    """Return the row with which the first PROBE_RTT after PROBE_BW begins."""
    row = history.first(history.in_probe_bw())
    return None if row is None else history.entry(PROBE_RTT, after=row)


def _resumed(history: AckHistory, _: CaseSetup) -> int | None:
    row = _late_probe_rtt(history)
    end = None if row is None else history.end_of(row)
    return None if end is None else history.first(history["round_count"] > history["round_count"][end] + 3)


CWND_GAIN = "the window is ProbeRTTCwndGain (0.5) times the BDP, four packets at least"


def _check_probe_rtt(history: AckHistory, setup: CaseSetup) -> Iterator[DraftStatement]:
    row = _late_probe_rtt(history)
    yield moment_is_there(PROBE_RTT_BEGINS, row, history)
    if row is None:
        return
    at_s = history.time_s(row)
    if setup.sender.cc != "bbr":
        idle_s = at_s - float(history["probe_rtt_min_stamp_us"][row - 1]) / 1e6
        interval_s = setup.sender.probe_rtt_interval_s
        yield statement(
            "it begins once ProbeRTTInterval has passed since probe_rtt_min_delay was measured",
            interval_s < idle_s <= interval_s + 2 * setup.condition.turn_s + _queue_s(history, row),
            f"{idle_s:.4g} s",
            at_s,
        )
    end = history.end_of(row)
    yield moment_is_there("PROBE_RTT ends", end, history)
    if end is None:
        return
    part = 0.0 if setup.sender.cc == "bbr" else setup.sender.constant("probe_rtt_gain")
    bdp = history["bw_Bps"][row:end] * history["min_rtt_us"][row:end] / (1e6 * MSS_BYTES)
    most = np.maximum(_FLOOR_PKTS, np.ceil(part * bdp + 1e-6) + 1)
    above = history.first(history["cwnd_pkts"][row:end] > most)
    text = CWND_GAIN if part else "the window is four packets"
    yield statement(
        text,
        above is None,
        f"cwnd {int(history['cwnd_pkts'][end - 1])}, BDP {float(bdp[-1]):.1f} packets",
        at_s if above is None else history.time_s(row + above),
    )
    down = history.first(history["in_flight_pkts"][row:end] <= history["cwnd_pkts"][row:end])
    stay_s = history.time_s(end) - history.time_s(row + (down or 0))
    rounds = int(history["round_count"][end] - history["round_count"][row + (down or 0)])
    yield statement(
        "it lasts for ProbeRTTDuration and a round from when no more than the window is in flight",
        down is not None and stay_s > _PROBE_RTT_S and rounds >= 1,
        f"{stay_s:.4g} s, {rounds} rounds",
        history.time_s(end),
    )
    late_s = stay_s - max(_PROBE_RTT_S, setup.condition.turn_s)
    yield statement(
        "and not for two rounds more",
        late_s <= 2 * setup.condition.turn_s + 0.05,
        f"{late_s:.3g} s longer",
        history.time_s(end),
    )
    phase = int(history["phase"][end])
    yield statement("PROBE_BW follows", phase >= 8, f"phase {phase}", history.time_s(end))
    out = int(history["in_flight_pkts"][end:].max())
    yield statement(
        "sending resumes",
        out > min(int(history["cwnd_pkts"][end - 1]), 0.8 * setup.condition.bdp_pkts),
        f"up to {out} packets in flight",
        end_s(history),
    )


def _queue_s(history: AckHistory, row: int) -> float:
    """Return the round trip of the last RTT sample before a row."""
    samples = history["rtt_us"][:row]
    return float(samples[samples >= 0][-1]) / 1e6


ENTER_PROBE_RTT = DraftCase(
    number=10,
    name="probe-rtt",
    title="Entering and Exiting PROBE_RTT",
    how="A bulk flow and a queue of four BDP, until three rounds after the first PROBE_RTT that ends PROBE_BW.",
    conditions=tuple(one for one in PATHS if one.rate_mbps <= 1000),
    end=_resumed,
    check=_check_probe_rtt,
    known=(Known(PROBE_RTT_BEGINS, RENEWED, controls=("bbr2",)),),
    lasts=lambda condition: 25.0 + 60 * condition.turn_s,
)

_IDLE_S = 6.0


def _is_cruising(history: AckHistory, _: CaseSetup) -> int | None:
    """Return a row in PROBE_BW, well before PROBE_RTT is due."""
    return history.first(history.in_probe_bw())


def _pause(setup: CaseSetup, history: AckHistory, row: int) -> None:
    idle_s = _IDLE_S if setup.sender.cc != "bbr" else setup.sender.probe_rtt_interval_s + 1
    silent_from(setup, history, row, history.time_s(row) + idle_s + 2 * setup.condition.turn_s)


def _after_pause(history: AckHistory, setup: CaseSetup) -> int | None:
    row = _resumption(history, setup)
    return None if row is None else history.first(history["round_count"] > history["round_count"][row] + 5)


def _resumption(history: AckHistory, setup: CaseSetup) -> int | None:
    """Return the first ACK after the application's pause."""
    if setup.resumed_s is None:
        return None
    return history.first(history["time_us"] > setup.resumed_s * 1e6)


def _check_idle(history: AckHistory, setup: CaseSetup) -> Iterator[DraftStatement]:
    row = _resumption(history, setup)
    yield moment_is_there("an ACK follows the pause", row, history)
    if row is None:
        return
    at_s = history.time_s(row)
    idle_s = at_s - history.time_s(row - 1)
    yield statement(
        "nothing is in flight in the pause, which exceeds ProbeRTTInterval",
        int(history["in_flight_pkts"][row - 1]) == 0 and idle_s > setup.sender.probe_rtt_interval_s,
        f"{int(history['in_flight_pkts'][row - 1])} in flight for {idle_s:.3g} s",
        at_s,
    )
    if setup.sender.cc != "bbr":
        stamp_s = float(history["probe_rtt_min_stamp_us"][row]) / 1e6
        yield statement(
            "the interval was over, and the first ACK begins a new one",
            abs(stamp_s - at_s) < 1e-3 or stamp_s > at_s - setup.sender.probe_rtt_interval_s,
            f"probe_rtt_min_delay measured {at_s - stamp_s:.3g} s before",
            at_s,
        )
    soon = history["time_us"] < (at_s + setup.sender.probe_rtt_interval_s) * 1e6
    found = history.first(history.is_in(PROBE_RTT) & soon, row)
    yield statement(
        "PROBE_RTT is skipped",
        found is None and int(history["phase"][row]) != PROBE_RTT,
        f"for {min(end_s(history) - at_s, setup.sender.probe_rtt_interval_s):.3g} s",
        at_s if found is None else history.time_s(found),
    )


SKIP_PROBE_RTT = DraftCase(
    number=11,
    name="probe-rtt-idle",
    title="Skipping PROBE_RTT Due to Application-Limited Sending",
    how="The application stops when PROBE_BW begins and goes on after six seconds (v1: eleven) and two round trips.",
    conditions=tuple(one for one in PATHS if one.bdp_pkts >= 20),
    begin=ahead,
    stages=(Stage("PROBE_BW begins", _is_cruising, _pause),),
    end=_after_pause,
    check=_check_idle,
    lasts=lambda condition: 30.0 + 80 * condition.turn_s,
)

# ---- aggregation ------------------------------------------------------------------------------------------

_CRUISE_SHARE = 0.95
_CRUISE_ROUNDS = 6


def _long_cruise(history: AckHistory) -> tuple[int, int] | None:
    """Return the bounds of the first stay of some rounds in CRUISE, or for BBR v1 in PROBE_BW."""
    inside = history.is_in(CRUISE, 12, 13, 14, 15)
    edges = np.flatnonzero(np.diff(np.concatenate(([0], inside.astype(int), [0]))))
    for row, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        last = min(end, len(history) - 1)
        if int(history["round_count"][last] - history["round_count"][row]) >= _CRUISE_ROUNDS:
            return row, last
    return None


def _cruised(history: AckHistory, _: CaseSetup) -> int | None:
    found = _long_cruise(history)
    if found is None or found[1] == len(history) - 1:
        return None
    return found[1]


LONG_CRUISE = "CRUISE lasts for six rounds"


def _check_cruise_aggregation(history: AckHistory, setup: CaseSetup) -> Iterator[DraftStatement]:
    found = _long_cruise(history)
    yield moment_is_there(LONG_CRUISE, None if found is None else found[1], history)
    if found is None:
        return
    row, end = found
    extra = history["extra_acked_pkts"][row:end]
    yield statement(
        "extra_acked is above 0", bool((extra > 0).all()), f"{int(extra.max())} packets", history.time_s(row)
    )
    starts = np.flatnonzero(history.round_starts()[row:end])
    changes = np.flatnonzero(np.diff(extra.astype(float)) < 0)
    is_windowed = bool(np.isin(changes + 1, starts).all())
    yield statement(
        "extra_acked falls at the starts of rounds only, as a maximum over rounds does",
        is_windowed,
        f"it fell {len(changes)} times",
        history.time_s(row),
    )
    bdp = history["bw_Bps"][row:end] * history["min_rtt_us"][row:end] / (1e6 * MSS_BYTES)
    least = float((history["cwnd_pkts"][row:end] - 2 * bdp).min())
    at = row + int((history["cwnd_pkts"][row:end] - 2 * bdp).argmin())
    bounded = (history["inflight_hi_pkts"][at] >= 0) or (history["inflight_lo_pkts"][at] >= 0)
    yield statement(
        "cwnd is 2 BDP and extra_acked",
        bounded or least >= min(1, int(extra.min())),
        f"at least {least:.1f} packets above 2 BDP",
        history.time_s(at),
    )
    delivered = int(history["delivered_pkts"][end] - history["delivered_pkts"][row])
    span_s = history.time_s(end) - history.time_s(row)
    share = delivered * MSS_BYTES * 8e-6 / span_s / setup.condition.payload_mbps
    yield statement(
        "the bottleneck is used to 95 %", share >= _CRUISE_SHARE, f"{100 * share:.1f} %", history.time_s(end)
    )


CRUISE_AGGREGATION = DraftCase(
    number=13,
    name="cruise-aggregation",
    title="Achieving Expected Cruise Bandwidth on a Link With Aggregation",
    how=(
        "A bulk flow whose ACKs leave the receiver in slots of half a round trip, over the first stay of six rounds in "
        "CRUISE."
    ),
    conditions=tuple(one for one in PATHS if one.bdp_pkts >= 20),
    begin=aggregating,
    bursts_of_acks=True,
    end=_cruised,
    check=_check_cruise_aggregation,
    not_for={"bbr": "BBR v1 has no CRUISE: it is in a phase of its cycle for one round trip"},
    known=(Known(LONG_CRUISE, INTERRUPTED, applies=is_long),),
)

# ---- small paths ------------------------------------------------------------------------------------------


def _three_seconds_of_probe_bw(history: AckHistory, setup: CaseSetup) -> int | None:
    row = history.first(history.in_probe_bw())
    if row is None:
        return None
    return history.first(history["time_us"] > history["time_us"][row] + 4e6 + 40e6 * setup.condition.turn_s)


KEEPS_FLOOR = "cwnd is MinPipeCwnd (4 packets) at least"
PACES = "where the gain is 1, pacing is the bottleneck's rate less its margin, within 2 %"


def _check_small(history: AckHistory, setup: CaseSetup) -> Iterator[DraftStatement]:
    row = history.first(history.in_probe_bw())
    yield moment_is_there("PROBE_BW begins", row, history)
    if row is None:
        return
    cwnd = history["cwnd_pkts"][row:]
    least = int(cwnd.min())
    yield statement(
        KEEPS_FLOOR,
        least >= _FLOOR_PKTS,
        f"from {least} to {int(cwnd.max())} packets",
        history.time_s(row + int(cwnd.argmin())),
    )
    inside = history.in_probe_bw()
    bw = np.minimum(history["bw_Bps"], history["bw_lo_Bps"]).astype(float)
    gains = history["pacing_Bps"][inside] / (_MARGIN * bw[inside])
    steady = history.is_in(CRUISE) if setup.sender.cc != "bbr" else history.is_in(10, 11, 12, 13, 14, 15)
    own = history["pacing_Bps"][steady].astype(float) * 8e-6 / setup.condition.payload_mbps
    off = float(np.abs(own - _MARGIN).max()) if len(own) else math.nan
    yield statement(
        PACES,
        not off > 0.02,
        f"{100 * off:.2f} % off; gains {float(gains.min()):.3f} to {float(gains.max()):.3f}",
        history.time_s(row),
    )
    delivered = int(history["delivered_pkts"][-1] - history["delivered_pkts"][row])
    span_s = end_s(history) - history.time_s(row)
    share = delivered * MSS_BYTES * 8e-6 / span_s / setup.condition.payload_mbps
    yield statement(
        "delayed ACKs do not stall the bottleneck: it is used to 95 %",
        share >= _CRUISE_SHARE,
        f"{100 * share:.1f} %",
        end_s(history),
    )


SMALL = (
    Condition(1.0, 0.064),
    Condition(10.0, 0.064),
    Condition(100.0, 0.064),
    Condition(1.0, 1.0),
    Condition(10.0, 1.0),
    Condition(1.0, 10.0),
    Condition(0.1, 100.0),
)

SMALL_BDP = DraftCase(
    number=14,
    name="sub-packet-bdp",
    title="Correctly Managing Sub-Packet BDPs",
    how="A bulk flow over paths with a BDP below a packet, for four seconds and forty rounds of PROBE_BW.",
    conditions=SMALL,
    end=_three_seconds_of_probe_bw,
    check=_check_small,
    known=(
        Known(
            PACES,
            "Four packets take 744 ms here. Where the ACK that a sample begins with was delayed by 40 ms and the "
            "one that ends it was not, they seem to take 706 ms, and max_bw keeps that sample: 5 % above the rate.",
            applies=lambda one: one.rate_mbps == 0.064,
        ),
        Known(
            KEEPS_FLOOR,
            "A packet takes 186 ms here, the SYN 17 ms, so the loss probe leaves early, and the timer of the next, "
            "while one is out, starts the retransmission timeout of a packet that was sent long before: spurious "
            "timeouts at about 0.3 s and 3.7 s. In the recovery that follows BBR v1's window is what is in flight and "
            "what an ACK has delivered: 2 and 1 packets in Linux, which counts the SYN as delivered, and 3 and 1 in "
            "the twin.",
            applies=lambda one: one.rate_mbps == 0.064,
        ),
    ),
    lasts=lambda condition: 30.0 + 120 * condition.turn_s,
)

# ---- changing paths ---------------------------------------------------------------------------------------


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

# ---- policers ---------------------------------------------------------------------------------------------

_STABLE_LOSS = 0.05
_STABLE_SHARE = 0.8


def _police(setup: CaseSetup) -> None:
    burst_pkts = max(20, round(2 * setup.condition.bdp_pkts))
    setup.link["policer"] = {
        "rate_mbps": setup.condition.rate_mbps / 4,
        "burst_bytes": burst_pkts * (MSS_BYTES + 40),
    }


def _policed_long(history: AckHistory, setup: CaseSetup) -> int | None:
    return history.first(history["time_us"] > 10e6 + 100e6 * setup.condition.turn_s)


LITTLE_LOSS = "in the second half at most 5 % are lost"


def _check_policer(history: AckHistory, setup: CaseSetup) -> Iterator[DraftStatement]:
    row = history.first(history.in_probe_bw())
    yield moment_is_there("PROBE_BW begins", row, history)
    if row is None:
        return
    lost = history.first(history["lost_pkts"] > 0, row)
    yield moment_is_there("the policer drops packets", lost, history)
    if lost is None:
        return
    low = history.first((history["bw_lo_Bps"] != NO_RATE) & (history["inflight_lo_pkts"] >= 0), row)
    yield moment_is_there("losses set bw_shortterm and inflight_shortterm", low, history)
    middle = history.first(history["time_us"] > history["time_us"][-1] / 2) or row
    delivered = int(history["delivered_pkts"][-1] - history["delivered_pkts"][middle])
    lost_pkts = int(history["lost_pkts"][middle:].sum())
    share = lost_pkts / max(1, lost_pkts + delivered)
    yield statement(LITTLE_LOSS, share <= _STABLE_LOSS, f"{100 * share:.2f} %", end_s(history))
    span_s = end_s(history) - history.time_s(middle)
    used = delivered * MSS_BYTES * 8e-6 / span_s / (setup.condition.payload_mbps / 4)
    yield statement("and 80 % of the token rate are used", used >= _STABLE_SHARE, f"{100 * used:.1f} %", end_s(history))


POLICER = DraftCase(
    number=17,
    name="policer",
    title="Handling Token Bucket Policers",
    how=(
        "A bulk flow through a policer of a quarter of the bottleneck's rate with a bucket of two BDP (20 packets at "
        "least), for ten seconds and a hundred rounds. The draft leaves open what is excessive loss: 5 % here, and 80 "
        "% of the token rate to be used."
    ),
    conditions=(
        Condition(1.0, 400.0),
        Condition(10.0, 400.0),
        Condition(40.0, 40.0),
        Condition(100.0, 100.0),
        Condition(200.0, 4.0),
        Condition(1000.0, 10.0),
    ),
    begin=_police,
    end=_policed_long,
    check=_check_policer,
    lasts=lambda condition: 11.0 + 110 * condition.turn_s,
    not_for={"bbr": f"{_V1_BOUNDS}; it detects policers by its own rule"},
    known=(
        Known(
            LITTLE_LOSS,
            "What is excessive the draft does not say. REFILL and UP pass on the tokens of the bucket, so that max_bw "
            "is above the token rate, and what follows loses until bw_shortterm has come down. Of google/bbr's losses "
            "at 1 ms, 3779 of 49593 packets, 1091 are DOWN's, a third of what it sends, and 2526 CRUISE's, 8 %.",
        ),
    ),
)
