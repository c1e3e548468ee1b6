# SPDX-License-Identifier: GPL-2.0-only
"""Loop of a training, which all trainers share.

A training is a chain of segments, each from one checkpoint to the next. Every segment seeds all random numbers again,
from the training's seed and the segment's number: episodes, exploration, the order of minibatches. So a checkpoint need
not hold the state of simulations and generators, and an interrupted training that repeats its last segment gives the
same curve and the same weights to the last bit.

    trainer:  if the folder has a last checkpoint: restore it, `run.resume`
              while steps are left:
                  if `run.segment_is_over`:  `run.checkpoint`, `run.next_segment`, seed everything, and reset the
                                             environments with `run.reset_options`
                  take some steps, each reported by `run.stepped`; report measurements by `run.record`
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
from bbrgym.agents.rollout import validation_rollout
from bbrgym.agents.training.curve import REWARD, draw_curve
from bbrgym.agents.training.draws import DrawsByCost
from bbrgym.agents.training.folder import METRICS, SUMMARY, VALIDATION, TrainingFolder
from bbrgym.agents.training.settings import TrainingSettings
from bbrgym.agents.training.vec_env import Rollouts
from bbrgym.agents.trials import Trials
from bbrgym.errors import ConfigError, TrainingError
from bbrgym.loggers.logger import Logger
from bbrgym.runs.drawing import reason_not_to_draw
from bbrgym.scenario.distribution import Distribution, split_seeds
from bbrgym.worlds import world_spec

_PROGRESS_S = 0.2  # seconds between two reports of progress
_NEVER = -1  # step of the last record before the first one
SCORE = "validation/score"
VALIDATION_SCHEMA = pl.Schema({"step": pl.Int64, "seed": pl.Int64, "score": pl.Float64, "own_score": pl.Float64})


@dataclass(frozen=True)
class TrainingProgress:
    """Progress of a training; NaN where nothing is known yet."""

    step: int  # steps taken
    total_steps: int  # to take
    steps_per_s: float = math.nan  # steps per second since the last report, validation included
    reward: float = math.nan  # mean reward of a step since the last row of the curve
    score: float = math.nan  # score at the last validation
    best_score: float = math.nan  # highest score so far
    stage: str = ""  # what the trainer is doing; empty of one that has no stages
    is_checkpoint: bool = False  # whether a checkpoint has been reached


@dataclass(frozen=True)
class SegmentSeeds:
    """Seeds of all random numbers of a segment."""

    torch: int  # seed of networks, exploration and minibatches
    envs: int  # seed of the first environment's episode; the others' follow it


@dataclass
class TrainingState:
    """State of a training that each checkpoint holds."""

    step: int = 0  # steps taken
    best_step: int = -1  # of the best checkpoint; -1 before the first
    best_score: float = -math.inf
    score: float = math.nan  # at the last validation
    wall_s: float = 0.0  # seconds that the training has taken, interruptions apart
    validation_s: float = 0.0  # seconds of these that validations took


def state_of(fields: Mapping[str, Any]) -> TrainingState:
    """Return the state of a training that a checkpoint holds.

    Raises:
        ConfigError: it is none.
    """
    names = vars(TrainingState())
    if set(fields) != set(names) or not all(isinstance(one, int | float) for one in fields.values()):
        raise ConfigError(f"the checkpoint holds no state of a training, expected numbers {', '.join(names)}")
    return TrainingState(**fields)


@dataclass
class _SinceLastRow:
    """Sums over the steps since the curve's last row."""

    rewards: float = 0.0
    count: int = 0
    episodes: int = 0


