# SPDX-License-Identifier: GPL-2.0-only
"""What the figures of a sweep show, on paper and on the page alike."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import polars as pl

from bbrgym.sweeps.results import SEED, Results

MAX_CURVES = 14  # settings that get a curve of their own, the best ones
_WIDE = 30.0  # a parameter whose values span more than this ratio is on a logarithmic axis


@dataclass(frozen=True)
class Panel:
    """The metric over one parameter.

    Attributes:
        parameter: its name.
        values: of each row; numbers, or texts where one is no number.
        scores: of each row.
        jobs: of each row.
        is_log: whether the axis is.
    """

    parameter: str
    values: list[Any]
    scores: list[float]
    jobs: list[str]
    is_log: bool

    @property
    def is_numeric(self) -> bool:
        """Whether all values are numbers."""
        return all(isinstance(value, int | float) for value in self.values)

    def means(self) -> tuple[list[Any], list[float]]:
        """Each value, in order, and the mean of its scores."""
        rows = pl.DataFrame({"value": self.values, "score": self.scores}, strict=False)
        means = rows.group_by("value", maintain_order=True).agg(pl.col("score").mean())
        means = means.sort("value") if self.is_numeric else means
        return means["value"].to_list(), means["score"].to_list()


@dataclass(frozen=True)
class Curve:
    """The validation score over steps of one setting: the mean over its seeds, and the lowest and highest of them."""

    label: str
    steps: list[int]
    means: list[float]
    lows: list[float]
    highs: list[float]


def panels(results: Results) -> list[Panel]:
    """One for each parameter; the seed's only where nothing else differs."""
    known = results.known()
    names = results.settings or [name for name in results.parameters if name == SEED]
    return [_panel(known, name, results.metric) for name in names if len(known)]


def _panel(known: pl.DataFrame, name: str, metric: str) -> Panel:
    column = known[name].drop_nulls()
    is_log = column.dtype.is_numeric() and len(column) > 0 and column.min() > 0 and column.max() > _WIDE * column.min()  # type: ignore[operator]
    values = known[name].to_list()
    shown = values if column.dtype.is_numeric() and len(column) == len(values) else [str(value) for value in values]
    return Panel(name, shown, known[metric].to_list(), known["job"].to_list(), bool(is_log))


def curves(results: Results) -> Iterator[Curve]:
    """Of the settings with the highest last score."""
    names = [name for name in results.parameters if name != SEED]
    rows = results.curves.join(results.summary.select("job", *names).unique(), on="job", maintain_order="left")
    found = []
    for key, group in rows.group_by(*names, maintain_order=True) if names else [((), rows)]:
        over = group.group_by("step").agg(
            pl.col("score").mean().alias("mean"),
            pl.col("score").min().alias("low"),
            pl.col("score").max().alias("high"),
        )
        over = over.sort("step")
        label = ", ".join(f"{name}={value}" for name, value in zip(names, key, strict=True)) or results.title
        if len(over):
            parts = (over[name].to_list() for name in ("step", "mean", "low", "high"))
            found.append(Curve(label, *parts))
    yield from sorted(found, key=lambda curve: -curve.means[-1])[:MAX_CURVES]
