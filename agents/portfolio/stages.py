# SPDX-License-Identifier: GPL-2.0-only
"""The stages of a training, one after the other; docs/training.md lists the files of each in the run folder.

An interrupted training goes on from the parts in states/. All scores are of runs from the first packet to the last, as
`bbrgym.worlds.score` says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain
from typing import Any, cast

import numpy as np
import polars as pl
import torch

from bbrgym.agents.networks import torch_threads
from bbrgym.agents.oracle import presets
from bbrgym.agents.portfolio.assembly import Assembly, Found
from bbrgym.agents.portfolio.cross_validation import CrossValidation, confusion, cross_validate
from bbrgym.agents.portfolio.examples import Examples, joined
from bbrgym.agents.portfolio.fit import fitted
from bbrgym.agents.portfolio.identification import IdentificationPart, examples_of
from bbrgym.agents.portfolio.identification_features import settings_held
from bbrgym.agents.portfolio.library import Candidates, children, coverage
from bbrgym.agents.portfolio.parameters import true_parameters
from bbrgym.agents.portfolio.parts import Parts, parts_of
from bbrgym.agents.portfolio.plan import KEPT, planned
from bbrgym.agents.portfolio.policy import IdentificationRoutine, PortfolioNetwork
from bbrgym.agents.portfolio.selector import Selector, choices
from bbrgym.agents.portfolio.stage_settings import StageSettings
from bbrgym.agents.portfolio.tasks import CrossPart, SearchPart, TrainingConditions, scores_of, settings_of
from bbrgym.agents.start import start_settings
from bbrgym.agents.training.checkpoints import has_state, restore_state, save_state
from bbrgym.agents.training.draws import TrainingDraw
from bbrgym.agents.training.loop import TrainingRun
from bbrgym.envs.library import Library, write_library
from bbrgym.envs.scaling import NormalisedAction
from bbrgym.errors import ConfigError
from bbrgym.worlds import registered_worlds

LIBRARY = "library.yaml"


class Stages:
    """The stages of a training under way.

    Raises:
        ConfigError: the stages cannot run so.
    """

    def __init__(self, settings: StageSettings, assembly: Assembly, run: TrainingRun) -> None:
        training = run.settings
        if not registered_worlds()[training.world_name].can_save:
            able = [name for name, spec in registered_worlds().items() if spec.can_save]
            raise ConfigError(f"world: is {training.world_name}, expected one that can be saved: {', '.join(able)}")
        self._settings = settings
        self._assembly = assembly
        self._run = run
        self._conditions = TrainingConditions(
            training.options(training.world_name),
            training.world[training.world_name],
            training.objective,
            settings.yield_price,
        )
        found = [start_settings(one, assembly.scaling) for one in settings.start]
        firm = assembly.firm(found[0][0]) if found else []
        self._presets = [*presets(assembly.scaling), *chain.from_iterable(found), *firm]
        self._plan = planned(settings, training, self._conditions, assembly.intervals, len(self._presets))
        self._parts = Parts(run.folder, run.rollouts, training.threads, self._part_is_done)
        self._step = 0

    def run(self) -> None:
        """Run the stages; what a former process has finished is read."""
        folder = self._run.folder
        if has_state(folder, "last"):
            kept: list[Found] = []
            self._run.resume(restore_state(folder, "last", lambda found: kept.append(cast(Found, found))))
            self._step = self._run.state.step
            self._checkpoint(kept[0])
            return
        chosen = self._refined(self._crossed(self._candidates()))
        setting = self._identification_setting(chosen)
        library = self._library(chosen, setting)
        routine = self._assembly.routine(setting)
        examples = self._examples("identification", self._plan["identification"], library, routine)
        selector, privileged = self._selector(examples), self._privileged(examples)
        if self._plan["reselect"]:
            selector = self._reselecting(selector, examples, library, routine)
        found: Found = {
            "library": torch.from_numpy(library),
            "identification": torch.from_numpy(setting),
            "selector": selector.state_dict(),
            "privileged": privileged.state_dict(),
        }
        self._checkpoint(found)

    # ---- stages ------------------------------------------------------------------------------------------------

    def _candidates(self) -> NormalisedAction:
        """Return the presets and the best setting of each draw, [candidates, tunables]."""
        run, settings = self._run, self._settings
        seed = run.settings.stream("search", 0)
        parts = [
            SearchPart(self._conditions, draws, settings.search_runs, settings.search_trials, seed)
            for draws in parts_of(self._plan["search"])
        ]
        run.stage = "search"
        found = self._parts.tables("search", parts)
        self._record({"search/score": _mean(found["score"].to_numpy(), self._plan["search"])})
        return np.concatenate([np.array(self._presets, np.float32), settings_of(found)])

    def _crossed(self, settings: NormalisedAction) -> Candidates:
        """Return the best of these settings."""
        self._run.stage = "cross"
        return self._scored("cross", self._plan["cross"], settings).best(KEPT * self._settings.library_size)

    def _refined(self, candidates: Candidates) -> Candidates:
        """Return the library that came of these candidates, on the draws of stage refine."""
        run, settings = self._run, self._settings
        run.stage = "refine"
        generator = np.random.default_rng(run.settings.stream("refine", 0))
        known = self._scored("refine-0", self._plan["refine"], candidates.settings)
        library = known.best(settings.library_size)
        self._record({"refine/coverage": float(coverage(library.scores, library.weights)[-1])})
        for turn in range(1, settings.refine_turns + 1):
            born = children(library.settings, generator)
            known = known.beside(self._scored(f"refine-{turn}", self._plan["refine"], born))
            library = known.best(settings.library_size)
            self._record({"refine/coverage": float(coverage(library.scores, library.weights)[-1])})
        return library

    def _scored(self, stage: str, of_stage: tuple[TrainingDraw, ...], settings: NormalisedAction) -> Candidates:
        """Return settings with scores on the draws of a stage."""
        parts = [CrossPart(self._conditions, draws, settings) for draws in parts_of(of_stage)]
        table = self._parts.tables(stage, parts)
        return Candidates(settings, scores_of(table), table["weight"].to_numpy())

    def _library(self, chosen: Candidates, identification: NormalisedAction) -> NormalisedAction:
        """Return the library, [settings, tunables]: the best fixed setting first.

        That of a flow by itself has the setting of the identification too, by which it may go on.
        """
        run = self._run
        covered = coverage(chosen.scores, chosen.weights)
        curve = pl.DataFrame({"settings": np.arange(1, len(covered) + 1), "score": covered})
        own = [identification[None]] if self._assembly.is_per_flow else []
        library: NormalisedAction = self._assembly.scaling.snap(np.concatenate([chosen.settings, *own]))[1]
        run.folder.write_table("coverage.parquet", curve)
        self._record({"library/best_fixed": float(covered[0]), "library/coverage": float(covered[-1])})
        run.logger.table(self._step, "coverage", curve)
        self._write_library(library)
        return library

    def _identification_setting(self, chosen: Candidates) -> NormalisedAction:
        """Return the setting during the identification, [tunables].

        All flows together identify by the draining one. A flow by itself identifies by the setting of the library that
        is best where there are no flows of others, which empties its queue as often as it may: what stays there is
        theirs.
        """
        is_own = [all(flow.role == "tuned" for flow in draw.scenario.resolved().flows) for draw in self._plan["refine"]]
        if not self._assembly.is_per_flow or not any(is_own):
            return self._assembly.draining
        best = int((chosen.weights[is_own] @ chosen.scores[is_own]).argmax())
        return self._assembly.emptying(chosen.settings[best])

    def _examples(
        self,
        stage: str,
        of_stage: tuple[TrainingDraw, ...],
        library: NormalisedAction,
        routine: IdentificationRoutine,
        network: PortfolioNetwork | None = None,
    ) -> Examples:
        """Return the examples of a stage's draws, in which an agent with this network acts at first."""
        parts = [IdentificationPart(self._conditions, draws, library, routine, network) for draws in parts_of(of_stage)]
        self._run.stage = stage
        table = self._parts.tables(stage, parts)
        with torch_threads(1):
            return examples_of(table, self._assembly.features, self._assembly.intervals)

    def _reselecting(
        self, selector: Selector, examples: Examples, library: NormalisedAction, routine: IdentificationRoutine
    ) -> Selector:
        """Return the selector fitted to the examples and to what agents with the selector so far meet.

        The first one, which knows only identifications, holds what it chose.
        """
        known, every = [examples], self._plan["reselect"]
        turns = self._settings.reselect_turns
        for turn in range(turns):
            network = self._assembly.network(torch.from_numpy(library), selector.state_dict())
            acting = routine if turn else replace(routine, pause=None)
            met = self._examples(f"reselect-{turn + 1}", every[turn::turns], library, acting, network)
            gains = met.gains_over(choices(selector, met.features), settings_held(met.features, library))
            self._record({"reselect/gain": float(np.average(gains, weights=met.weights))})
            known.append(met)
            selector = self._fitted(joined(known))
        return selector

    def _write_library(self, library: NormalisedAction) -> None:
        run = self._run
        rows = [self._assembly.scaling.to_values(setting) for setting in library]
        settings = {f"setting-{number}": values for number, values in enumerate(rows, start=1)}
        origin = f"agent {run.settings.agent_name} on {run.settings.source.name}, seed {run.settings.seed}"
        kept = Library(variant=run.settings.variant, settings=settings, origin=origin)
        write_library(run.folder.path / LIBRARY, kept)
        run.logger.table(self._step, "library", pl.DataFrame(rows))

    def _selector(self, examples: Examples) -> Selector:
        """Return the selector by what was observed."""
        run = self._run
        run.stage = "fit"
        selector, validated = self._fitted(examples), self._validated(examples)
        names = list(self._assembly.features.names)
        importance = pl.DataFrame({"feature": names, "loss": validated.importance}).sort(
            "loss", descending=True, maintain_order=True
        )
        table = confusion(examples, validated.choices)
        run.folder.write_table("confusion.parquet", table)
        run.folder.write_table("importance.parquet", importance)
        self._record(
            {
                "fit/score": validated.score,
                "fit/best_fixed": validated.fixed_score,
                "fit/best_of_library": validated.best_score,
                "fit/gain": validated.score - validated.fixed_score,
            }
        )
        run.logger.table(self._step, "confusion", table)
        run.logger.table(self._step, "importance", importance)
        return selector

    def _privileged(self, examples: Examples) -> Selector:
        """Return the selector by true parameters."""
        parameters = torch.from_numpy(true_parameters([draw.scenario for draw in self._plan["identification"]])).float()
        told = replace(examples, features=parameters[examples.draws])
        selector, validated = self._fitted(told), self._validated(told)
        self._record({"fit/privileged_gain": validated.score - validated.fixed_score})
        return selector

    def _fitted(self, examples: Examples) -> Selector:
        """Return a selector that is fitted on all draws."""
        with torch_threads(self._run.settings.torch_threads):
            return fitted(examples, self._settings.fit, self._run.settings.stream("fit", 0))

    def _validated(self, examples: Examples) -> CrossValidation:
        """Return the cross-validation of such a selector."""
        with torch_threads(self._run.settings.torch_threads):
            return cross_validate(examples, self._settings.fit, self._run.settings.stream("fit", 0))

    # ---- details -----------------------------------------------------------------------------------------------

    def _part_is_done(self, steps: int, scores: np.ndarray[Any, np.dtype[np.float64]]) -> None:
        self._step += steps
        self._run.stepped(self._step, np.zeros(0), scores, np.zeros(0))

    def _record(self, metrics: Mapping[str, float]) -> None:
        self._run.record(self._step, metrics)

    def _checkpoint(self, found: Found) -> None:
        folder, agent = self._run.folder, self._assembly.agent(found)
        self._run.checkpoint(
            self._step, agent, lambda name, about: save_state(folder, name, about, cast(Mapping[str, Any], found))
        )


def _mean(values: np.ndarray[Any, np.dtype[np.float64]], draws: tuple[TrainingDraw, ...]) -> float:
    return float(np.average(values, weights=[draw.weight for draw in draws]))
