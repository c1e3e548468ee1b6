# SPDX-License-Identifier: GPL-2.0-only
"""Random generators of environments, from which the seeds of episodes are drawn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from gymnasium.utils import seeding

from bbrgym.worlds import check_seed

_SEEDS = 2**31


class Generators:
    """A random generator for each of N environments."""

    def __init__(self, num_envs: int) -> None:
        self._generators: list[np.random.Generator | None] = [None] * num_envs
        self._seeds = [-1] * num_envs

    def all(self) -> tuple[np.random.Generator, ...]:
        """Return the generator of each environment."""
        return tuple(self._of(index, None) for index in range(len(self._generators)))

    def seeds(self) -> tuple[int, ...]:
        """Return the seed of each generator."""
        self.all()
        return tuple(self._seeds)

    def draw_seeds(self, indices: Sequence[int], seeds: Sequence[int | None]) -> list[int]:
        """Return the seeds of the next episodes of some environments.

        Args:
            indices: environments.
            seeds: given seeds, which seed the generators too; None for a seed drawn from the generator.

        Raises:
            ConfigError: a seed is not allowed.
        """
        checked = [None if seed is None else check_seed(seed) for seed in seeds]
        pairs = [(self._of(index, seed), seed) for index, seed in zip(indices, checked, strict=True)]
        return [draw_seed(generator) if seed is None else seed for generator, seed in pairs]

    def _of(self, index: int, seed: int | None) -> np.random.Generator:
        generator = self._generators[index]
        if generator is None or seed is not None:
            generator, self._seeds[index] = seeding.np_random(seed)
            self._generators[index] = generator
        return generator


def draw_seed(generator: np.random.Generator) -> int:
    """Draw the seed of an episode."""
    return int(generator.integers(_SEEDS))
