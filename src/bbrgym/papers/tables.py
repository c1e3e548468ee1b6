# SPDX-License-Identifier: GPL-2.0-only
"""Rows of published numbers beside measured ones, for the terminal, the page and the documentation.

All take the rows of numbers.parquet (`bbrgym.papers.numbers_table.numbers_table`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl
from rich.table import Table

from bbrgym.papers.distributions import FACTORS, QUANTILES
from bbrgym.papers.numbers_table import QUANTILE_COLUMNS, SHARE_COLUMNS
from bbrgym.papers.verdicts import VERDICTS, Verdict, verdict_of_readings
from bbrgym.report.tables import new_table

_FEW_FACTORS = 5  # numbers from which on their factors are counted
_MANY = 10  # seeds from which on a percentile is shown

OVERVIEW = (
    *("paper", "experiments", *VERDICTS, "numbers and claims", *VERDICTS),
    *("numbers", *(f"within {factor:g}" for factor in FACTORS)),
    *(f"one seed within {factor:g}" for factor in FACTORS),
)
NUMBERS = ("variant", "quantity", "at", "published", "measured [95 %]", "ratio", "percentile", "verdict", "source")
DISTRIBUTIONS = (
    *("variant", "quantity", "at", "published", "seeds"),
    *(f"{100 * part:g} %" for part in QUANTILES),
    "percentile",
)
CLAIMS = ("claim", "smaller", "larger", "verdict", "source")


def overview_rows(numbers: pl.DataFrame, papers: Mapping[str, Sequence[str]]) -> Iterator[list[str]]:
    """Yield the cells of `OVERVIEW` for each group of experiments, from rows of one world.

    They are the experiments by verdict, the numbers and claims by verdict, and the published numbers above 0 with the
    share of them that is met within each of `FACTORS`, where one that was not measured is not met; at the end the
    share that single seeds would meet in place of the published numbers, if enough seeds have measured all.
    """
    for paper, names in papers.items():
        own = [compared(numbers.filter(pl.col("experiment") == name)) for name in names]
        of_experiments = [verdict_of_rows(rows)[0] for rows in own]
        of_all = [verdict for rows in own for verdict in rows["verdict"]]
        above_0 = positive(numbers.filter(pl.col("experiment").is_in(list(names))))
        ratios = _ratios(above_0)
        shares = _percent(_within(ratios) if ratios else [None] * len(FACTORS))
        yield [
            *(paper, str(len(names)), *verdict_counts(of_experiments), str(len(of_all)), *verdict_counts(of_all)),
            *(str(len(ratios)), *shares, *_percent(shares_of_single_seeds(above_0))),
        ]


def compared(numbers: pl.DataFrame) -> pl.DataFrame:
    """Return the rows that have a verdict: of published numbers and claims, not those of distributions alone."""
    return numbers.filter(pl.col("verdict").is_not_null())


def positive(numbers: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of published numbers above 0."""
    return numbers.filter(pl.col("claim").is_null() & (pl.col("published") > 0))


def _ratios(positive: pl.DataFrame) -> list[float]:
    """Return measured / published of each row."""
    return [_ratio(row) for row in positive.iter_rows(named=True)]


def shares_of_single_seeds(positive: pl.DataFrame) -> list[float | None]:
    """Return the mean over rows of the parts of seeds within each of `FACTORS`; None each if one has too few seeds."""
    parts = positive.select(SHARE_COLUMNS)
    if not len(parts) or parts.null_count().row(0) != (0,) * len(SHARE_COLUMNS):
        return [None] * len(SHARE_COLUMNS)
    return list(parts.mean().row(0))


def _percent(parts: Sequence[float | None]) -> list[str]:
    return ["" if part is None else f"{100 * part:.1f} %" for part in parts]


def _within(ratios: Sequence[float]) -> list[float]:
    """Return the parts of ratios that are within each of `FACTORS`."""
    return [sum(1 / factor <= ratio <= factor for ratio in ratios) / len(ratios) for factor in FACTORS]


def verdict_of_rows(numbers: pl.DataFrame) -> tuple[Verdict, str | None]:
    """Return the verdict on an experiment from its rows of one world, and the reading that has it."""
    rows = compared(numbers)
    return verdict_of_readings(rows["verdict"].to_list(), rows["reading"].to_list())


