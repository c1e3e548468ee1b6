# SPDX-License-Identifier: GPL-2.0-only
"""Agents and policies that act by a network."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from bbrgym.agents.base import Policy
from bbrgym.agents.networks import SamplingNetwork, torch_threads
from bbrgym.worlds import Flags


class NetworkAgent:
    """Agent that acts by a network."""

    def __init__(self, name: str, network: nn.Module, *, is_per_flow: bool = False) -> None:
        self.name = name
        self.is_per_flow = is_per_flow
        self._network = network

    def make_policy(self, seeds: Sequence[int]) -> Policy:
        return policy_of(self._network, seeds)

    def network(self) -> nn.Module:
        """Return the network that acts and is exported."""
        return self._network


def policy_of(network: nn.Module, seeds: Sequence[int]) -> Policy:
    """Return a policy that acts by a network, in one environment per seed."""
    if isinstance(network, SamplingNetwork):
        return SamplingPolicy(network, seeds)
    has_memory = "episode_starts" in getattr(network, "inputs", ())
    return RecurrentPolicy(network, len(seeds)) if has_memory else LikeliestPolicy(network)


class LikeliestPolicy:
    """Takes the likeliest action."""

    def __init__(self, network: nn.Module) -> None:
        self._network = network

    def act(self, observations: Any, episode_starts: Flags) -> NDArray[Any]:  # noqa: ARG002 - it remembers nothing
        return _each_alone(self._network, _rows(observations))


class SamplingPolicy:
    """Draws actions as in training: where variety is rewarded, the mean action alone is another, worse policy."""

    def __init__(self, network: SamplingNetwork, seeds: Sequence[int]) -> None:
        self._network = network
        self._seeds = seeds
        self._generators = [self._generator(seed) for seed in seeds]

    def act(self, observations: Any, episode_starts: Flags) -> NDArray[Any]:
        for index in np.flatnonzero(episode_starts).tolist():
            self._generators[index] = self._generator(self._seeds[index])
        drawn = [generator.standard_normal((1, self._network.tunables), np.float32) for generator in self._generators]
        return _each_alone(self._network, _rows(observations), drawn)

    @staticmethod
    def _generator(seed: int) -> np.random.Generator:
        return np.random.default_rng([seed, *b"agent.actions"])


class RecurrentPolicy:
    """Takes the likeliest action, and remembers."""

    def __init__(self, network: Any, count: int) -> None:
        self._network = network
        _, _, *memory = network.first_inputs(1, 1)
        self._memories = [[part.numpy() for part in memory]] * count

    def act(self, observations: Any, episode_starts: Flags) -> NDArray[Any]:
        actions = []
        starts = episode_starts.astype(np.float32)
        for index, observation in enumerate(_rows(observations)):
            flag = starts[index : index + 1]
            action, *self._memories[index] = alone(self._network, observation, flag, *self._memories[index])
            actions.append(action)
        return np.concatenate(actions)


def _rows(observations: NDArray[Any]) -> list[NDArray[Any]]:
    return [observations[index : index + 1] for index in range(len(observations))]


_THREADS_ARE_SET = threading.Lock()
"""Held while a network computes: where PyTorch keeps its number of threads for the whole process, not for each thread
as with OpenMP, runs side by side would set each other's."""


@contextmanager
def in_one_thread() -> Iterator[None]:
    """Let PyTorch compute in one thread: sums that are split over threads round differently."""
    with _THREADS_ARE_SET, torch_threads(1):
        yield


@torch.inference_mode()
def _each_alone(network: nn.Module, *inputs: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Return the outputs of a network of one output for several environments, each with the bits of `alone`."""
    with in_one_thread():  # rows are copied: products of those not aligned in memory round differently
        return np.concatenate([network(*map(torch.tensor, row)).numpy() for row in zip(*inputs, strict=True)])


@torch.no_grad()
def alone(network: nn.Module, *inputs: NDArray[Any]) -> list[NDArray[Any]]:
    """Return the outputs of a network for one environment.

    Environments are computed one at a time, in one thread: sums over several rows, or split differently, round
    differently, and an agent must act the same whatever environments are beside its own.
    """
    with in_one_thread():
        outputs = network(*map(torch.tensor, inputs))
    return [output.numpy() for output in (outputs if isinstance(outputs, tuple) else (outputs,))]
