# SPDX-License-Identifier: GPL-2.0-only
"""CMA-ES over named parameters of a policy, as one vector."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import torch
from torch import Tensor

from bbrgym.agents.evolution.population import Parameters
from bbrgym.errors import MissingExtraError
from bbrgym.worlds import Table

_AVERAGED = 10  # generations, at most


class Evolution:
    """Distribution of parameters, which moves towards the better ones of each generation.

    Args:
        start: first mean.
        policies: of a generation.
        step: first standard deviation.
        seed: of the strategy.
        is_separable: whether parameters vary independently, which hundreds of them need. Ros and Hansen, A simple
            modification in CMA-ES achieving linear time and space complexity, 2008.

    Raises:
        MissingExtraError: the package cmaes is not installed.
    """

    def __init__(
        self, start: Mapping[str, Tensor], policies: int, step: float, seed: int, *, is_separable: bool = False
    ) -> None:
        try:
            import cmaes
        except ModuleNotFoundError as error:
            raise MissingExtraError("agent=evolution", "train", error) from error
        self._shapes = {name: one.shape for name, one in start.items()}
        mean = torch.cat([one.detach().ravel() for one in start.values()])
        strategy = cmaes.SepCMA if is_separable else cmaes.CMA
        self._strategy = strategy(mean.double().numpy(), step, seed=seed % 2**32, population_size=policies)
        self._policies = policies
        self._means: list[Table] = []

    def ask(self) -> Table:
        """Return the parameters of the next generation, [policies, numbers]."""
        return np.stack([self._strategy.ask() for _ in range(self._policies)])

    def tell(self, asked: Table, fitness: Table) -> None:
        """Move towards the policies of the highest fitness, [policies]."""
        self._strategy.tell([(one, -value) for one, value in zip(asked, fitness.tolist(), strict=True)])
        self._means.append(self._strategy.mean.copy())

    def mean(self) -> Table:
        """Return the mean of the distribution, averaged over the last third of at most 30 generations, [numbers]."""
        last = max(1, min(_AVERAGED, len(self._means) // 3))
        average: Table = np.mean(self._means[-last:] or [self._strategy.mean], axis=0)
        return average

    def named(self, numbers: Table) -> Parameters:
        """Return parameters by name, [policies, ...] each, of [policies, numbers]."""
        return dict(self._parts(torch.from_numpy(numbers).float()))

    def _parts(self, numbers: Tensor) -> Iterator[tuple[str, Tensor]]:
        place = 0
        for name, shape in self._shapes.items():
            yield name, numbers[:, place : place + shape.numel()].reshape(len(numbers), *shape)
            place += shape.numel()
