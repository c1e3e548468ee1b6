# SPDX-License-Identifier: GPL-2.0-only
"""The draft's case of a REFILL that the application limits."""

from __future__ import annotations

from bbrgym.conformance.ack_history import REFILL, UP, AckHistory
from bbrgym.conformance.draft_case import V1_CYCLES, draft_case, interrupted
from bbrgym.conformance.setup import MSS_BYTES, CaseSetup, Stage, ahead, paths, silent_from
from bbrgym.conformance.statements import TRIES, Statements

_PAUSED_TURNS = 3  # round trips that REFILL lasts at most, with the pause


def _refill_begins(history: AckHistory, setup: CaseSetup) -> int | None:
    """Return the begin of the first REFILL that ends before PROBE_RTT is due, among a few; else of the last."""
    for number, row in enumerate(history.entries(REFILL)[:TRIES], 1):
        age_s = history.time_s(row) - float(history["probe_rtt_min_stamp_us"][row]) / 1e6
        is_in_time = age_s + _PAUSED_TURNS * setup.condition.turn_s < setup.sender.probe_rtt_interval_s
        if is_in_time or number == TRIES:
            return row
    return None


def _paused_refill(history: AckHistory, setup: CaseSetup) -> int | None:
    """Return the first row of the REFILL in which the application stopped."""
    return next((row for row in history.entries(REFILL) if history.time_s(row) >= setup.moments_s[-1]), None)


def _probe_is_over(history: AckHistory, setup: CaseSetup) -> int | None:
    row = _paused_refill(history, setup)
    return None if row is None else history.end_of(history.entry(UP, after=row))


@draft_case(
    22,
    conditions=paths(least_pkts=20),
    begin=ahead,
    stages=(
        Stage(
            "REFILL begins",
            _refill_begins,
            lambda setup, history, row: silent_from(
                setup, history, row, history.time_s(row) + 1.5 * setup.condition.turn_s
            ),
        ),
    ),
    end=_probe_is_over,
    not_for=V1_CYCLES,
    known=tuple(interrupted(applies=lambda one: one.turn_s >= 0.1)),
)
def refill_limited(run: Statements) -> None:
    """Handling Application-Limited Sending During PROBE_REFILL"""
    history = run.history
    row = run.needs("REFILL begins", _paused_refill(history, run.setup))
    up = run.needs("REFILL ends", history.end_of(row))
    inside = slice(row, up + 1)
    limited_acks = history["is_app_limited"][inside] == 1
    measured = f"{int(limited_acks.sum())} of {up + 1 - row} ACKs"
    run.states("samples of REFILL are application-limited", bool(limited_acks.any()), measured, up)
    bw = history["bw_Bps"][inside]
    changed = history.first(bw != bw[0])
    low = limited_acks & (history.sample_mbps(MSS_BYTES)[inside] < history.mbps("bw_Bps")[inside])
    text = "application-limited samples below max_bw leave it as it is"
    measured = f"max_bw {float(bw[0]) * 8e-6:.4g} Mbit/s, then {float(bw[-1]) * 8e-6:.4g}"
    run.states(text, changed is None or not low[changed], measured, row + (changed or 0))
    run.goes_to("UP follows", UP, up)
    if history.at("phase", up) != UP:
        return
    end = run.needs("UP ends", history.end_of(up))
    run.uninterrupted(end)
    run.goes_down(end, "DOWN follows UP")
