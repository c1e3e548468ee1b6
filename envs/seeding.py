# SPDX-License-Identifier: GPL-2.0-only
"""Where the seeds of runs come from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from gymnasium.utils import seeding

_SEEDS = 2**31


class Generators:
    """One for each of N environments, from which the seeds of its runs are drawn."""

    def __init__(self, num_envs: int) -> None:
        self._generators: list[np.random.Generator | None] = [None] * num_envs
        self._seeds = [-1] * num_envs

    def all(self) -> tuple[np.random.Generator, ...]:
        """Of each environment."""
        return tuple(self._of(index, None) for index in range(len(self._generators)))

    def seeds(self) -> tuple[int, ...]:
        """What each was seeded with."""
        self.all()
        return tuple(self._seeds)

    def draw_seeds(self, indices: Sequence[int], seeds: Sequence[int | None]) -> list[int]:
        """Seeds of the environments' next runs: the given one, which seeds the generator too, or else one drawn."""
        pairs = [(self._of(index, seed), seed) for index, seed in zip(indices, seeds, strict=True)]
        return [draw_seed(generator) if seed is None else seed for generator, seed in pairs]

    def _of(self, index: int, seed: int | None) -> np.random.Generator:
        generator = self._generators[index]
        if generator is None or seed is not None:
            generator, self._seeds[index] = seeding.np_random(seed)
            self._generators[index] = generator
        return generator


def draw_seed(generator: np.random.Generator) -> int:
    """The seed of a run that was given none."""
    return int(generator.integers(_SEEDS))