class TrainingRun:
    """A training under way, as its trainer uses it."""

    def __init__(
        self,
        settings: TrainingSettings,
        folder: TrainingFolder,
        logger: Logger,
        rollouts: Rollouts,
        on_progress: Callable[[TrainingProgress], None] | None = None,
        callback: Any = None,
    ) -> None:
        self.callback = callback  # of the caller's, for the trainer, see `Trainer.check_callback`
        self.settings = settings
        self.folder = folder
        self.rollouts = rollouts
        self.logger = logger
        self._on_progress = on_progress
        self._validation_seeds = split_seeds("validation", settings.validation.draws)
        self._validation = validation_rollout(settings.validation_options(), settings.source, self._validation_seeds)
        self._rows: list[dict[str, Any]] = []
        self._scores = pl.DataFrame(schema=VALIDATION_SCHEMA)
        self._segment = -1
        self._since_row = _SinceLastRow()
        self._recorded_step = _NEVER
        self._started_s = time.perf_counter()
        self._shown = (time.perf_counter(), 0)
        self._steps_per_s = math.nan
        self._reward = math.nan
        self._to_beat: float | None = None  # score of the variant's preset, once a curve has been drawn
        self.state = TrainingState()  # state of the training at the last checkpoint
        self.stage = ""  # what the trainer is doing, for the progress; its to set

    def close(self) -> None:
        """End the worlds of the validation."""
        self._validation.close()

    # ---- segments ----------------------------------------------------------------------------------------------

    def resume(self, state: Mapping[str, Any]) -> None:
        """Continue after the checkpoint of which `state` is what `checkpoint` gave to `save`.

        Raises:
            ConfigError: the curve or the validation scores are damaged or missing.
        """
        self.state = state_of(state)
        self._rows = self.folder.read_up_to(self.state.step, METRICS).to_dicts()
        self._scores = self.folder.read_up_to(self.state.step, VALIDATION)
        # A checkpoint follows the record of its step, except the first one, before which nothing was measured.
        self._recorded_step = self.state.step or _NEVER
        self._started_s = time.perf_counter() - self.state.wall_s
        self._shown = (time.perf_counter(), self.state.step)

    def segment_is_over(self, step: int) -> bool:
        """Return whether a checkpoint and the next segment are due; true at the beginning."""
        return step // self.settings.checkpoint_steps > self._segment

    def next_segment(self, step: int) -> SegmentSeeds:
        """Begin the next segment."""
        self._segment = step // self.settings.checkpoint_steps
        self._since_row = _SinceLastRow()
        stream = self.settings.segment_stream
        return SegmentSeeds(torch=stream("torch", self._segment), envs=stream("envs", self._segment))

    def reset_options(self) -> dict[str, Any]:
        """Return the options with which the environments are reset at the beginning of a segment."""
        source = self.settings.source
        if self.settings.draws.by_cost and isinstance(source, Distribution):
            return {"scenario": DrawsByCost(source)}
        return {}

    # ---- steps and measurements --------------------------------------------------------------------------------

    def stepped(self, step: int, observations: Any, rewards: Any, ended: Any) -> None:
        """Report a step of all environments.

        Args:
            step: steps taken since the training's beginning.
            observations: after the step, [rows, ...], or a mapping of such arrays.
            rewards: of the step, [rows].
            ended: rows whose episode ended, [rows].

        Raises:
            TrainingError: an observation or a reward is NaN or infinite.
        """
        parts = observations.values() if isinstance(observations, Mapping) else [observations]
        if not all(np.isfinite(part).all() for part in parts):
            raise self.broken("an observation", step)
        if not np.isfinite(rewards).all():
            raise self.broken("a reward", step)
        self._since_row.rewards += float(np.sum(rewards, dtype=np.float64))
        self._since_row.count += len(rewards)
        self._since_row.episodes += int(np.sum(ended))
        now_s = time.perf_counter()
        if now_s - self._shown[0] > _PROGRESS_S:
            self._steps_per_s = (step - self._shown[1]) / (now_s - self._shown[0])
            self._shown = (now_s, step)
            self._show(step)

    def row_is_due(self, step: int) -> bool:
        """Return whether `record` is due: after `log_steps` steps, and at the end of a segment and of the training."""
        rows = step // self.settings.log_steps - self._recorded_step // self.settings.log_steps
        return rows > 0 or self.segment_is_over(step) or step >= self.settings.total_steps

    def record(self, step: int, metrics: Mapping[str, float]) -> None:
        """Add a row to the curve: metrics of the trainer, and the mean reward since the last row.

        Raises:
            TrainingError: a metric is NaN or infinite.
        """
        self.check_finite(step, metrics)
        row = {name: float(value) for name, value in metrics.items()}
        if self._since_row.count:
            self._reward = self._since_row.rewards / self._since_row.count
            row |= {REWARD: self._reward, "rollout/episodes": float(self._since_row.episodes)}
            self._since_row = _SinceLastRow()
        self._recorded_step = step
        self._add(step, row)

    def check_finite(self, step: int, metrics: Mapping[str, float]) -> None:
        """Raise TrainingError if a metric is NaN or infinite."""
        for name, value in metrics.items():
            if not math.isfinite(value):
                raise self.broken(name, step)

    def checkpoint(self, step: int, agent: Agent, save: Callable[[str, Mapping[str, Any]], None]) -> None:
        """Validate the agent and write checkpoints.

        Args:
            step: steps taken since the training's beginning.
            agent: the agent as it is now.
            save: writes a checkpoint; called with its name, ``best`` (if this is the best so far) and ``last``, and the
                training's state, which the checkpoint must hold too.

        Raises:
            TrainingError: the score is NaN or infinite.
            WorldError: a simulation of the validation failed.
            OSError: a file cannot be written; the checkpoint before is whole.
        """
        if self.state.best_step >= 0 and step == self.state.step:  # just resumed, or the training ends with a segment
            self.folder.write_json(SUMMARY, self.summary())
            return
        began_s = time.perf_counter()
        objective = self.settings.objective
        scores, own = self._validation.scores(agent.make_policy, objective, replace(objective, score="own"))
        score = float(scores.mean())
        if not math.isfinite(score):
            raise self.broken("the validation score", step)
        self._add(step, {SCORE: score, "validation/median": float(np.median(scores)), "validation/worst": scores.min()})
        steps, seeds = [step] * len(scores), list(self._validation_seeds)
        columns = {"step": steps, "seed": seeds, "score": scores, "own_score": own}
        self._scores = pl.concat([self._scores, pl.DataFrame(columns, schema=VALIDATION_SCHEMA)])
        self.state.step, self.state.score = step, score
        is_best = score > self.state.best_score
        if is_best:
            self.state.best_step, self.state.best_score = step, score
        now_s = time.perf_counter()
        self.state.validation_s += now_s - began_s
        self.state.wall_s = now_s - self._started_s
        self.logger.metrics(step, {"time/steps_per_s": step / self.state.wall_s})
        self._show(step, is_checkpoint=True)
        # In this order: whenever the training is killed, `last` is not newer than any other file.
        self.folder.write_table(METRICS, self.metrics())
        self.folder.write_table(VALIDATION, self._scores)
        if is_best:
            save("best", vars(self.state))
        save("last", vars(self.state))
        self.folder.write_json(SUMMARY, self.summary())
        self.draw_curve()

    def draw_curve(self) -> None:
        """Write figures/curve.png, if figures are drawn."""
        if reason_not_to_draw() is not None:
            return
        settings, seeds = self.settings, self._validation_seeds
        world, objective = settings.validation.world, settings.objective
        if self._to_beat is None and not world_spec(world).is_real_time:
            source = settings.source
            scenarios = [source(seed) if isinstance(source, Distribution) else source for seed in seeds]
            with Trials(scenarios, seeds, settings.variant, world=world, objective=objective) as trials:
                self._to_beat = float(trials.scores(trials.action.default).mean())
        curve = draw_curve(self.metrics(), self._scores, settings.variant, self._to_beat)
        self.folder.write_file("figures/curve.png", lambda partial: curve.savefig(partial, format="png", dpi=120))

    def metrics(self) -> pl.DataFrame:
        """Return the curve so far: a row per step, in order; null where a metric was not measured."""
        names = dict.fromkeys(name for row in self._rows for name in row)
        schema = {name: pl.Int64 if name == "step" else pl.Float64 for name in names or ("step",)}
        return pl.DataFrame(self._rows, schema=schema)

    def validation(self) -> pl.DataFrame:
        """Return the score of each run of each validation so far."""
        return self._scores

    def summary(self) -> dict[str, Any]:
        """Return the contents of summary.json."""
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
        """Add metrics to the curve's row of this step; begin the row if there is none."""
        if not self._rows or self._rows[-1]["step"] != step:
            self._rows.append({"step": step})
        numbers = {name: float(value) for name, value in row.items()}
        self._rows[-1] |= numbers
        if numbers:
            self.logger.metrics(step, numbers)

    def _show(self, step: int, *, is_checkpoint: bool = False) -> None:
        if self._on_progress is not None:
            best = self.state.best_score if self.state.best_step >= 0 else math.nan
            known = (self._steps_per_s, self._reward, self.state.score, best, self.stage, is_checkpoint)
            self._on_progress(TrainingProgress(step, self.settings.total_steps, *known))

    def broken(self, what: str, step: int) -> TrainingError:
        """Return the error to raise where something is NaN or infinite."""
        is_kept = self.state.best_step >= 0
        last = f"the last checkpoint is of step {self.state.step}" if is_kept else "no checkpoint was written"
        return TrainingError(
            f"{what} is NaN or infinite after {step} steps of {self.settings.agent_name}; {last}. A lower learning "
            f"rate or gradient norm may help"
        )
