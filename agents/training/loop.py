# SPDX-License-Identifier: GPL-2.0-only
"""A training on its way: what every trainer shares.

A training is a chain of legs, from one checkpoint to the next. Each leg starts everything that is drawn anew, from the
seed and its own number: the environments' runs, exploration, the order of minibatches. So a checkpoint need not hold
the state of simulations and generators, and an interrupted training that repeats its last leg gets what it would have
got: the same curve, the same weights, to the last bit.

    trainer:  restore the folder's last checkpoint, if there is one, and `run.resume`
              while steps are left:
                  where `run.leg_is_over`:  `run.checkpoint`, `run.next_leg`; then restart all streams and environments
                  some steps, each reported to `run.stepped`; what was measured to `run.record`
              `run.checkpoint`
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from bbrgym.agents.base import Agent
from bbrgym.agents.training.folder import TrainingFolder
from bbrgym.agents.training.loggers import Logger
from bbrgym.agents.training.settings import Training
from bbrgym.agents.training.validation import Judge
from bbrgym.errors import TrainingError
from bbrgym.scenario.distribution import split_seeds

_PROGRESS_S = 0.2  # between two reports of progress
SCORE = "validation/score"
REWARD = "rollout/reward"
VALIDATION_SCHEMA = pl.Schema({"step": pl.Int64, "seed": pl.Int64, "score": pl.Float64})


@dataclass(frozen=True)
class Progress:
    """How far a training is.

    Attributes:
        step: of ``total_steps``.
        steps_per_s: lately, validation included.
        reward: mean of a step, lately.
        score: at the last validation.
        best_score: the highest so far.
    """

    step: int
    total_steps: int
    steps_per_s: float = math.nan
    reward: float = math.nan
    score: float = math.nan
    best_score: float = math.nan


@dataclass(frozen=True)
class Streams:
    """Seeds of a leg: everything random in it starts from these.

    Attributes:
        torch: of networks, exploration and minibatches.
        envs: of the first environment's run; the others' follow it.
    """

    torch: int
    envs: int


@dataclass
class State:
    """What a checkpoint says of the training as a whole."""

    step: int = 0
    best_step: int = -1
    best_score: float = -math.inf
    score: float = math.nan
    wall_s: float = 0.0
    validation_s: float = 0.0


@dataclass
class _Lately:
    """Sums since the curve's last row."""

    rewards: float = 0.0
    count: int = 0
    episodes: int = 0


