# SPDX-License-Identifier: GPL-2.0-only
"""The draft's cases of PROBE_RTT."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bbrgym.conformance.ack_history import PROBE_RTT, STARTUP, AckHistory
from bbrgym.conformance.draft_case import DraftCase, DraftStatement, Known, statement
from bbrgym.conformance.moments import PROBE_RTT_BEGINS, end_s, moment_is_there
from bbrgym.conformance.paths import PATHS
from bbrgym.conformance.reasons import RENEWED
from bbrgym.conformance.setup import MSS_BYTES, CaseSetup, Stage, ahead, limited, silent_from
from bbrgym.conformance.tolerances import FLOOR_PKTS


def _back_in_startup(history: AckHistory, _: CaseSetup) -> int | None:
    row = history.entry(PROBE_RTT)
    end = None if row is None else history.end_of(row)
    if end is None:
        return None
    return history.first(history["round_count"] > history["round_count"][end] + 5)


def _check_probe_rtt_in_startup(history: AckHistory, _: CaseSetup) -> Iterator[DraftStatement]:
    row = history.first(history.is_in(PROBE_RTT))
    yield moment_is_there(PROBE_RTT_BEGINS, row, history)
    if row is None:
        return
    before = history["phase"][:row]
    yield statement("it begins in STARTUP", bool((before == STARTUP).all()), "", history.time_s(row))
    end = history.end_of(row)
    yield moment_is_there("PROBE_RTT ends", end, history)
    if end is None:
        return
    phase, reached = int(history["phase"][end]), int(history["full_bw_reached"][end])
    yield statement(
        "STARTUP follows, full_bw_reached being false",
        phase == STARTUP and reached == 0,
        f"phase {phase}, PROBE_RTT lasted {history.time_s(end) - history.time_s(row):.3g} s",
        history.time_s(end),
    )
    left = history.first(~history.is_in(STARTUP), end)
    rounds = int(history["round_count"][-1 if left is None else left] - history["round_count"][end])
    yield statement(
        "STARTUP goes on for a round at least",
        rounds >= 1,
        "" if left is None else f"for {rounds} rounds, the application's backlog being sent",
        end_s(history) if left is None else history.time_s(left),
    )


PROBE_RTT_IN_STARTUP = DraftCase(
    number=20,
    name="probe-rtt-startup",
    title="Entering and Exiting PROBE_RTT During STARTUP",
    how="An application writes 0.3 of what the bottleneck carries, which keeps the sender in STARTUP.",
    conditions=tuple(one for one in PATHS if one.rate_mbps <= 1000),
    begin=limited,
    end=_back_in_startup,
    check=_check_probe_rtt_in_startup,
    known=(Known(PROBE_RTT_BEGINS, RENEWED, controls=("bbr2",)),),
    lasts=lambda condition: 14.0 + 40 * condition.turn_s,
)

_PROBE_RTT_S = 0.2


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
    most = np.maximum(FLOOR_PKTS, np.ceil(part * bdp + 1e-6) + 1)
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
