# SPDX-License-Identifier: GPL-2.0-only
"""Parts of a training's simulations: each runs some draws and leaves a table in the run folder.

A part depends on nothing but its task. So an interrupted training goes on with the parts that are missing, parts may
run anywhere in any order, and the tables are the same to the byte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
import polars as pl

from bbrgym.agents.training.draws import TrainingDraw
from bbrgym.agents.training.folder import TrainingFolder
from bbrgym.agents.training.vec_env import Rollouts
from bbrgym.worlds import Table

_FOLDER = "states"
DRAWS_PER_PART = 16
"""Draws that a part runs side by side: enough to keep some threads busy, and few enough to lose little to a kill."""


class Part(Protocol):
    """Task of a training; can be pickled."""

    @property
    def steps(self) -> int: ...  # control intervals that it simulates

    def __call__(self, threads: int | None) -> pl.DataFrame:
        """Simulate, in so many threads, and return the results.

        Raises:
            WorldError: a simulation failed.
        """


class Parts:
    """The parts of a training, in the training's run folder."""

    def __init__(
        self,
        folder: TrainingFolder,
        rollouts: Rollouts,
        threads: int | None,
        on_done: Callable[[int, Table], None],
    ) -> None:
        self._folder = folder
        self._rollouts = rollouts
        self._threads = threads
        self._on_done = on_done  # called with the steps and the scores of each part that is done, in their order

    def tables(self, stage: str, parts: Sequence[Part]) -> pl.DataFrame:
        """Return the tables of a stage's parts, one below the other; run those that the folder does not hold.

        Raises:
            ConfigError: a kept table is damaged.
            WorldError: a simulation failed; finished parts are kept.
            OSError: a table cannot be written.
        """
        names = [f"{_FOLDER}/{stage}-{number:05d}.parquet" for number in range(len(parts))]
        is_kept = [(self._folder.path / name).exists() for name in names]
        tables = {number: self._folder.read_table(names[number]) for number in range(len(parts)) if is_kept[number]}
        reported = self._report(parts, tables, 0)
        missing = [number for number in range(len(parts)) if number not in tables]
        for place, table in self._rollouts.results([parts[number] for number in missing], self._threads):
            number = missing[place]
            self._folder.write_table(names[number], table)
            tables[number] = table
            reported = self._report(parts, tables, reported)
        return pl.concat([tables[number] for number in range(len(parts))])

    def _report(self, parts: Sequence[Part], tables: Mapping[int, pl.DataFrame], first: int) -> int:
        """Report parts from number ``first`` on, in order, up to one that is not done; return the number of that."""
        while first in tables:
            self._on_done(parts[first].steps, _scores_in(tables[first]))
            first += 1
        return first


def parts_of(draws: Sequence[TrainingDraw]) -> Iterator[tuple[TrainingDraw, ...]]:
    """Yield the draws of each part."""
    for start in range(0, len(draws), DRAWS_PER_PART):
        yield tuple(draws[start : start + DRAWS_PER_PART])


def _scores_in(table: pl.DataFrame) -> Table:
    """Return all scores of a part's table."""
    column = next(table[name] for name in ("score", "scores") if name in table.columns)
    return np.array(column.to_list()).ravel()