class TrainingRun:
    """What a trainer is given.

    Args:
        settings: what is asked for.
        folder: open.
        logger: what else is told.
        on_progress: called now and then.

    Attributes:
        settings, folder: as given.
        state: how far it is.
    """

    def __init__(
        self,
        settings: Training,
        folder: TrainingFolder,
        logger: Logger,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> None:
        self.settings = settings
        self.folder = folder
        self._logger = logger
        self._on_progress = on_progress
        self._validation_seeds = split_seeds("validation", settings.validation.draws)
        options = replace(settings.options(settings.validation.world), critic=False)
        self._judge = Judge(options, settings.source, self._validation_seeds, settings.validation.score_delta)
        self._rows: list[dict[str, Any]] = []
        self._scores = pl.DataFrame(schema=VALIDATION_SCHEMA)
        self._leg = -1
        self._lately = _Lately()
        self._recorded_step = -1
        self._started_s = time.perf_counter()
        self._shown = (time.perf_counter(), 0)
        self._steps_per_s = math.nan
        self._reward = math.nan
        self.state = State()

    def close(self) -> None:
        """Ends the worlds of the validation."""
        self._judge.close()

    # ---- legs --------------------------------------------------------------------------------------------------

    def resume(self, state: Mapping[str, Any]) -> None:
        """Goes on after a checkpoint, of which `state` is what `checkpoint` put there."""
        self.state = State(**state)
        metrics = self.folder.read_metrics()
        self._rows = metrics.filter(pl.col("step") <= self.state.step).to_dicts()
        self._scores = self.folder.read_validation().filter(pl.col("step") <= self.state.step)
        self._recorded_step = self.state.step
        self._started_s = time.perf_counter() - self.state.wall_s
        self._shown = (time.perf_counter(), self.state.step)

    def leg_is_over(self, step: int) -> bool:
        """Whether it is time for a checkpoint and the next leg; true at the beginning."""
        return step // self.settings.checkpoint_steps > self._leg

    def next_leg(self, step: int) -> Streams:
        """Begins the next leg."""
        self._leg = step // self.settings.checkpoint_steps
        self._lately = _Lately()
        return Streams(self.settings.stream("torch", self._leg), self.settings.stream("envs", self._leg))

    # ---- what happens ------------------------------------------------------------------------------------------

    def stepped(self, step: int, observations: Any, rewards: Any, ended: Any) -> None:
        """All environments took a step; `step` steps have been taken since the training's beginning.

        Raises:
            TrainingError: an observation or a reward is NaN or infinite.
        """
        parts = observations.values() if isinstance(observations, Mapping) else [observations]
        if not all(np.isfinite(part).all() for part in parts):
            raise self.broken("an observation", step)
        if not np.isfinite(rewards).all():
            raise self.broken("a reward", step)
        self._lately.rewards += float(np.sum(rewards, dtype=np.float64))
        self._lately.count += len(rewards)
        self._lately.episodes += int(np.sum(ended))
        now_s = time.perf_counter()
        if now_s - self._shown[0] > _PROGRESS_S:
            self._steps_per_s = (step - self._shown[1]) / (now_s - self._shown[0])
            self._shown = (now_s, step)
            self._show(step)

    def row_is_due(self, step: int) -> bool:
        """Whether it is time for `record`: after some steps, and where a leg or all is over."""
        rows = step // self.settings.log_steps - self._recorded_step // self.settings.log_steps
        return rows > 0 or self.leg_is_over(step) or step >= self.settings.total_steps

    def record(self, step: int, metrics: Mapping[str, float]) -> None:
        """A row of the curve: metrics of the trainer's own, and how the rewards were since the last row.

        Raises:
            TrainingError: one is NaN or infinite.
        """
        self.refuse_nan(step, metrics)
        row = {name: float(value) for name, value in metrics.items()}
        if self._lately.count:
            self._reward = self._lately.rewards / self._lately.count
            row |= {REWARD: self._reward, "rollout/episodes": float(self._lately.episodes)}
            self._lately = _Lately()
        self._recorded_step = step
        self._add(step, row)

    def refuse_nan(self, step: int, metrics: Mapping[str, float]) -> None:
        """Checks metrics.

        Raises:
            TrainingError: one is NaN or infinite.
        """
        for name, value in metrics.items():
            if not math.isfinite(value):
                raise self.broken(name, step)

    def checkpoint(self, step: int, agent: Agent, save: Callable[[str, Mapping[str, Any]], None]) -> None:
        """Judges the agent and keeps it.

        Args:
            step: steps taken so far.
            agent: as it is.
            save: called with ``best`` (if it is the best so far) and with ``last``, and what to keep beside the agent;
                it writes the checkpoint of that name.
        """
        if self.state.best_step >= 0 and step == self.state.step:
            return  # resumed, or the end of the last leg
        began_s = time.perf_counter()
        scores = self._judge.scores(agent)
        score = float(scores.mean())
        if not math.isfinite(score):
            raise self.broken("the validation score", step)
        self._add(step, {SCORE: score, "validation/median": float(np.median(scores)), "validation/worst": scores.min()})
        columns = {"step": [step] * len(scores), "seed": list(self._validation_seeds), "score": scores}
        self._scores = pl.concat([self._scores, pl.DataFrame(columns, schema=VALIDATION_SCHEMA)])
        self.state.step, self.state.score = step, score
        is_best = score > self.state.best_score
        if is_best:
            self.state.best_step, self.state.best_score = step, score
        now_s = time.perf_counter()
        self.state.validation_s += now_s - began_s
        self.state.wall_s = now_s - self._started_s
        self._logger.metrics(step, {"time/steps_per_s": step / self.state.wall_s})
        self._show(step)
        # In this order: whenever the training is killed, `last` is not ahead of anything else.
        self.folder.write_metrics(self.metrics())
        self.folder.write_validation(self._scores)
        if is_best:
            save("best", vars(self.state))
        save("last", vars(self.state))
        self.folder.write_summary(self.summary())

    def metrics(self) -> pl.DataFrame:
        """The curve so far: a row per step, in order; null where a metric was not measured."""
        names = dict.fromkeys(name for row in self._rows for name in row)
        schema = {name: pl.Int64 if name == "step" else pl.Float64 for name in names or ("step",)}
        return pl.DataFrame(self._rows, schema=schema)

    def validation(self) -> pl.DataFrame:
        """The score of each run of each validation so far."""
        return self._scores

    def summary(self) -> dict[str, Any]:
        """What summary.json says."""
        state, settings = self.state, self.settings
        return {
            "agent": settings.label,
            "variant": settings.variant,
            "scenario": settings.source.name,
            "seed": settings.seed,
            "step": state.step,
            "total_steps": settings.total_steps,
            "score": state.score,
            "best_score": state.best_score,
            "best_step": state.best_step,
            "wall_s": round(state.wall_s, 3),
            "validation_s": round(state.validation_s, 3),
            "steps_per_s": round(state.step / state.wall_s, 1),
        }

    # ---- details -----------------------------------------------------------------------------------------------

    def _add(self, step: int, row: Mapping[str, float]) -> None:
        """To the curve's row of this step, if there is one already."""
        if not self._rows or self._rows[-1]["step"] != step:
            self._rows.append({"step": step})
        numbers = {name: float(value) for name, value in row.items()}
        self._rows[-1] |= numbers
        if numbers:
            self._logger.metrics(step, numbers)

    def _show(self, step: int) -> None:
        if self._on_progress is not None:
            best = self.state.best_score if self.state.best_step >= 0 else math.nan
            self._on_progress(
                Progress(step, self.settings.total_steps, self._steps_per_s, self._reward, self.state.score, best)
            )

    def broken(self, what: str, step: int) -> TrainingError:
        """What to raise where something is NaN or infinite."""
        is_kept = self.state.best_step >= 0
        last = f"the last checkpoint is of step {self.state.step}" if is_kept else "no checkpoint was written"
        return TrainingError(
            f"{what} is NaN or infinite after {step} steps of {self.settings.agent_name}; {last}. A lower learning "
            f"rate or gradient norm may help"
        )
