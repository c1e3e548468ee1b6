# SPDX-License-Identifier: GPL-2.0-only
"""The draft's cases of PROBE_RTT."""

from __future__ import annotations

import numpy as np

from bbrgym.conformance.ack_history import PROBE_RTT, STARTUP, AckHistory
from bbrgym.conformance.draft_case import RENEWED, Known, draft_case
from bbrgym.conformance.setup import MSS_BYTES, CaseSetup, Stage, ahead, limited, paths, silent_from
from bbrgym.conformance.statements import FLOOR_PKTS, Statements

PROBE_RTT_BEGINS = "PROBE_RTT begins"

# ---- in STARTUP ---------------------------------------------------------------------------------------


@draft_case(
    20,
    conditions=paths(most_mbps=1000),
    begin=limited,
    end=lambda history, _: history.rounds_later(history.end_of(history.entry(PROBE_RTT)), 5),
    known=(Known(PROBE_RTT_BEGINS, RENEWED, controls=("bbr2",)),),
    lasts=lambda condition: 14.0 + 40 * condition.turn_s,
)
def probe_rtt_startup(run: Statements) -> None:
    """Entering and Exiting PROBE_RTT During STARTUP"""
    history = run.history
    row = run.needs(PROBE_RTT_BEGINS, history.first(history.is_in(PROBE_RTT)))
    run.states("it begins in STARTUP", bool((history["phase"][:row] == STARTUP).all()), "", row)
    end = run.needs("PROBE_RTT ends", history.end_of(row))
    phase, reached = history.at("phase", end), history.at("full_bw_reached", end)
    measured = f"phase {phase}, PROBE_RTT lasted {history.time_s(end) - history.time_s(row):.3g} s"
    run.states("STARTUP follows, full_bw_reached being false", phase == STARTUP and reached == 0, measured, end)
    left = history.first(~history.is_in(STARTUP), end)
    last = -1 if left is None else left
    rounds = history.rounds(end, last)
    measured = "" if left is None else f"for {rounds} rounds, the application's backlog being sent"
    run.states("STARTUP goes on for a round at least", rounds >= 1, measured, last)


# ---- after PROBE_BW -----------------------------------------------------------------------------------

_PROBE_RTT_S = 0.2
CWND_GAIN = "the window is ProbeRTTCwndGain (0.5) times the BDP, four packets at least"


def _late_probe_rtt(history: AckHistory) -> int | None:
    """Return the row with which the first PROBE_RTT after PROBE_BW begins."""
    row = history.first(history.in_probe_bw())
    return None if row is None else history.entry(PROBE_RTT, after=row)


