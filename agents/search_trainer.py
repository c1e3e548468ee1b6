# SPDX-License-Identifier: GPL-2.0-only
"""Trainers `grid` and `optuna`, which make the best fixed setting of a variant that a search finds.

Their steps are the control intervals of the runs that settings are tried on, so that `total_steps` is the same amount
of simulation as for an agent that learns. Settings are compared on draws of the training split. The best checkpoint is,
as for any agent, the one with the highest validation score. Every search begins with the variant's preset, so its
result is never worse than that on the same scenarios.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
from abc import abstractmethod
from collections.abc import Generator, Mapping
from contextlib import suppress
from typing import Annotated, Any

import numpy as np
from pydantic import Field, ValidationError

from bbrgym.agents.base import Constant
from bbrgym.agents.training.folder import TrainingFolder
from bbrgym.agents.training.loop import TrainingRun
from bbrgym.agents.training.settings import TrainingSettings
from bbrgym.agents.training.trainer import Trainer
from bbrgym.agents.trials import Trials
from bbrgym.envs.scaling import NormalisedAction, TunableScaling
from bbrgym.errors import ConfigError, MissingExtraError
from bbrgym.scenario.distribution import split_seeds
from bbrgym.scenario.model import Scenario
from bbrgym.schema import Float, List, Model, Whole, first_problem, shown
from bbrgym.untrusted_files import FileError, read_json

MAX_GRID = 100_000
_SUFFIX = ".json"


class SearchTrainer(Trainer):
    """Tries settings until the steps are used up."""

    # runs that each setting is tried on, the first of the training split
    draws: Annotated[Whole, Field(ge=1, le=100_000)] = 128

    def train(self, run: TrainingRun) -> None:
        run.settings.check_whole_settings()
        source = run.settings.source
        seeds = split_seeds("train", self.draws)
        scenarios = [source if isinstance(source, Scenario) else source(seed) for seed in seeds]
        steps = sum(_intervals(scenario, run.settings.env["control_interval_s"]) for scenario in scenarios)
        if run.settings.total_steps < steps:
            raise ConfigError(
                f"total_steps: is {run.settings.total_steps}, expected at least {steps}: one setting takes that many "
                f"on agent.draws = {self.draws} runs"
            )
        with Trials(
            scenarios,
            seeds,
            run.settings.variant,
            run.settings.action.get("tunables"),
            world=run.settings.world_name,
            world_settings=run.settings.world[run.settings.world_name],
            threads=run.settings.threads,
            objective=run.settings.objective,
        ) as trials:
            proposals, log = self.proposals(trials.action, run.settings), _TrialLog(run, trials.action, steps)
            known = log.known()
            with suppress(StopIteration):  # a grid has an end
                action = next(proposals)
                for number in range(run.settings.total_steps // steps):
                    score = known[number] if number < len(known) else float(trials.scores(action).mean())
                    log.add(action, score)
                    action = proposals.send(score)
            log.checkpoint()

    def load(self, folder: TrainingFolder, settings: TrainingSettings, checkpoint: str) -> Constant:
        setting = _read(folder, checkpoint).setting
        action = TunableScaling(settings.variant, settings.action.get("tunables"))
        if set(setting) != set(action.names):
            raise ConfigError(
                f"checkpoint {checkpoint} in {str(folder.path)!r} holds {shown(sorted(setting))}, expected "
                f"{shown(sorted(action.names))}"
            )
        return Constant(settings.agent_name, action.from_values(setting))

    @abstractmethod
    def proposals(self, action: TunableScaling, settings: TrainingSettings) -> Generator[NormalisedAction, float, None]:
        """Yield settings to try, [tunables], and take the score of each; the same scores lead to the same settings.

        Raises:
            ConfigError: the search cannot be made for the action space.
            MissingExtraError: a package is not installed.
        """


class GridTrainer(SearchTrainer):
    """Tries the default and every combination of evenly spaced levels."""

    levels: Annotated[Whole, Field(ge=2, le=1000)] = 5  # values of each tunable; switches and modes take all of theirs

    def proposals(
        self,
        action: TunableScaling,
        settings: TrainingSettings,  # noqa: ARG002 - nothing is drawn
    ) -> Generator[NormalisedAction, float, None]:
        even = np.linspace(-1.0, 1.0, self.levels, dtype=np.float32)
        axes = [np.unique(_settled(action, index, even)) for index in range(len(action.names))]
        combinations = math.prod(len(axis) for axis in axes)
        if combinations > MAX_GRID:
            raise ConfigError(
                f"agent.levels: {self.levels} levels of {len(axes)} tunables are {combinations:.3g} settings, expected "
                f"at most {MAX_GRID}: choose fewer of action.tunables"
            )
        yield action.default
        for setting in itertools.product(*axes):
            yield np.array(setting, np.float32)


class OptunaTrainer(SearchTrainer):
    """Tries what Optuna's multivariate TPE proposes; needs the extra `train`."""

    def proposals(self, action: TunableScaling, settings: TrainingSettings) -> Generator[NormalisedAction, float, None]:
        try:
            import optuna
        except ModuleNotFoundError as error:
            raise MissingExtraError("agent=optuna", "train", error) from error
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        sampler = optuna.samplers.TPESampler(multivariate=True, seed=settings.stream("search", 0))
        study = optuna.create_study(direction="maximize", sampler=sampler)
        study.enqueue_trial(dict(zip(action.names, action.default.tolist(), strict=True)))
        every = optuna.distributions.FloatDistribution(-1.0, 1.0)
        while True:
            trial = study.ask(dict.fromkeys(action.names, every))
            study.tell(trial, (yield np.array([trial.params[name] for name in action.names], np.float32)))


