# SPDX-License-Identifier: GPL-2.0-only
"""Results of an evaluation: the source of its tables, figures and report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from bbrgym.evaluate.entrants import Entrant
from bbrgym.evaluate.ranking import Ranking
from bbrgym.evaluate.records import worlds_of
from bbrgym.scenario.distribution import Distribution
from bbrgym.scenario.model import Scenario


@dataclass(frozen=True)
class Results:
    """Records of an evaluation, and its configuration."""

    title: str  # name of the scenario, or of the distribution with the number of draws
    entrants: Sequence[Entrant]  # in the order of the records
    draws: Mapping[int, Scenario]  # scenarios of a distribution by seed; empty for a plain scenario
    reference: str | None  # name of the entrant that the others are compared with; None for the best fixed one
    summary: pl.DataFrame  # rows of summary.parquet
    references: pl.DataFrame  # rows of references.parquet; none without flows that are not tuned
    timeseries: pl.DataFrame  # rows of timeseries.parquet
    checks: pl.DataFrame  # rows of checks.parquet; none if no scenario has checks
    timing: pl.DataFrame  # rows of timing.csv
    config: str  # configuration in YAML, defaults included
    distribution: Distribution | None  # that the draws are from; None for a plain scenario

    @cached_property
    def rankings(self) -> list[Ranking]:
        """One ranking per world, over draws of a distribution; none of a plain scenario."""
        if not self.draws:
            return []
        return [
            Ranking(self.summary, world, self.entrants, self.draws, self.reference) for world in worlds_of(self.summary)
        ]
