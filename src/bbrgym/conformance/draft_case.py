# SPDX-License-Identifier: GPL-2.0-only
"""A test case of the draft: conditions, stages, and statements that have to hold in the history of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bbrgym.conformance.setup import CaseSetup, Condition, Find, Sender, Stage, is_long
from bbrgym.conformance.statements import INTERRUPTS, Check, DraftStatement

RENEWED = (
    "In BBRv2 an RTT equal to the smallest renews its age, so that a flow which sees no queue does not enter PROBE_RTT."
)
INTERRUPTED = (
    "PROBE_RTT is due five seconds after the last smaller RTT in every state. With a round trip of a second those are "
    "five rounds, fewer than STARTUP or a probe takes; with 0.2 s what the queue adds may suffice."
)
SHORT_PATH = (
    "On a short path the bursts that Inflight(1.0) provides for are larger than what was in flight, so that the ACK "
    "that begins the phase ends it."
)
V1_CYCLES = {"bbr": "BBR v1 has no such phase: it cycles through eight gains"}


@dataclass(frozen=True)
class Known:
    """Why a statement cannot hold as the draft has it."""

    text: str  # of the statement
    reason: str  # in a sentence or two
    readings: Sequence[str] = ("code", "draft")  # of the sender that it holds for
    applies: Callable[[Condition], bool] = lambda _: True  # whether it is so under a condition
    controls: Sequence[str] = ("bbr3", "bbr2", "bbr")  # congestion controls that it holds for. Default: all

    def explains(self, failed: DraftStatement, sender: Sender, condition: Condition) -> bool:
        """Return whether it is why a statement failed."""
        is_for = sender.reading in self.readings and sender.cc in self.controls
        return self.text == failed.text and is_for and self.applies(condition)


def interrupted(*texts: str, applies: Callable[[Condition], bool] = is_long) -> Iterator[Known]:
    """Yield for each statement that PROBE_RTT may come between. Default: the statement that it does not."""
    for text in texts or (INTERRUPTS,):
        yield Known(text, INTERRUPTED, applies=applies)


@dataclass(frozen=True)
class DraftCase:
    """A test case of the draft."""

    number: int  # in the order of the draft's appendix
    name: str  # that selects it
    conditions: Sequence[Condition]  # that it is run in
    end: Find  # the row after which nothing is checked; None while it has not come
    check: Check  # states what has to hold
    stages: Sequence[Stage] = ()  # changes at moments of the run
    begin: Callable[[CaseSetup], None] = lambda _: None  # prepares the scenario: a bulk flow, a queue that holds all
    lasts: Callable[[Condition], float] = lambda condition: 12.0 + 150 * condition.turn_s  # simulated s at most
    queue_bdp: float = 4.0  # capacity of the queue in BDP; it holds `least_queue_pkts` at least
    least_queue_pkts: int = 100
    not_for: Mapping[str, str] = field(default_factory=dict)  # by congestion control, why it is not applicable
    known: Sequence[Known] = ()  # statements that cannot hold

    def setup(self, sender: Sender, condition: Condition) -> CaseSetup:
        """Return the scenario before any stage."""
        queue_pkts = max(self.least_queue_pkts, round(self.queue_bdp * condition.bdp_pkts))
        setup = CaseSetup(sender, condition, queue_pkts)
        self.begin(setup)
        return setup

    def explanation(self, failed: DraftStatement, sender: Sender, condition: Condition) -> str:
        """Return why a statement that failed cannot hold; empty if nothing says so."""
        return next((one.reason for one in self.known if one.explains(failed, sender, condition)), "")


ADDED: dict[str, DraftCase] = {}
"""Cases by name, as `draft_case` adds them."""


def draft_case(number: int, **fields: Any) -> Callable[[Check], Check]:
    """Make a check a test case: the function's name is the case's."""

    def add(check: Check) -> Check:
        name = check.__name__.replace("_", "-")
        ADDED[name] = DraftCase(number, name, check=check, **fields)
        return check

    return add
