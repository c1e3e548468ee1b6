# SPDX-License-Identifier: GPL-2.0-only
"""Verdicts on the experiments of a paper: a row each, for the documentation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

import polars as pl

from bbrgym.papers.experiment import Experiment
from bbrgym.papers.tables import compared, factor_shares, reasons_text, verdict_counts, verdict_of_rows
from bbrgym.papers.verdicts import TESTBED_VERDICTS

TESTBEDS = ("experiment", "shows", "flows", "quantity", "cells", *TESTBED_VERDICTS, "mean difference", "model's")
_QUANTITY = ("variant", "metric", "flow", "at")  # what names a testbed's number within its experiment


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


def rows_of_testbeds(experiments: Sequence[Experiment], numbers: pl.DataFrame) -> Iterator[list[str]]:
    """Yield the cells of `TESTBEDS` for each experiment, world, congestion control under test and metric.

    The mean difference from the testbed's means is in points where the metric is a ratio, and else in percent of each
    mean. That of another model is reported where it has an answer in all of the cells.
    """
    for experiment in experiments:
        own = numbers.filter(pl.col("experiment") == experiment.name)
        if not len(own):
            yield [f"`{experiment.name}`", experiment.title, "not run", *[""] * (len(TESTBEDS) - 3)]
        controls = {name: variant.cc or name for name, variant in experiment.variants.items()}
        models = {tuple(getattr(one.quantity, key) for key in _QUANTITY): one.model for one in experiment.numbers}
        controlled = own.with_columns(cc=pl.col("variant").replace_strict(controls, return_dtype=pl.String))
        for (world, control, metric), rows in controlled.group_by("world", "cc", "metric", maintain_order=True):
            cells = [row for row in rows.iter_rows(named=True) if row["verdict"] != "not run"]
            answers = [models[tuple(row[key] for key in _QUANTITY)] for row in cells]
            known = [answer for answer in answers if answer is not None]
            yield [
                f"`{experiment.name}`" + (f" in `{world}`" if own["world"].n_unique() > 1 else ""),
                experiment.title,
                str(control),
                str(metric),
                str(len(cells)),
                *(str(sum(row["verdict"] == verdict for row in cells)) for verdict in TESTBED_VERDICTS),
                _mean_difference(cells, [row["measured"] for row in cells]),
                _mean_difference(cells, known) if len(known) == len(cells) else "",
            ]


def _mean_difference(cells: Sequence[Mapping[str, Any]], values: Sequence[float]) -> str:
    if not cells:
        return ""
    pairs = [(cell, abs(value - cell["published"])) for cell, value in zip(cells, values, strict=True)]
    if cells[0]["unit"] == "ratio":
        return f"{100 * fmean(difference for _, difference in pairs):.1f} points"
    return f"{100 * fmean(difference / abs(cell['published']) for cell, difference in pairs):.1f} %"


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
