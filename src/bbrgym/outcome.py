# SPDX-License-Identifier: GPL-2.0-only
"""What came out of an evaluation, whole: what its tables, figures and report are made from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import polars as pl
from rich.table import Table

from bbrgym import tables
from bbrgym.contest import Contest
from bbrgym.contestants import Contestant, Learned
from bbrgym.policy_map import policy_map
from bbrgym.scenario import Scenario


@dataclass(frozen=True)
class Outcome:
    """The records of an evaluation, and what was asked.

    Attributes:
        title: of what was run.
        contestants: who took part.
        draws: of a distribution, by seed; empty for a plain scenario.
        reference: whom the others are to be compared with, if that was said.
        summary: rows of summary.parquet.
        timeseries: rows of timeseries.parquet.
        timing: rows of timing.csv.
    """

    title: str
    contestants: Sequence[Contestant]
    draws: Mapping[int, Scenario]
    reference: str | None
    summary: pl.DataFrame
    timeseries: pl.DataFrame
    timing: pl.DataFrame

    @cached_property
    def contests(self) -> list[Contest]:
        """Of draws of a distribution: one of each world."""
        if not self.draws:
            return []
        return [
            Contest(self.summary, world, self.contestants, self.draws, self.reference)
            for world in tables.worlds_of(self.summary)
        ]

    @cached_property
    def policy_maps(self) -> dict[str, pl.DataFrame]:
        """What each trained agent does with one flow alone, by label; of several training runs the first one's."""
        first: dict[str, Learned] = {}
        for one in self.contestants:
            if isinstance(one, Learned) and one.kind == "learned":
                first.setdefault(one.group, one)
        return {one.label: policy_map(one) for one in first.values()}

    def tables(self) -> Iterator[Table]:
        """All tables for people, but for the speed."""
        yield from tables.tables_of(self.summary, self.title)
        for contest in self.contests:
            yield tables.standings_table(contest, self.title)
            yield tables.families_table(contest, self.title)
