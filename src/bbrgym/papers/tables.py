# SPDX-License-Identifier: GPL-2.0-only
"""Tables of published numbers and claims beside what was measured, for the terminal and the documentation.

All take rows of numbers.parquet, see `bbrgym.papers.reproduction.NUMBERS`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

import polars as pl
from rich.table import Table

from bbrgym.papers.experiment import Experiment
from bbrgym.papers.names import notes_of
from bbrgym.papers.questions import questions_of
from bbrgym.papers.verdicts import TESTBED_VERDICTS, VERDICTS, Verdict, verdict_of_readings
from bbrgym.report.tables import new_table

FACTORS = (1.25, 1.6)
"""Factors that a measured value is to be within of a published one."""

_FEW_FACTORS = 5  # numbers from which on their factors are counted

OVERVIEW = (
    *("paper", "experiments", *VERDICTS, "numbers and claims", *VERDICTS),
    *("numbers", *(f"within {factor:g}" for factor in FACTORS)),
)
EXPERIMENTS = ("experiment", "shows", "verdict", "agree, shape, no", "within 1.25, 1.6")
TESTBEDS = ("experiment", "shows", "flows", "quantity", "cells", *TESTBED_VERDICTS, "mean difference", "model's")
_NUMBERS = ("published", "measured [95 %]", "ratio", "verdict", "source")
_CLAIMS = ("claim", "smaller", "larger", "verdict", "source")
_CELL = ("variant", "metric", "flow", "at")  # what names a testbed's number within its experiment


def tables_of(experiments: Sequence[Experiment], numbers: pl.DataFrame) -> Iterator[Table]:
    """Yield the tables of a reproduction: each experiment with notes and causes, and at the end an overview."""
    for experiment in experiments:
        own = numbers.filter(pl.col("experiment") == experiment.name)
        at = "at" if experiment.sweep is None else experiment.sweep.title
        for world in own["world"].unique(maintain_order=True):
            rows = own.filter(pl.col("world") == world)
            where = f"{experiment.name} ({experiment.figure}) in world {world}"
            headings = ("variant", "quantity", at, *_NUMBERS)
            tables = [
                *_table_of(f"{where}: published numbers", headings, _number_rows(rows)),
                *_table_of(f"{where}: claims", _CLAIMS, _claim_rows(rows)),
            ]
            if tables:
                tables[-1].caption, tables[-1].caption_justify = _text(experiment, rows), "left"
            yield from tables
    testbeds = [one for one in experiments if one.is_testbed]
    for world in numbers["world"].unique(maintain_order=True):
        own = numbers.filter(pl.col("world") == world)
        yield from _table_of(
            f"Published numbers and claims in world {world}", OVERVIEW, overview_rows(experiments, own)
        )
        for question in questions_of(experiments, own):
            where = f"{question.title}, in world {world}: ratio to `{question.first}` [95 %]"
            yield from _table_of(where, question.headings, question.rows())
    yield from _table_of("Numbers of testbeds", TESTBEDS, rows_of_testbeds(testbeds, numbers))


def _table_of(title: str, headings: Sequence[str], rows: Iterable[list[str]]) -> Iterator[Table]:
    """Yield a table that has a row; cells that begin with a digit are set to the right."""
    table, cells = new_table(title), list(rows)
    for index, heading in enumerate(headings):
        is_number = any(row[index][:1].isdigit() for row in cells)
        table.add_column(heading, justify="right" if is_number else "left")
    for row in cells:
        table.add_row(*row)
    if cells:
        yield table


def _text(experiment: Experiment, rows: pl.DataFrame) -> str:
    """Return the notes of an experiment and paper, why numbers are not met, and why some were not measured."""
    causes = [experiment.cause, *(one.cause for one in experiment.published), *(one.cause for one in experiment.claims)]
    parts = [notes_of(experiment.paper), experiment.notes, *causes, reasons_text(rows)]
    return " ".join(part.strip() for part in dict.fromkeys(parts) if part)


# ---- papers -------------------------------------------------------------------------------------------


def of_papers(experiments: Iterable[Experiment]) -> Mapping[str, Sequence[Experiment]]:
    """Return experiments by paper; those on testbeds and scenarios of questions have tables of their own."""
    papers: dict[str, list[Experiment]] = {}
    for one in experiments:
        if not one.is_testbed and not one.compared:
            papers.setdefault(one.paper, []).append(one)
    return papers


def overview_rows(experiments: Iterable[Experiment], numbers: pl.DataFrame) -> Iterator[list[str]]:
    """Yield the cells of `OVERVIEW` for each paper, from rows of one world.

    They are the experiments by verdict, the numbers and claims by verdict, and the published numbers above 0 with the
    share of them that is met within each of `FACTORS`, where one that was not measured is not met.
    """
    for paper, own in of_papers(experiments).items():
        rows = [_compared(numbers.filter(pl.col("experiment") == one.name)) for one in own]
        verdicts = [verdict for table in rows for verdict in table["verdict"]]
        ratios = _ratios(numbers.filter(pl.col("experiment").is_in([one.name for one in own])))
        yield [
            *(paper, str(len(own)), *_counts([_verdict_of(table)[0] for table in rows])),
            *(str(len(verdicts)), *_counts(verdicts), str(len(ratios))),
            *([f"{100 * share:.1f} %" for share in _within(ratios)] if ratios else [""] * len(FACTORS)),
        ]


def experiment_rows(experiments: Iterable[Experiment], numbers: pl.DataFrame) -> Iterator[list[str]]:
    """Yield the cells of `EXPERIMENTS` for each experiment and world.

    They are the verdict with the reading that has it, the numbers and claims by verdict, and the shares of the
    published numbers within each factor.
    """
    for experiment in experiments:
        own = numbers.filter(pl.col("experiment") == experiment.name)
        if not len(own):
            yield [f"`{experiment.id}`", experiment.title, "not run", "", ""]
        worlds = own["world"].unique(maintain_order=True).to_list()
        for world in worlds:
            rows = own.filter(pl.col("world") == world)
            verdict, reading = _verdict_of(rows)
            ratios = _ratios(rows)
            yield [
                f"`{experiment.id}`" + (f" in `{world}`" if len(worlds) > 1 else ""),
                experiment.title,
                verdict if reading is None else f"{verdict} ({reading})",
                ", ".join(_counts(rows["verdict"].to_list())[:3]),
                ", ".join(f"{100 * share:.0f} %" for share in _within(ratios)) if len(ratios) >= _FEW_FACTORS else "",
            ]


def unmeasured(experiments: Iterable[Experiment], numbers: pl.DataFrame) -> Iterator[str]:
    """Yield a sentence for each experiment of which something was not measured."""
    for experiment in experiments:
        reasons = reasons_text(numbers.filter(pl.col("experiment") == experiment.name))
        if experiment.no_run or reasons:
            yield f"- `{experiment.id}`: {experiment.no_run or reasons}"


def reasons_text(numbers: pl.DataFrame) -> str:
    """Return why numbers and claims among the rows were not measured, each reason once; empty if all were."""
    return " ".join(f"Not run: {reason}." for reason in numbers["reason"].drop_nulls().unique(maintain_order=True))


def _compared(numbers: pl.DataFrame) -> pl.DataFrame:
    """Return the rows that have a verdict."""
    return numbers.filter(pl.col("verdict").is_not_null())


def _verdict_of(numbers: pl.DataFrame) -> tuple[Verdict, str | None]:
    """Return the verdict on an experiment from the rows of one world, and the reading with that verdict."""
    rows = _compared(numbers)
    return verdict_of_readings(rows["verdict"].to_list(), rows["reading"].to_list())


def _counts(verdicts: Sequence[Verdict]) -> list[str]:
    """Return how many verdicts there are of each of `VERDICTS`."""
    return [str(verdicts.count(verdict)) for verdict in VERDICTS]


def _ratios(numbers: pl.DataFrame) -> list[float]:
    """Return measured / published of the published numbers above 0."""
    rows = numbers.filter(pl.col("claim").is_null() & (pl.col("published") > 0))
    return [_ratio(row) for row in rows.iter_rows(named=True)]


def _within(ratios: Sequence[float]) -> list[float]:
    """Return the shares of ratios that are within each of `FACTORS`."""
    return [sum(1 / factor <= ratio <= factor for ratio in ratios) / len(ratios) for factor in FACTORS]


# ---- testbeds -----------------------------------------------------------------------------------------


def rows_of_testbeds(experiments: Iterable[Experiment], numbers: pl.DataFrame) -> Iterator[list[str]]:
    """Yield the cells of `TESTBEDS` for each experiment, world, congestion control under test and metric.

    The mean difference from the testbed's means is in points where the metric is a ratio, and else in percent of each
    mean. That of another model is reported where it has an answer in all of the cells.
    """
    for experiment in experiments:
        own = numbers.filter(pl.col("experiment") == experiment.name)
        if not len(own):
            yield [f"`{experiment.name}`", experiment.title, "not run", *[""] * (len(TESTBEDS) - 3)]
        controls = {name: variant.cc or name for name, variant in experiment.variants.items()}
        models = {tuple(getattr(one, key) for key in _CELL): one.model for one in experiment.published}
        controlled = own.with_columns(cc=pl.col("variant").replace_strict(controls, return_dtype=pl.String))
        title = experiment.title  # of the first row; those below it are of the same experiment
        for (world, control, metric), rows in controlled.group_by("world", "cc", "metric", maintain_order=True):
            cells = [row for row in rows.iter_rows(named=True) if row["verdict"] != "not run"]
            answers = [models[tuple(row[key] for key in _CELL)] for row in cells]
            known = [answer for answer in answers if answer is not None]
            yield [
                f"`{experiment.name}`" + (f" in `{world}`" if own["world"].n_unique() > 1 else ""),
                *(title, str(control), str(metric), str(len(cells))),
                *(str(sum(row["verdict"] == verdict for row in cells)) for verdict in TESTBED_VERDICTS),
                _mean_difference(cells, [row["measured"] for row in cells]),
                _mean_difference(cells, known) if len(known) == len(cells) else "",
            ]
            title = ""


def _mean_difference(cells: Sequence[Mapping[str, Any]], values: Sequence[float]) -> str:
    if not cells:
        return ""
    pairs = [(cell, abs(value - cell["published"])) for cell, value in zip(cells, values, strict=True)]
    if cells[0]["unit"] == "ratio":
        return f"{100 * fmean(difference for _, difference in pairs):.1f} points"
    return f"{100 * fmean(difference / abs(cell['published']) for cell, difference in pairs):.1f} %"


# ---- an experiment ------------------------------------------------------------------------------------


def _number_rows(numbers: pl.DataFrame) -> Iterator[list[str]]:
    for row in numbers.filter(pl.col("published").is_not_null()).iter_rows(named=True):
        flow, over = (f" of {row['flow']}" if row["flow"] else "", f" / {row['over']}'s" if row["over"] else "")
        unit = "" if row["unit"] in ("ratio", "count") else row["unit"]
        has_interval = _is_known(row["low"]) and row["low"] != row["high"]
        yield [
            *(row["variant"], f"{row['metric']}{flow}{over}", "" if row["at"] is None else f"{row['at']:g}"),
            f"{_shown(row['published'])} {unit}".rstrip(),
            _shown(row["measured"]) + (f" [{_shown(row['low'])}, {_shown(row['high'])}]" if has_interval else ""),
            *(_shown(_ratio(row)), row["verdict"], row["source"]),
        ]


def _claim_rows(numbers: pl.DataFrame) -> Iterator[list[str]]:
    for row in numbers.filter(pl.col("claim").is_not_null()).iter_rows(named=True):
        yield [row["claim"], _shown(row["less"]), _shown(row["than"]), row["verdict"], row["source"]]


def _ratio(row: Mapping[str, Any]) -> float:
    if not _is_known(row["measured"]) or not row["published"]:
        return math.nan
    return float(row["measured"] / row["published"])


def _is_known(value: float | None) -> bool:
    return value is not None and not math.isnan(value)


def _shown(value: float | None) -> str:
    """Return a number with three significant digits, or as a whole number from 1000 on; ``-`` if unknown."""
    if value is None or math.isnan(value):
        return "-"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"
