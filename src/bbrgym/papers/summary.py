# SPDX-License-Identifier: GPL-2.0-only
"""Verdicts on the experiments of a paper: a row each, for the documentation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from bbrgym.papers.experiment import Experiment
from bbrgym.papers.tables import compared, factor_shares, reasons_text, verdict_counts, verdict_of_rows


def heading_of(experiment: Experiment) -> str:
    """Return the heading of an experiment's section."""
    return f"{experiment.name}: {experiment.title}"


def verdict_headings(others: Sequence[str]) -> list[str]:
    """Return the headings of a paper's verdicts; those by ``others``, stacks of every sender, have columns too."""
    own = ["experiment", "shows", "verdict", "agree, shape, no", "within 1.25, 1.6"]
    return [*own, *(f"`stack={stack}`" for stack in others)]


def verdict_rows(
    experiments: Sequence[Experiment], numbers: pl.DataFrame, others: Mapping[str, pl.DataFrame]
) -> Iterator[list[str]]:
    """Yield the cells of `verdict_headings` for each experiment and world.

    They are the verdict with the reading that has it, the numbers and claims by verdict, and the shares of the
    published numbers within each factor. ``numbers`` are rows of numbers.parquet, ``others`` those of other stacks.
    """
    for experiment in experiments:
        own = numbers.filter(pl.col("experiment") == experiment.name)
        if not len(own):
            yield [f"`{experiment.id}`", experiment.title, "not run", *[""] * (2 + len(others))]
        worlds = own["world"].unique(maintain_order=True).to_list()
        for world in worlds:
            where = f" in `{world}`" if len(worlds) > 1 else ""
            rows = own.filter(pl.col("world") == world)
            yield [
                f"`{experiment.id}`{where}",
                experiment.title,
                _verdict(rows),
                ", ".join(verdict_counts(rows["verdict"].to_list())[:3]),
                ", ".join(f"{100 * share:.0f} %" for share in factor_shares(rows)),
                *(_verdict(_of(other, experiment, world)) for other in others.values()),
            ]


def unmeasured(experiments: Sequence[Experiment], numbers: pl.DataFrame) -> Iterator[str]:
    """Yield a sentence for each experiment of which something was not measured."""
    for experiment in experiments:
        reasons = reasons_text(numbers.filter(pl.col("experiment") == experiment.name))
        if experiment.no_run or reasons:
            yield f"- `{experiment.id}`: {experiment.no_run or reasons}"


def _of(numbers: pl.DataFrame, experiment: Experiment, world: str) -> pl.DataFrame:
    return numbers.filter((pl.col("experiment") == experiment.name) & (pl.col("world") == world))


def _verdict(rows: pl.DataFrame) -> str:
    if not len(compared(rows)):
        return ""
    verdict, reading = verdict_of_rows(rows)
    return verdict if reading is None else f"{verdict} ({reading})"
