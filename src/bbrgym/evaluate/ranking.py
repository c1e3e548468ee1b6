# SPDX-License-Identifier: GPL-2.0-only
"""Ranking of the entrants in one world: their scores over all draws of a distribution and by family of scenarios."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
import polars as pl

from bbrgym.errors import ConfigError, nearest
from bbrgym.evaluate.entrants import Entrant
from bbrgym.evaluate.records import FIXED, per_run
from bbrgym.evaluate.statistics import Array, Estimate, Scores, known_mean
from bbrgym.scenario.families import FAMILIES, families_of
from bbrgym.scenario.model import Scenario
from bbrgym.worlds.score import HARMS

ALL = "all"
"""Name of the family that holds every draw."""

# columns of `per_run` that stand beside the score
_BESIDE = ("own_score", "others_share", "others_below_half", *HARMS)


@dataclass(frozen=True)
class RankingRow:
    """Scores of one entrant on some draws."""

    entrant: str  # its label; the group's name where several training runs are pooled
    runs: int  # number of training runs pooled, 1 for an entrant by itself
    draws: int  # number of draws
    mean: Estimate  # score
    iqm: Estimate  # interquartile mean of the score
    own_score: Estimate
    difference: Estimate  # score minus the reference's, on the same draw
    improvement: Estimate  # probability of being better than the reference on a draw
    # part of the way from the best fixed tunables to the oracle; NaN without an oracle, and where the interval of
    # the oracle's lead over the best fixed tunables holds 0
    gap_closed: Estimate
    # means over the draws with flows that are not tuned: their goodput / fair share, whether that is below a half, and
    # the harm to them
    others_share: Estimate
    others_below_half: Estimate
    harm: Estimate
    harm_rtt_p95: Estimate
    harm_loss: Estimate


class Ranking:
    """The scores of all entrants in one world, by rows of summary.parquet, and scenarios by seed.

    ``reference`` is the entrant that the others are compared with. Default: the best fixed one.

    Raises:
        ConfigError: there is no entrant named ``reference``.
    """

    def __init__(
        self,
        summary: pl.DataFrame,
        world: str,
        entrants: Sequence[Entrant],
        draws: Mapping[int, Scenario],
        reference: str | None = None,
    ) -> None:
        self.world = world
        self.entrants = list(entrants)
        runs = per_run(summary.filter(pl.col("world") == world))
        of_entrants = {one.label: runs.filter(pl.col("entrant") == one.label) for one in entrants}
        tables = {
            name: {label: _values_of(own, name, draws) for label, own in of_entrants.items()}
            for name in ("score", *_BESIDE)
        }
        # values of entrants, and of groups of training runs, on the draws on which every entrant has a score
        has_score = np.all([np.isfinite(scores) for scores in tables["score"].values()], axis=0)
        self._beside = {
            name: Scores(_with_groups({label: row[has_score] for label, row in table.items()}, entrants))
            for name, table in tables.items()
        }
        self.scores = self._beside.pop("score")
        fixed = [one.label for one in entrants if one.kind == "fixed"]
        # label of the entrant with fixed tunables and the best mean, and of the oracle; None without one
        self.best_fixed = max(fixed, key=lambda name: self.scores[name].mean()) if fixed else None
        self.oracle = next((one.label for one in entrants if one.kind == "oracle"), None)
        self.reference = find_reference(reference, entrants) or self.best_fixed or self.scores.names[0]
        scenarios = [scenario for scenario, counts in zip(draws.values(), has_score, strict=True) if counts]
        members = [families_of(scenario) for scenario in scenarios]
        # indices of each family's draws among those of the scores
        self.families = {name: [at for at, names in enumerate(members) if name in names] for name in FAMILIES}

    @cached_property
    def rows(self) -> list[RankingRow]:
        """One row per entrant and per group of training runs, over all draws."""
        return self._rows(range(self.scores.draws))

    @property
    def main(self) -> list[str]:
        """Labels of the entrants shown in detail: the reference, and the first training run of each agent."""
        agents = {one.group: one.label for one in reversed(self.entrants) if one.agent != FIXED}
        tuned = {one.group: one.label for one in reversed(self.entrants) if one.kind in ("learned", "oracle")}
        chosen = {self.reference, *(tuned or agents).values()}
        return [one.label for one in self.entrants if one.label in chosen or not agents]

    @cached_property
    def by_family(self) -> dict[str, list[RankingRow]]:
        """Rows over the draws of each family that has any."""
        return {family: self._rows(indices) for family, indices in self.families.items() if indices}

    def table(self) -> pl.DataFrame:
        """Return the rows of ranking.parquet: one per family (`ALL`: all draws) and entrant."""
        rows = [
            {"world": self.world, "family": family, **_columns(row)}
            for family, of_family in {ALL: self.rows, **self.by_family}.items()
            for row in of_family
        ]
        return pl.DataFrame(rows)

    def _rows(self, indices: Sequence[int]) -> list[RankingRow]:
        scores = self.scores.of_draws(indices)
        return [self._row(scores, name, list(indices)) for name in scores.names]

    def _row(self, scores: Scores, name: str, indices: list[int]) -> RankingRow:
        ends = (self.best_fixed, self.oracle) if self.best_fixed is not None and self.oracle is not None else None
        return RankingRow(
            entrant=name,
            runs=len(scores[name]),
            draws=scores.draws,
            mean=scores.mean(name),
            iqm=scores.iqm(name),
            difference=scores.difference(name, self.reference),
            improvement=scores.improvement(name, self.reference),
            gap_closed=scores.gap_closed(name, *ends) if ends else Estimate(math.nan),
            **{column: known_mean(values[name][:, indices]) for column, values in self._beside.items()},
        )


def find_reference(reference: str | None, entrants: Sequence[Entrant]) -> str | None:
    """Return the label of the reference, given as a label, a group's name or an agent's name.

    Raises:
        ConfigError: no entrant has that name.
    """
    if reference is None:
        return None
    names = {name: one.label for one in reversed(entrants) for name in (one.agent, one.label)}
    names |= {one.group: one.group for one in entrants}
    if reference not in names:
        raise ConfigError(
            f"reference: is {reference!r}; {nearest(reference, [one.label for one in entrants], 'the ranking')}"
        )
    return names[reference]


def _values_of(runs: pl.DataFrame, column: str, seeds: Iterable[int]) -> Array:
    """Return the values of an entrant's runs: [draws], in the order of ``seeds``, NaN for null."""
    values = dict(zip(runs["seed"].to_list(), runs[column].to_list(), strict=True))
    return np.array([values[seed] for seed in seeds], np.float64)


def _with_groups(by_label: Mapping[str, Array], entrants: Sequence[Entrant]) -> dict[str, Array]:
    """Return scores in the entrants' order, with each group's pooled training runs behind its last run."""
    groups: dict[str, list[str]] = {}
    for one in entrants:
        groups.setdefault(one.group, []).append(one.label)
    scores = {}
    for one in entrants:
        scores[one.label] = by_label[one.label]
        labels = groups[one.group]
        if len(labels) > 1 and one.label == labels[-1]:
            scores[one.group] = np.array([by_label[label] for label in labels])
    return scores


def _columns(row: RankingRow) -> dict[str, object]:
    """Return the columns of a row: three for an estimate, its value and with ``_low`` and ``_high`` its interval."""
    columns: dict[str, object] = {}
    for field in fields(row):
        value = getattr(row, field.name)
        if isinstance(value, Estimate):
            columns |= {field.name: value.value, f"{field.name}_low": value.low, f"{field.name}_high": value.high}
        else:
            columns[field.name] = value
    return columns
