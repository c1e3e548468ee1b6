# SPDX-License-Identifier: GPL-2.0-only
"""Scores of a population of policies on the same draws, all side by side in one vector of worlds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bbrgym.agents.rollout import batch_of
from bbrgym.agents.training.draws import TrainingDraw
from bbrgym.envs.features import Observation
from bbrgym.envs.flow_batch import FlowBatch
from bbrgym.envs.options import Options
from bbrgym.worlds import Flags, Table, VectorWorld
from bbrgym.worlds.score import score_of_run

Parameters = Mapping[str, Tensor]
"""Parameters of a population's policies by name, [policies, ...] each."""


class Population:
    """Environments for P policies on D draws each, where every policy meets the same D runs.

    Attributes:
        features: numbers of an observation before the current tunables.
    """

    def __init__(self, policies: int, draws: int, options: Options, delta: float) -> None:
        self._shape = (policies, draws)
        self._batch = batch_of(policies * draws, options)
        self._delta = delta
        self.features = self._batch.observation.width - len(self._batch.scaling.names)

    def scores(
        self,
        network: nn.Module,
        parameters: Parameters,
        draws: Sequence[TrainingDraw],
        on_observed: Callable[[NDArray[np.float32], Flags], object] | None = None,
    ) -> Table:
        """Return the score of each policy on each draw, [P, D].

        Args:
            network: policy with a memory, such as `ModesNetwork`, whose parameters are replaced.
            parameters: of the policies.
            draws: D of them.
            on_observed: called with the observations of all policies, [P, D * rows, numbers], and which of these act.

        Raises:
            WorldError: a simulation failed.
        """
        policies, _ = self._shape
        worlds = range(policies * len(draws))
        self._batch.set_options({"scenario": [draw.scenario for draw in draws] * policies}, worlds)
        seeds = [draw.run_seed(0) for draw in draws] * policies
        observations = cast(Observation, self._batch.reset(worlds, seeds))
        acting = _Acting(network, parameters, self._rows, observations.shape[-1])
        starts = np.ones(self._rows, np.bool_)
        scores = np.full(len(worlds), np.nan)
        running = cast(VectorWorld, self._batch.worlds)
        while True:
            rows = observations.reshape(policies, -1, observations.shape[-1])
            if on_observed is not None:
                on_observed(rows, self._acts().reshape(policies, -1))
            actions = acting.actions(rows, starts.reshape(policies, -1))
            self._batch.act(actions.reshape(*observations.shape[:-1], -1))
            starts = self._joined()
            ended = self._batch.has_ended
            for index in np.flatnonzero(ended & np.isnan(scores)).tolist():
                scores[index] = self._score(draws[index % len(draws)], running, index)
            if not np.isnan(scores).any():
                return scores.reshape(self._shape)
            if ended.any():  # these run once more, ignored, so that all can advance together
                again = np.flatnonzero(ended).tolist()
                self._batch.reset(again, [seeds[index] for index in again])
            observations = cast(Observation, self._batch.observe())

    def close(self) -> None:
        """End the worlds."""
        self._batch.close()

    def _score(self, draw: TrainingDraw, running: VectorWorld, index: int) -> float:
        team, (flows, _) = draw.team or draw.scenario, running.summary(index)
        return score_of_run(team, running.flow_summary_fields, flows, delta=self._delta)

    @property
    def _rows(self) -> int:
        policies, draws = self._shape
        return policies * draws * (self._batch.max_tuned if isinstance(self._batch, FlowBatch) else 1)

    def _acts(self) -> Flags:
        return self._batch.will_act.ravel() if isinstance(self._batch, FlowBatch) else np.ones(self._rows, np.bool_)

    def _joined(self) -> Flags:
        if isinstance(self._batch, FlowBatch):
            return self._batch.has_joined.ravel()
        return np.zeros(self._rows, np.bool_)


class _Acting:
    """Acts by all policies of a population at once: rows of observations [P, rows, numbers] -> [P, rows, tunables]."""

    def __init__(self, network: Any, parameters: Parameters, rows: int, width: int) -> None:
        policies = len(next(iter(parameters.values())))
        _, _, *memory = network.first_inputs(rows // policies, width)
        self._memory = [part.expand(policies, *part.shape) for part in memory]
        self._parameters = dict(parameters)
        buffers = dict(network.named_buffers())

        def act(own: dict[str, Tensor], *inputs: Tensor) -> tuple[Tensor, ...]:
            result: tuple[Tensor, ...] = torch.func.functional_call(network, {**buffers, **own}, inputs)
            return result

        self._act = torch.func.vmap(act)

    @torch.no_grad()
    def actions(self, observations: NDArray[np.float32], starts: Flags) -> NDArray[np.float32]:
        inputs = torch.from_numpy(observations), torch.from_numpy(starts.astype(np.float32))
        actions, *self._memory = self._act(self._parameters, *inputs, *self._memory)
        return actions.numpy()
