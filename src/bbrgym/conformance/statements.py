# SPDX-License-Identifier: GPL-2.0-only
"""Statements on the history of a run, one after the other, as long as their moments are there."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy.typing as npt

from bbrgym.conformance.ack_history import CRUISE, DOWN, PROBE_RTT, AckHistory
from bbrgym.conformance.setup import MSS_BYTES, CaseSetup, Find

PLATEAU_ROUNDS = 3  # without growth, after which a phase takes the bandwidth for found
BANDWIDTH_TOLERANCE = 0.02  # part of the bottleneck's rate that max_bw may be off
GAIN_TOLERANCE = 0.01  # part of a gain that pacing may be off
MARGIN = 0.99  # part of the bandwidth that pacing keeps to (BBRPacingMarginPercent)
FLOOR_PKTS = 4  # least window, BBRMinPipeCwnd
CRUISE_SHARE = 0.95  # part of the bottleneck's rate that CRUISE is to use

INTERRUPTS = "PROBE_RTT does not come between"
TRIES = 3  # stays in a phase that PROBE_RTT may end before the last one is checked

Stay: TypeAlias = tuple[int, int]
"""Rows with which a stay in a phase begins and ends."""


@dataclass(frozen=True)
class DraftStatement:
    """A condition that has to hold, and what was measured."""

    text: str  # that has to hold
    measured: str  # in a few words
    failed_s: float | None = None  # first moment at which it does not hold. Default: it holds


def never(text: str, history: AckHistory) -> DraftStatement:
    """Return the statement that a moment is there, which it is not."""
    return DraftStatement(text, f"not within {history.end_s:.3g} s", history.end_s)


class _Incomplete(Exception):
    """A moment is not there, so nothing more can be stated."""


class Statements:
    """Statements on a run, given its ACKs and its scenario."""

    def __init__(self, history: AckHistory, setup: CaseSetup) -> None:
        self.history, self.setup = history, setup
        self.made: list[DraftStatement] = []

    def states(self, text: str, holds: bool, measured: str, row: int = -1, *, at_s: float | None = None) -> None:
        """State that something holds, or fails at a row or time. Default: the last row."""
        failed_s = self.history.time_s(row) if at_s is None else at_s
        self.made.append(DraftStatement(text, measured, None if holds else failed_s))

    def moment(self, text: str, row: int | None) -> None:
        """State that a row was found."""
        at = "" if row is None else f"at {self.history.time_s(row):.6g} s"
        self.made.append(never(text, self.history) if row is None else DraftStatement(text, at))

    def needs(self, text: str, row: int | None) -> int:
        """State that a row was found, and return it; without it the check ends."""
        self.moment(text, row)
        if row is None:
            raise _Incomplete
        return row

    def uninterrupted(self, end: int) -> None:
        """State that PROBE_RTT does not end a stay; where it does the check ends."""
        is_whole = self.history.at("phase", end) != PROBE_RTT
        self.states(INTERRUPTS, is_whole, "", end)
        if not is_whole:
            raise _Incomplete

    def needs_stay(self, text: str, stay: Stay | None) -> Stay:
        """State that a stay is there and that PROBE_RTT does not end it, and return it."""
        end = self.needs(text, None if stay is None else stay[1])
        self.uninterrupted(end)
        return (0 if stay is None else stay[0]), end

    def goes_to(self, text: str, phase: int, end: int, *, over: str = "") -> None:
        """State that a phase follows; ``over`` names it if the ACK that begins it ends it, with little in flight."""
        found = self.history.at("phase", end)
        measured = f"phase {found}" + (f", {over} ended with the same ACK" if over else "")
        self.states(text, found == phase or bool(over), measured, end)

    def goes_down(self, end: int, text: str = "DOWN follows") -> None:
        """State that UP goes over to DOWN."""
        out, wanted = self.history["prior_in_flight_pkts"][end], self.history.wanted_pkts(end)
        is_over = self.history.at("phase", end) == CRUISE and out <= wanted
        self.goes_to(text, DOWN, end, over="DOWN" if is_over else "")

    def has_gain(self, phase: str, own: float, stay: Stay, bw_Bps: npt.NDArray[Any]) -> None:
        """State that a phase paces a bandwidth with its own gain, less pacing's margin."""
        row, end = stay
        gains = self.history["pacing_Bps"][row:end] / (MARGIN * bw_Bps[row:end].astype(float))
        worst = int(abs(gains / own - 1).argmax())
        is_own = abs(gains[worst] / own - 1) <= GAIN_TOLERANCE
        self.states(f"the pacing gain is {phase}'s", is_own, f"gain {gains[worst]:.4f}", row + worst)

    def goes_to_probe_bw(self, end: int) -> None:
        """State that PROBE_BW follows."""
        phase = self.history.at("phase", end)
        self.states("PROBE_BW follows", phase >= 8, f"phase {phase}", end)

    def used_share(self, row: int, end: int, part: float = 1.0) -> float:
        """Return the share of a part of the bottleneck's rate that was delivered between two rows."""
        history, of_mbps = self.history, self.setup.condition.payload_mbps * part
        delivered = int(history["delivered_pkts"][end] - history["delivered_pkts"][row])
        return delivered * MSS_BYTES * 8e-6 / (history.time_s(end) - history.time_s(row)) / of_mbps


Check: TypeAlias = Callable[[Statements], None]
"""Check of a case: states what has to hold."""


def statements_of(check: Check, history: AckHistory, setup: CaseSetup) -> list[DraftStatement]:
    """Return the statements of a check on a run."""
    statements = Statements(history, setup)
    with suppress(_Incomplete):  # its last statement says what is missing
        check(statements)
    return statements.made


def end_of(stay: Callable[[AckHistory, CaseSetup], Stay | None]) -> Find:
    """Return the function that finds the end of a stay."""

    def find(history: AckHistory, setup: CaseSetup) -> int | None:
        found = stay(history, setup)
        return None if found is None else found[1]

    return find


def whole_stay(history: AckHistory, rows: list[int]) -> Stay | None:
    """Return begin and end of the first stay that PROBE_RTT does not end, among a few; else of the last of these."""
    for number, row in enumerate(rows[:TRIES], 1):
        end = history.end_of(row)
        if end is not None and (history.at("phase", end) != PROBE_RTT or number == TRIES):
            return row, end
    return None
