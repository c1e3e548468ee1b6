# SPDX-License-Identifier: GPL-2.0-only
"""Scores of a population of policies on the same draws, all side by side in one vector of worlds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bbrgym.agents.rollout import batch_of
from bbrgym.agents.training.draws import TrainingDraw
from bbrgym.envs.features import Observation
from bbrgym.envs.flow_batch import FlowBatch
from bbrgym.envs.options import Options
from bbrgym.worlds import Flags, Table, VectorWorld
from bbrgym.worlds.score import Objective

Parameters = Mapping[str, Tensor]
"""Parameters of a population's policies by name, [policies, ...] each."""


class Population:
    """Environments for P policies on D draws each, where every policy meets the same D runs.

    Attributes:
        width: numbers of an observation.
        features: of them, those before the current tunables.
        rows: observations of each policy, one for each controller in each of its draws.
    """

    def __init__(self, policies: int, draws: int, options: Options, objective: Objective) -> None:
        self._shape = (policies, draws)
        self._batch = batch_of(policies * draws, options)
        self.width = self._batch.observation.width
        self._objective = objective
        self.rows = draws * (self._batch.max_tuned if isinstance(self._batch, FlowBatch) else 1)
        self.features = self.width - len(self._batch.scaling.names)

    def scores(
        self,
        acting: NetworkPolicies,
        draws: Sequence[TrainingDraw],
        on_observed: Callable[[NDArray[np.float32], Flags], object] | None = None,
    ) -> Table:
        """Return the score of each policy on each draw, [P, D].

        Args:
            acting: the policies, which have not acted yet.
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
        starts = np.ones((policies, self.rows), np.bool_)
        scores = np.full(len(worlds), np.nan)
        running = cast(VectorWorld, self._batch.worlds)
        while True:
            rows = observations.reshape(policies, -1, observations.shape[-1])
            if on_observed is not None:
                on_observed(rows, self._acts())
            actions = acting.actions(rows, starts)
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
        return self._objective.of_run(team, running.flow_summary_fields, flows)

    def _acts(self) -> Flags:
        shape = self._shape[0], self.rows
        return self._batch.will_act.reshape(shape) if isinstance(self._batch, FlowBatch) else np.ones(shape, np.bool_)

    def _joined(self) -> Flags:
        shape = self._shape[0], self.rows
        return (
            self._batch.has_joined.reshape(shape) if isinstance(self._batch, FlowBatch) else np.zeros(shape, np.bool_)
        )


class NetworkPolicies:
    """Policies of one network with a memory, such as `ModesNetwork`, each with other parameters.

    Args:
        network: whose parameters are replaced.
        parameters: of the policies.
        rows: observations of each policy.
        width: numbers of an observation.
    """

    def __init__(self, network: Any, parameters: Parameters, rows: int, width: int) -> None:
        policies = len(next(iter(parameters.values())))
        _, _, *memory = network.first_inputs(rows, width)
        self._memory = [part.expand(policies, *part.shape) for part in memory]
        self._parameters = dict(parameters)
        buffers = dict(network.named_buffers())

        def act(own: dict[str, Tensor], *inputs: Tensor) -> tuple[Tensor, ...]:
            result: tuple[Tensor, ...] = torch.func.functional_call(network, {**buffers, **own}, inputs)
            return result

        self._act = torch.func.vmap(act)

    @torch.no_grad()
    def actions(self, observations: NDArray[np.float32], starts: Flags) -> NDArray[np.float32]:
        """Return the actions, [P, rows, tunables].

        Args:
            observations: [P, rows, numbers].
            starts: which rows are at the beginning of an episode or of a flow, [P, rows].
        """
        inputs = torch.from_numpy(observations), torch.from_numpy(starts.astype(np.float32))
        actions, *self._memory = self._act(self._parameters, *inputs, *self._memory)
        return actions.numpy()
