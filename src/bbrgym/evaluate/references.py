# SPDX-License-Identifier: GPL-2.0-only
"""References of an evaluation: what could be reached by one who knew what no agent observes.

    oracle                the best setting of each draw, chosen on other runs of it and scored on this one
    oracle-in-run         the best setting of each run, chosen on that very run: a part of its lead is luck
    library-oracle:RUN    like oracle, but chosen among the settings of a portfolio's library
    library-best:RUN      the first setting of the library: the best fixed one on its training draws
    privileged:RUN        the portfolio, with a selector that has the true parameters of the network

All choices are made in the fast world. The runs that choose have the scenario of the draw and other random numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from bbrgym.agents.base import LibraryAgent
from bbrgym.agents.oracle import other_seeds, search_each
from bbrgym.agents.rollout import MakePolicy
from bbrgym.agents.trials import Trials
from bbrgym.evaluate.agent_entrants import Learned
from bbrgym.evaluate.entrants import Conditions, Entrant, FixedRun, Kind, Run
from bbrgym.scenario.files import with_variant
from bbrgym.scenario.model import Scenario
from bbrgym.tunables import VARIANTS
from bbrgym.worlds import FAST_WORLD, check_world_has, world_spec
from bbrgym.worlds.score import Objective

Setting = Mapping[str, float]
IN_RUN = "-in-run"
"""End of the name of an oracle that chooses on the run itself."""


@dataclass(frozen=True, eq=False)
class Oracle(Entrant):
    """The best fixed tunables of each draw, found by a search on other runs of it in the fast world."""

    budget: int  # number of settings that the search tries
    delta: float  # weight of the RTT in the score
    runs: int = 3  # other runs of the draw; the mean score over them chooses
    first: Sequence[Setting] = ()  # values by tunable that are tried before any others

    kind: ClassVar[Kind] = "oracle"

    def prepared(self, scenario: Scenario) -> Scenario:
        prepared = with_variant(scenario, self.variant)
        check_world_has(world_spec(FAST_WORLD), prepared)  # where it searches
        return prepared

    def start(self, conditions: Conditions) -> Run:
        setting = self.setting(conditions.scenario, conditions.seed, conditions.check)
        return FixedRun(conditions, with_variant(conditions.scenario, self.variant, setting), tuple(setting))

    def seeds(self, seed: int) -> Sequence[int]:
        """Return the seeds of the runs that choose for the run with a seed."""
        return other_seeds(seed, self.runs)

    def setting(self, scenario: Scenario, seed: int, check: Callable[[], None]) -> dict[str, float]:
        """Return the best values by tunable that the search finds for a run; ``check`` may stop it after a trial."""
        seeds = self.seeds(seed)
        preset = VARIANTS[self.variant].preset
        with Trials([scenario] * len(seeds), seeds, self.variant, threads=1, objective=Objective(self.delta)) as trials:
            also = [trials.action.from_values({**preset, **one}) for one in self.first]
            best = search_each(trials, [seed], self.budget, runs=len(seeds), also=also, on_tried=lambda _: check())
            return trials.action.to_values(best.actions[0])

    def identity(self) -> str:
        return f"{self.budget} {self.delta} {self.runs} {[sorted(setting.items()) for setting in self.first]}"


@dataclass(frozen=True, eq=False)
class InRunOracle(Oracle):
    """The best fixed tunables of each single run, found by a search on that very run in the fast world."""

    kind: ClassVar[Kind] = "reference"

    def named(self, agent: str) -> Entrant:
        return replace(self, agent=agent + IN_RUN)

    def seeds(self, seed: int) -> Sequence[int]:
        return [seed]


@dataclass(frozen=True, eq=False)
class LibraryOracle(Oracle):
    """The best setting of a library, which is `first`, for each draw, chosen on other runs of it in the fast world."""

    kind: ClassVar[Kind] = "reference"

    def setting(self, scenario: Scenario, seed: int, check: Callable[[], None]) -> dict[str, float]:
        seeds = self.seeds(seed)
        preset = VARIANTS[self.variant].preset
        means = []
        with Trials([scenario] * len(seeds), seeds, self.variant, threads=1, objective=Objective(self.delta)) as trials:
            for one in self.first:
                means.append(float(trials.scores(trials.action.from_values({**preset, **one})).mean()))
                check()
        return dict(self.first[int(np.argmax(means))])


@dataclass(frozen=True, eq=False)
class Privileged(Learned):
    """A portfolio whose selector has the true parameters of the network, after the same identification."""

    controller: LibraryAgent

    kind: ClassVar[Kind] = "reference"

    def policy_maker(self, conditions: Conditions) -> MakePolicy:
        return lambda _: self.controller.privileged_policy(conditions.scenario)
