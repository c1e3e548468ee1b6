# SPDX-License-Identifier: GPL-2.0-only
"""The results of an evaluation: all that its tables, figures and report are made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from bbrgym.evaluate.entrants import Entrant, Learned
from bbrgym.evaluate.policy_map import policy_map
from bbrgym.evaluate.ranking import Ranking
from bbrgym.evaluate.records import worlds_of
from bbrgym.scenario.model import Scenario


@dataclass(frozen=True)
class Results:
    """The records of an evaluation, and its configuration.

    Attributes:
        title: of what was run.
        entrants: who took part.
        draws: of a distribution, by seed; empty for a plain scenario.
        reference: whom the others are to be compared with, if that was said.
        summary: rows of summary.parquet.
        timeseries: rows of timeseries.parquet.
        timing: rows of timing.csv.
        config: the configuration, every default written out, in YAML.
    """

    title: str
    entrants: Sequence[Entrant]
    draws: Mapping[int, Scenario]
    reference: str | None
    summary: pl.DataFrame
    timeseries: pl.DataFrame
    timing: pl.DataFrame
    config: str

    @cached_property
    def rankings(self) -> list[Ranking]:
        """Of draws of a distribution: one of each world."""
        if not self.draws:
            return []
        return [
            Ranking(self.summary, world, self.entrants, self.draws, self.reference) for world in worlds_of(self.summary)
        ]

    @cached_property
    def policy_maps(self) -> dict[str, pl.DataFrame]:
        """What each trained agent does with one flow alone, by label; of several training runs the first one's."""
        first: dict[str, Learned] = {}
        for one in self.entrants:
            if isinstance(one, Learned) and one.kind == "learned":
                first.setdefault(one.group, one)
        return {one.label: policy_map(one) for one in first.values()}
