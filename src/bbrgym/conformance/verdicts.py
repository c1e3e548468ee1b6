# SPDX-License-Identifier: GPL-2.0-only
"""Verdicts on a congestion control: of each case of the draft, on each of its paths.

A run goes through the stages of a case one after the other, each with the moments of those before; then it is checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import Literal

import numpy as np

from bbrgym.conformance.ack_history import AckHistory
from bbrgym.conformance.draft_case import ADDED, DraftCase
from bbrgym.conformance.setup import FLOW, CaseSetup, Condition, Find, Sender
from bbrgym.conformance.statements import DraftStatement, never, statements_of
from bbrgym.errors import ConfigError, nearest
from bbrgym.scenario.files import load_scenario
from bbrgym.schema import shown
from bbrgym.worlds import FAST_WORLD, make_world

for _cases in ("startup", "up", "down", "probe_rtt", "path", "changing_path", "undo", "refill"):
    import_module(f"bbrgym.conformance.{_cases}_cases")  # adds its cases

#: The draft's 22 cases, one of them as two, by name, in its order.
DRAFT_CASES: Mapping[str, DraftCase] = MappingProxyType(dict(sorted(ADDED.items(), key=lambda one: one[1].number)))

#: Congestion controls under test, by name: those of google/bbr's code, and BBRv3 as the draft has it.
SENDERS: Mapping[str, Sender] = MappingProxyType(
    {one.name: one for one in (Sender("bbr3"), Sender("bbr3", "draft"), Sender("bbr2"), Sender("bbr"))}
)

_MOST_ACKS = 1_500_000  # of a history: 400 MB
_FIRST_LOOK_TURNS = 10  # round trips after which a run is looked at first, then less and less often
_LATER = 1.4

Outcome = Literal["passed", "explained", "failed", "not applicable"]
#: ``explained``: a statement fails that cannot hold as the draft has it, for a known reason; all others hold.
OUTCOMES: tuple[Outcome, ...] = ("passed", "explained", "failed", "not applicable")


@dataclass(frozen=True)
class DraftVerdict:
    """A case's verdict on a sender and a path."""

    case: DraftCase
    sender: Sender
    path: Condition
    outcome: Outcome
    failed: DraftStatement | None = None  # the statement that failed first. Default: none did
    reason: str = ""  # why the case is not applicable, or cannot hold as written


@dataclass(frozen=True)
class CaseRun:
    """A case with a sender on a path."""

    case: DraftCase
    sender: Sender
    path: Condition
    world: str = FAST_WORLD
    seed: int = 1  # of all random numbers

    def verdict(self) -> DraftVerdict:
        """Run the case and return what it says. Raises WorldError: a run broke."""
        about = (self.case, self.sender, self.path)
        for name in (self.sender.cc, f"{self.sender.cc}/{self.sender.reading}"):
            if name in self.case.not_for:
                return DraftVerdict(*about, "not applicable", reason=self.case.not_for[name])
        statements = self._statements()
        failed = [one for one in statements if one.failed_s is not None]
        reasons = {one.text: self.case.explanation(one, self.sender, self.path) for one in failed}
        unexplained = [one for one in failed if not reasons[one.text]]
        shown = min(unexplained or failed, key=lambda one: one.failed_s or 0.0, default=None)
        if shown is None:
            return DraftVerdict(*about, "passed")
        if unexplained:
            return DraftVerdict(*about, "failed", shown)
        return DraftVerdict(*about, "explained", shown, " ".join(dict.fromkeys(reasons.values())))

    def _statements(self) -> list[DraftStatement]:
        setup = self.case.setup(self.sender, self.path)
        for stage in self.case.stages:
            history = self._observe(setup, stage.find)
            row = stage.find(history, setup)
            if row is None:
                return [never(stage.name, history)]
            setup = setup.copy()
            stage.apply(setup, history, row)
            setup.moments_s.append(history.time_s(row))
        history = self._observe(setup, self.case.end)
        end = self.case.end(history, setup)
        history = history if end is None else history.ending_at(end)
        return statements_of(self.case.check, history, setup) if len(history) else [never("an ACK", history)]

    def _observe(self, setup: CaseSetup, find: Find) -> AckHistory:
        """Return the ACKs of a run until what is looked for is there, or for as long as the case lasts."""
        scenario = load_scenario(setup.scenario(self.case.name, self.case.lasts(self.path)))
        with make_world(self.world, scenario, self.seed, isolation="none") as world:
            world.trace_acks(FLOW, _MOST_ACKS)
            look_s = _FIRST_LOOK_TURNS * self.path.turn_s
            history = AckHistory(np.zeros(0))
            while not world.done and len(history) < _MOST_ACKS:
                world.advance(max(look_s, 1e-3))
                look_s = max(look_s, (_LATER - 1) * world.now_s)
                history = AckHistory(world.ack_trace(FLOW))
                if len(history) and find(history, setup) is not None:
                    break
            return AckHistory(history.rows.copy())


def select_cases(names: Sequence[str]) -> list[DraftCase]:
    """Return the cases of these names, in the draft's order; of none, all."""
    for name in names:
        if name not in DRAFT_CASES:
            raise ConfigError(f"case: is {shown(name)}; {nearest(name, DRAFT_CASES, see='bbrgym conformance')}")
    return [one for one in DRAFT_CASES.values() if not names or one.name in names]


def draft_verdicts(
    sender: Sender, cases: Sequence[str] = (), *, world: str = FAST_WORLD, seed: int = 1
) -> Iterator[DraftVerdict]:
    """Yield the verdicts on a congestion control, case by case and path by path.

    Args:
        sender: congestion control under test.
        cases: names of cases, of `DRAFT_CASES`. Default: all.
        world: name of a world that repeats a run to the byte: twin or ns3.
        seed: of all random numbers.

    Raises:
        ConfigError: there is no such case.
        WorldError: a run broke.
    """
    for case in select_cases(cases):
        for condition in case.conditions:
            yield CaseRun(case, sender, condition, world, seed).verdict()
