# SPDX-License-Identifier: GPL-2.0-only
"""Moments that several cases wait for, as rows of a history, and statements about them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import TypeAlias

from bbrgym.conformance.ack_history import CRUISE, DOWN, PROBE_RTT, STARTUP, UP, AckHistory
from bbrgym.conformance.draft_case import Check, DraftStatement, statement
from bbrgym.conformance.setup import CaseSetup

PROBE_RTT_BEGINS = "PROBE_RTT begins"
INTERRUPTS = "PROBE_RTT does not come between"
TRIES = 3  # stays in a phase that PROBE_RTT may end before the last one is judged

Stay: TypeAlias = tuple[int, int]
"""Rows with which a stay in a phase begins and ends."""

CheckStay: TypeAlias = Callable[[AckHistory, CaseSetup, int, int], Iterator[DraftStatement]]
"""Check of a stay, which is the last two arguments."""


def left_startup(history: AckHistory, _: CaseSetup) -> int | None:
    """Return the row with which STARTUP ends, but for stays in PROBE_RTT between."""
    return history.first(~history.is_in(STARTUP, PROBE_RTT))


def end_s(history: AckHistory) -> float:
    """Return the time of the last row, 0 without one."""
    return history.time_s(len(history) - 1) if len(history) else 0.0


def moment_is_there(text: str, row: int | None, history: AckHistory) -> DraftStatement:
    """Return the statement that a row was found."""
    if row is None:
        return DraftStatement(text, f"not within {end_s(history):.3g} s", end_s(history))
    return DraftStatement(text, f"at {history.time_s(row):.6g} s")


def wanted_pkts(history: AckHistory, row: int) -> int:
    """Return Inflight(1.0) as an ACK's decisions see it, with bursts of the pacing rate before the ACK or after it."""
    return int(history["target_pkts"][max(0, row - 1) : row + 1].max())


def whole_stay(history: AckHistory, rows: list[int]) -> Stay | None:
    """Return begin and end of the first stay that PROBE_RTT does not end, among a few; else of the last of these."""
    for number, row in enumerate(rows[:TRIES], 1):
        end = history.end_of(row)
        if end is not None and (int(history["phase"][end]) != PROBE_RTT or number == TRIES):
            return row, end
    return None


def up_begins(history: AckHistory, _: CaseSetup) -> int | None:
    """Return the row with which the first UP begins."""
    return history.entry(UP)


def up_is_over(history: AckHistory, _: CaseSetup) -> int | None:
    """Return the row with which the first UP ends that PROBE_RTT does not."""
    found = whole_stay(history, history.entries(UP))
    return None if found is None else found[1]


def is_uninterrupted(history: AckHistory, end: int) -> DraftStatement:
    """Return the statement that a stay was not ended by PROBE_RTT."""
    return statement(INTERRUPTS, int(history["phase"][end]) != PROBE_RTT, "", history.time_s(end))


def of_stay(text: str, find: Callable[[AckHistory, CaseSetup], Stay | None]) -> Callable[[CheckStay], Check]:
    """Return a decorator: a check first states that its stay is there, and that PROBE_RTT does not end it.

    Args:
        text: of the statement that the stay is there.
        find: returns the stay.
    """

    def decorated(check: CheckStay) -> Check:
        @wraps(check)
        def whole(history: AckHistory, setup: CaseSetup) -> Iterator[DraftStatement]:
            stay = find(history, setup)
            yield moment_is_there(text, None if stay is None else stay[1], history)
            if stay is None:
                return
            yield is_uninterrupted(history, stay[1])
            if int(history["phase"][stay[1]]) != PROBE_RTT:
                yield from check(history, setup, *stay)

        return whole

    return decorated


def goes_down(history: AckHistory, end: int, text: str = "DOWN follows") -> DraftStatement:
    """Return the statement that UP goes over to DOWN; the ACK that begins it may end it, if little is in flight."""
    phase = int(history["phase"][end])
    is_over = phase == CRUISE and history["prior_in_flight_pkts"][end] <= wanted_pkts(history, end)
    measured = f"phase {phase}" + (", DOWN ended with the same ACK" if is_over else "")
    return statement(text, phase == DOWN or bool(is_over), measured, history.time_s(end))