@draft_case(
    10,
    conditions=paths(most_mbps=1000),
    end=lambda history, _: history.rounds_later(history.end_of(_late_probe_rtt(history)), 3),
    known=(Known(PROBE_RTT_BEGINS, RENEWED, controls=("bbr2",)),),
    lasts=lambda condition: 25.0 + 60 * condition.turn_s,
)
def probe_rtt(run: Statements) -> None:
    """Entering and Exiting PROBE_RTT"""
    history, sender, turn_s = run.history, run.setup.sender, run.setup.condition.turn_s
    row = run.needs(PROBE_RTT_BEGINS, _late_probe_rtt(history))
    if sender.cc != "bbr":
        idle_s = history.time_s(row) - float(history["probe_rtt_min_stamp_us"][row - 1]) / 1e6
        interval_s, rtts_us = sender.probe_rtt_interval_s, history["rtt_us"][:row]
        queue_s = float(rtts_us[rtts_us >= 0][-1]) / 1e6  # round trip of the last sample before
        is_due = interval_s < idle_s <= interval_s + 2 * turn_s + queue_s
        text = "it begins once ProbeRTTInterval has passed since probe_rtt_min_delay was measured"
        run.states(text, is_due, f"{idle_s:.4g} s", row)
    end = run.needs("PROBE_RTT ends", history.end_of(row))
    part = 0.0 if sender.cc == "bbr" else sender.constant("probe_rtt_gain")
    windows = history["cwnd_pkts"][row:end]
    bdp = history["bw_Bps"][row:end] * history["min_rtt_us"][row:end] / (1e6 * MSS_BYTES)
    above = history.first(windows > np.maximum(FLOOR_PKTS, np.ceil(part * bdp + 1e-6) + 1))
    text = CWND_GAIN if part else "the window is four packets"
    run.states(text, above is None, f"cwnd {int(windows[-1])}, BDP {float(bdp[-1]):.1f} packets", row + (above or 0))
    down = history.first(history["in_flight_pkts"][row:end] <= windows)
    since = row + (down or 0)
    stay_s, rounds = history.time_s(end) - history.time_s(since), history.rounds(since, end)
    text = "it lasts for ProbeRTTDuration and a round from when no more than the window is in flight"
    is_whole = down is not None and stay_s > _PROBE_RTT_S and rounds >= 1
    run.states(text, is_whole, f"{stay_s:.4g} s, {rounds} rounds", end)
    late_s = stay_s - max(_PROBE_RTT_S, turn_s)
    run.states("and not for two rounds more", late_s <= 2 * turn_s + 0.05, f"{late_s:.3g} s longer", end)
    run.goes_to_probe_bw(end)
    out = int(history["in_flight_pkts"][end:].max())
    is_full = out > min(history.at("cwnd_pkts", end - 1), 0.8 * run.setup.condition.bdp_pkts)
    run.states("sending resumes", is_full, f"up to {out} packets in flight")


# ---- skipped after a pause ----------------------------------------------------------------------------

_IDLE_S = 6.0


def _pause(setup: CaseSetup, history: AckHistory, row: int) -> None:
    idle_s = _IDLE_S if setup.sender.cc != "bbr" else setup.sender.probe_rtt_interval_s + 1
    silent_from(setup, history, row, history.time_s(row) + idle_s + 2 * setup.condition.turn_s)


def _resumption(history: AckHistory, setup: CaseSetup) -> int | None:
    """Return the first ACK after the application's pause."""
    return None if setup.resumed_s is None else history.first_after(setup.resumed_s)


@draft_case(
    11,
    conditions=paths(least_pkts=20),
    begin=ahead,
    stages=(Stage("PROBE_BW begins", lambda history, _: history.first(history.in_probe_bw()), _pause),),
    end=lambda history, setup: history.rounds_later(_resumption(history, setup), 5),
    lasts=lambda condition: 30.0 + 80 * condition.turn_s,
)
def probe_rtt_idle(run: Statements) -> None:
    """Skipping PROBE_RTT Due to Application-Limited Sending"""
    history, interval_s = run.history, run.setup.sender.probe_rtt_interval_s
    row = run.needs("an ACK follows the pause", _resumption(history, run.setup))
    at_s = history.time_s(row)
    idle_s, out = at_s - history.time_s(row - 1), history.at("in_flight_pkts", row - 1)
    text = "nothing is in flight in the pause, which exceeds ProbeRTTInterval"
    run.states(text, out == 0 and idle_s > interval_s, f"{out} in flight for {idle_s:.3g} s", row)
    if run.setup.sender.cc != "bbr":
        stamp_s = float(history["probe_rtt_min_stamp_us"][row]) / 1e6
        is_new = abs(stamp_s - at_s) < 1e-3 or stamp_s > at_s - interval_s
        measured = f"probe_rtt_min_delay measured {at_s - stamp_s:.3g} s before"
        run.states("the interval was over, and the first ACK begins a new one", is_new, measured, row)
    soon = history["time_us"] < (at_s + interval_s) * 1e6
    found = history.first(history.is_in(PROBE_RTT) & soon, row)
    is_skipped = found is None and history.at("phase", row) != PROBE_RTT
    measured = f"for {min(history.end_s - at_s, interval_s):.3g} s"
    run.states("PROBE_RTT is skipped", is_skipped, measured, row if found is None else found)
