# SPDX-License-Identifier: GPL-2.0-only
"""`grid` and `optuna`: the best fixed setting of a variant as an agent that `bbrgym train` makes.

Its steps are the control intervals of the runs that settings are tried on, so that `total_steps` is the same amount of
simulation as for an agent that learns. Settings are compared on draws of the training split; like any agent's, the
best checkpoint is the one with the highest validation score among those that were the best at their time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, ValidationError

from bbrgym.agents.base import Constant
from bbrgym.agents.search import Grid, Proposer, Tpe, Tried, search
from bbrgym.agents.training.folder import TrainingFolder
from bbrgym.agents.training.loop import TrainingRun
from bbrgym.agents.training.settings import Training
from bbrgym.agents.trials import Trials
from bbrgym.envs.scaling import TunableScaling
from bbrgym.errors import ConfigError
from bbrgym.scenario.distribution import split_seeds
from bbrgym.scenario.model import Scenario
from bbrgym.schema import Model, Whole, first_problem

_SUFFIX = ".json"


class SearchSettings(Model):
    """Hyperparameters of a search.

    Attributes:
        name: how settings are proposed.
        draws: runs that each setting is tried on: the first of the training split.
        levels: values of each tunable in the grid.
    """

    name: Literal["grid", "optuna"]
    draws: Annotated[Whole, Field(ge=1, le=100_000)] = 128
    levels: Annotated[Whole, Field(ge=2, le=1000)] = 5


def trainer(name: str) -> SearchTrainer:
    """The trainer of either search."""
    return SearchTrainer(name)


class SearchTrainer:
    """Tries settings until the steps are used up."""

    def __init__(self, name: str) -> None:
        self._name = name

    def train(self, run: TrainingRun) -> None:
        """See `Trainer`."""
        asked = _parsed(run.settings.agent)
        source = run.settings.source
        seeds = split_seeds("train", asked.draws)
        scenarios = [source if isinstance(source, Scenario) else source(seed) for seed in seeds]
        steps = sum(_intervals(scenario, run.settings.env["control_interval_s"]) for scenario in scenarios)
        if run.settings.total_steps < steps:
            raise ConfigError(
                f"total_steps: is {run.settings.total_steps}, expected at least {steps}, what one setting takes on "
                f"agent.draws = {asked.draws} runs"
            )
        with Trials(
            scenarios,
            seeds,
            run.settings.variant,
            run.settings.action.get("tunables"),
            world=run.settings.world_name,
            threads=run.settings.threads,
            delta=run.settings.validation.score_delta,
        ) as trials:
            log = _Log(run, trials.action, steps)
            search(
                trials,
                self._proposer(asked, trials.action, run.settings),
                run.settings.total_steps // steps,
                known=log.known(),
                on_tried=log.add,
            )
            log.end()

    def load(self, folder: TrainingFolder, settings: Training, checkpoint: str) -> Constant:
        """See `Trainer`."""
        values = _read(folder, checkpoint)["setting"]
        action = TunableScaling(settings.variant, settings.action.get("tunables"))
        return Constant(settings.agent_name, action.from_values(values))

    def _proposer(self, asked: SearchSettings, action: TunableScaling, settings: Training) -> Proposer:
        return Grid(action, asked.levels) if self._name == "grid" else Tpe(action, settings.stream("search", 0))


class _Log:
    """Keeps what was tried, and the best of it at every checkpoint."""

    def __init__(self, run: TrainingRun, action: TunableScaling, steps: int) -> None:
        self._run = run
        self._action = action
        self._steps = steps
        self._tried: list[Tried] = []
        self._best: Tried | None = None

    def known(self) -> list[float]:
        """Scores of what was tried before an interruption."""
        if not self._run.folder.checkpoint("last" + _SUFFIX).exists():
            return []
        kept = _read(self._run.folder, "last")
        self._run.resume(kept["about"])
        self._run.next_leg(self._run.state.step)
        return [float(score) for score in kept["scores"]]

    def add(self, tried: Tried) -> None:
        """A setting was tried, or is known."""
        self._tried.append(tried)
        if self._best is None or tried.score > self._best.score:
            self._best = tried
        if self._step <= self._run.state.step:
            return  # known
        rewards = np.full(self._steps, tried.score)
        self._run.stepped(self._step, tried.action, rewards, np.zeros(0))
        self._run.record(self._step, {"search/score": tried.score, "search/best": self._best.score})
        if self._run.leg_is_over(self._step):
            self._checkpoint()
            self._run.next_leg(self._step)

    def end(self) -> None:
        """The last checkpoint."""
        self._checkpoint()

    @property
    def _step(self) -> int:
        return len(self._tried) * self._steps

    def _checkpoint(self) -> None:
        if self._best is None:
            return
        setting = self._action.to_values(self._best.action)
        scores = [one.score for one in self._tried]

        def save(name: str, about: Mapping[str, Any]) -> None:
            kept: dict[str, Any] = (
                {"setting": setting} if name == "best" else {"setting": setting, "scores": scores, "about": dict(about)}
            )
            text = json.dumps(kept, indent=1) + "\n"
            self._run.folder.write_checkpoint(name + _SUFFIX, lambda path: path.write_text(text, encoding="utf-8"))

        agent = Constant(self._run.settings.agent_name, self._action.from_values(setting))
        self._run.checkpoint(self._step, agent, save)


def _parsed(hyperparameters: Mapping[str, Any]) -> SearchSettings:
    try:
        return SearchSettings.model_validate(dict(hyperparameters))
    except ValidationError as error:
        path, problem = first_problem(error, SearchSettings)
        raise ConfigError(f"agent.{path}: {problem}") from None


def _intervals(scenario: Scenario, interval_s: float) -> int:
    return max(1, round(scenario.duration_s / interval_s))


def _read(folder: TrainingFolder, checkpoint: str) -> dict[str, Any]:
    path = folder.checkpoint(checkpoint + _SUFFIX)
    try:
        kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read checkpoint {str(path)!r}: {error}") from error
    return kept