def verdict_counts(verdicts: Sequence[Verdict]) -> list[str]:
    """Return how many verdicts there are of each of `VERDICTS`."""
    return [str(verdicts.count(verdict)) for verdict in VERDICTS]


def number_rows(numbers: pl.DataFrame) -> Iterator[list[str]]:
    """Yield the cells of `NUMBERS` for each published number among the rows of one experiment and world."""
    for row in numbers.filter(pl.col("published").is_not_null()).iter_rows(named=True):
        yield [
            *_published(row),
            _measured(row),
            shown(_ratio(row)),
            f"{row['percentile']:.0f}" if row["seeds"] >= _MANY and _is_known(row["percentile"]) else "",
            row["verdict"],
            row["source"],
        ]


def distribution_rows(numbers: pl.DataFrame) -> Iterator[list[str]]:
    """Yield the cells of `DISTRIBUTIONS` for each quantity that enough seeds have measured.

    They are the quantiles of the measured values over seeds, and the part of the seeds below the published number, if
    there is one. A quantity's rows stand together, in the order of the sweep.
    """
    first = pl.col("place").min().over("variant", "metric", "flow", "over")
    known = numbers.filter(pl.col(QUANTILE_COLUMNS[0]).is_not_null()).with_row_index("place")
    for row in known.sort(first, "at", maintain_order=True).iter_rows(named=True):
        quantiles = [shown(row[column]) for column in QUANTILE_COLUMNS]
        percentile = "" if row["published"] is None else f"{row['percentile']:.0f}"
        yield [*_published(row), str(row["seeds"]), *quantiles, percentile]


def _published(row: Mapping[str, Any]) -> list[str]:
    """Return the first cells of a row: what was published, and its value."""
    return [
        row["variant"],
        _quantity(row),
        "" if row["at"] is None else f"{row['at']:g}",
        "" if row["published"] is None else f"{shown(row['published'])} {_unit(row)}".rstrip(),
    ]


def claim_rows(numbers: pl.DataFrame) -> Iterator[list[str]]:
    """Yield the cells of `CLAIMS` for each claim among the rows of one experiment and world."""
    for row in numbers.filter(pl.col("claim").is_not_null()).iter_rows(named=True):
        yield [row["claim"], shown(row["less"]), shown(row["than"]), row["verdict"], row["source"]]


def factor_shares(numbers: pl.DataFrame) -> list[float]:
    """Return the parts of the published numbers that are met within `FACTORS`; empty for few numbers."""
    ratios = _ratios(positive(numbers))
    return _within(ratios) if len(ratios) >= _FEW_FACTORS else []


def reasons_text(numbers: pl.DataFrame) -> str:
    """Return why numbers and claims among the rows were not measured, each reason once; empty if all were."""
    return " ".join(f"Not run: {reason}." for reason in numbers["reason"].drop_nulls().unique(maintain_order=True))


def _quantity(row: Mapping[str, Any]) -> str:
    flow = f" of {row['flow']}" if row["flow"] else ""
    return f"{row['metric']}{flow}" + (f" / {row['over']}'s" if row["over"] else "")


def _unit(row: Mapping[str, Any]) -> str:
    return "" if row["unit"] in ("ratio", "count") else str(row["unit"])


def _measured(row: Mapping[str, Any]) -> str:
    value = shown(row["measured"])
    if not _is_known(row["low"]) or row["low"] == row["high"]:
        return value
    return f"{value} [{shown(row['low'])}, {shown(row['high'])}]"


def _ratio(row: Mapping[str, Any]) -> float:
    if not _is_known(row["measured"]) or not row["published"]:
        return math.nan
    return float(row["measured"] / row["published"])


def _is_known(value: float | None) -> bool:
    return value is not None and not math.isnan(value)


def shown(value: float | None) -> str:
    """Return a number with three significant digits, or as a whole number from 1000 on; ``-`` if it is unknown."""
    if value is None or math.isnan(value):
        return "-"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


# ---- for the terminal and the page --------------------------------------------------------------------


def table_of(title: str, headings: Sequence[str], rows: Iterator[list[str]]) -> Table:
    """Return a table; cells that begin with a digit are set to the right."""
    table, cells = new_table(title), list(rows)
    for index, heading in enumerate(headings):
        is_number = any(row[index][:1].isdigit() for row in cells)
        table.add_column(heading, justify="right" if is_number else "left")
    for row in cells:
        table.add_row(*row)
    return table