def _settled(action: TunableScaling, index: int, values: NormalisedAction) -> NormalisedAction:
    """Return values of one normalised tunable snapped to the action space: whole numbers in the middle."""
    actions = np.tile(action.default, (len(values), 1))
    actions[:, index] = values
    settled: NormalisedAction = action.snap(actions)[1][:, index]
    return settled


class _TrialLog:
    """Keeps all results, and writes the best one at every checkpoint."""

    def __init__(self, run: TrainingRun, action: TunableScaling, steps: int) -> None:
        self._run = run
        self._action = action
        self._steps = steps
        self._scores: list[float] = []
        self._best: NormalisedAction = action.default

    def known(self) -> list[float]:
        """Return the scores of settings tried before an interruption."""
        if not os.path.lexists(self._run.folder.checkpoint("last" + _SUFFIX)):
            return []
        kept = _read(self._run.folder, "last")
        self._run.resume(kept.about)
        self._run.next_segment(self._run.state.step)
        return list(kept.scores)

    def add(self, action: NormalisedAction, score: float) -> None:
        """Add a setting and the score, new or known."""
        if score > max(self._scores, default=-math.inf):
            self._best = action
        self._scores.append(score)
        if self._step <= self._run.state.step:
            return  # known
        self._run.stepped(self._step, action, np.full(self._steps, score), np.zeros(0))
        self._run.record(self._step, {"search/score": score, "search/best": max(self._scores)})
        if self._run.segment_is_over(self._step):
            self.checkpoint()
            self._run.next_segment(self._step)

    @property
    def _step(self) -> int:
        return len(self._scores) * self._steps

    def checkpoint(self) -> None:
        """Write a checkpoint."""
        setting = self._action.to_values(self._best)

        def save(name: str, about: Mapping[str, Any]) -> None:
            resumable = {} if name == "best" else {"scores": self._scores, "about": dict(about)}
            content = {"setting": setting, **resumable}
            text = json.dumps({**content, "sha256": _digest_of(content)}, indent=1) + "\n"
            self._run.folder.write_checkpoint(name + _SUFFIX, lambda path: path.write_text(text, encoding="utf-8"))

        agent = Constant(self._run.settings.agent_name, self._action.from_values(setting))
        self._run.checkpoint(self._step, agent, save)


def _intervals(scenario: Scenario, interval_s: float) -> int:
    return max(1, round(scenario.duration_s / interval_s))


class _Checkpoint(Model):
    """A checkpoint's file."""

    setting: dict[str, Float]  # the best setting, in natural units by tunable
    scores: List[Float] = ()  # of all settings tried, in order; for resuming
    about: dict[str, Any] = Field(default_factory=dict)  # state of the training; for resuming


def _read(folder: TrainingFolder, checkpoint: str) -> _Checkpoint:
    path = folder.checkpoint(checkpoint + _SUFFIX)
    try:
        content = read_json(path, below=folder.path)
    except FileError as error:
        raise ConfigError(f"cannot read checkpoint {str(path)!r}: {error.reason}") from error
    if not isinstance(content, dict):
        raise ConfigError(f"checkpoint {str(path)!r} holds something else: expected a mapping")
    if content.pop("sha256", None) != _digest_of(content):
        raise ConfigError(f"cannot read checkpoint {str(path)!r}: it is damaged: its checksum is another or missing")
    try:
        return _Checkpoint.model_validate(content)
    except ValidationError as error:
        where, problem = first_problem(error, _Checkpoint)
        raise ConfigError(f"checkpoint {str(path)!r} holds something else: {where}: {problem}") from None


def _digest_of(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
