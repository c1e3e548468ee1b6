# SPDX-License-Identifier: GPL-2.0-only
"""The draft's case of a REFILL that the application limits."""

from __future__ import annotations

from collections.abc import Iterator

from bbrgym.conformance.ack_history import PROBE_RTT, REFILL, UP, AckHistory
from bbrgym.conformance.draft_case import DraftCase, DraftStatement, Known, statement
from bbrgym.conformance.moments import INTERRUPTS, TRIES, goes_down, is_uninterrupted, moment_is_there
from bbrgym.conformance.paths import PATHS
from bbrgym.conformance.reasons import INTERRUPTED, V1_CYCLES
from bbrgym.conformance.setup import MSS_BYTES, CaseSetup, Stage, ahead, silent_from

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


def _pause_in_refill(setup: CaseSetup, history: AckHistory, row: int) -> None:
    at_s = history.time_s(row)
    silent_from(setup, history, row, at_s + 1.5 * setup.condition.turn_s)


def _probe_is_over(history: AckHistory, setup: CaseSetup) -> int | None:
    row = _paused_refill(history, setup)
    up = None if row is None else history.entry(UP, after=row)
    return None if up is None else history.end_of(up)


def _check_refill(history: AckHistory, setup: CaseSetup) -> Iterator[DraftStatement]:
    row = _paused_refill(history, setup)
    yield moment_is_there("REFILL begins", row, history)
    if row is None:
        return
    up = history.end_of(row)
    yield moment_is_there("REFILL ends", up, history)
    if up is None:
        return
    inside = slice(row, up + 1)
    limited_acks = history["is_app_limited"][inside] == 1
    yield statement(
        "samples of REFILL are application-limited",
        bool(limited_acks.any()),
        f"{int(limited_acks.sum())} of {up + 1 - row} ACKs",
        history.time_s(up),
    )
    bw = history["bw_Bps"][inside]
    changed = history.first(bw != bw[0])
    low = limited_acks & (history.sample_mbps(MSS_BYTES)[inside] < history.mbps("bw_Bps")[inside])
    changed_by_low = changed is not None and bool(low[changed])
    yield statement(
        "application-limited samples below max_bw leave it as it is",
        not changed_by_low,
        f"max_bw {float(bw[0]) * 8e-6:.4g} Mbit/s, then {float(bw[-1]) * 8e-6:.4g}",
        history.time_s(row + (changed or 0)),
    )
    phase = int(history["phase"][up])
    yield statement("UP follows", phase == UP, f"phase {phase}", history.time_s(up))
    if phase != UP:
        return
    end = history.end_of(up)
    yield moment_is_there("UP ends", end, history)
    if end is None:
        return
    yield is_uninterrupted(history, end)
    if int(history["phase"][end]) != PROBE_RTT:
        yield goes_down(history, end, "DOWN follows UP")


REFILL_LIMITED = DraftCase(
    number=22,
    name="refill-limited",
    title="Handling Application-Limited Sending During PROBE_REFILL",
    how="The application stops when REFILL begins and goes on one and a half round trips later.",
    conditions=tuple(one for one in PATHS if one.bdp_pkts >= 20),
    begin=ahead,
    stages=(Stage("REFILL begins", _refill_begins, _pause_in_refill),),
    end=_probe_is_over,
    check=_check_refill,
    not_for={"bbr": V1_CYCLES},
    known=(Known(INTERRUPTS, INTERRUPTED, applies=lambda one: one.turn_s >= 0.1),),
)
