# SPDX-License-Identifier: GPL-2.0-only
"""Agents' networks as they act in environments side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from bbrgym.agents.base import Tuner
from bbrgym.agents.networks import Network, RecurrentNetwork, SamplingNetwork
from bbrgym.agents.training.checkpoints import torch_threads
from bbrgym.envs.learners import Flags


def tuner_of(network: Network | SamplingNetwork | RecurrentNetwork, seeds: Sequence[int]) -> Tuner:
    """Acts as a network says, in so many environments side by side."""
    if isinstance(network, SamplingNetwork):
        return SamplingTuner(network, seeds)
    return RecurrentTuner(network, len(seeds)) if isinstance(network, RecurrentNetwork) else NetworkTuner(network)


class NetworkTuner:
    """Takes the most likely action."""

    def __init__(self, network: Network) -> None:
        self._network = network

    def act(self, observations: Any, begun: Flags) -> NDArray[Any]:  # noqa: ARG002 - it remembers nothing
        """See `Tuner`."""
        return np.concatenate([_alone(self._network, seen)[0] for seen in _rows(observations)])


class SamplingTuner:
    """Draws actions as in training: where variety itself pays, the mean action alone is another, worse policy."""

    def __init__(self, network: SamplingNetwork, seeds: Sequence[int]) -> None:
        self._network = network
        self._seeds = seeds
        self._generators = [self._generator(seed) for seed in seeds]

    def act(self, observations: Any, begun: Flags) -> NDArray[Any]:
        """See `Tuner`."""
        for index in np.flatnonzero(begun).tolist():
            self._generators[index] = self._generator(self._seeds[index])
        drawn = [generator.standard_normal((1, self._network.tunables), np.float32) for generator in self._generators]
        rows = zip(_rows(observations), drawn, strict=True)
        return np.concatenate([_alone(self._network, seen, noise)[0] for seen, noise in rows])

    @staticmethod
    def _generator(seed: int) -> np.random.Generator:
        return np.random.default_rng([seed, *b"agent.actions"])


class RecurrentTuner:
    """Takes the most likely action, and remembers."""

    def __init__(self, network: RecurrentNetwork, count: int) -> None:
        self._network = network
        _, _, *memory = network.first_inputs(1, 1)
        self._memories = [[part.numpy() for part in memory]] * count

    def act(self, observations: Any, begun: Flags) -> NDArray[Any]:
        """See `Tuner`."""
        actions = []
        has_begun = begun.astype(np.float32)
        for index, seen in enumerate(_rows(observations)):
            flag = has_begun[index : index + 1]
            action, *self._memories[index] = _alone(self._network, seen, flag, *self._memories[index])
            actions.append(action)
        return np.concatenate(actions)


def _rows(observations: NDArray[Any]) -> list[NDArray[Any]]:
    return [observations[index : index + 1] for index in range(len(observations))]


@torch.no_grad()
def _alone(network: nn.Module, *inputs: NDArray[Any]) -> list[NDArray[Any]]:
    """What a network gives for one environment.

    One at a time, on one thread, from memory of its own: sums over several rows at once, or in other parts, are rounded
    otherwise, and an agent shall do the same in whatever company it acts.
    """
    with torch_threads(1):
        outputs = network(*map(torch.tensor, inputs))
    return [output.numpy() for output in (outputs if isinstance(outputs, tuple) else (outputs,))]
