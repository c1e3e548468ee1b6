# SPDX-License-Identifier: GPL-2.0-only
"""The summary as a table for people: a row per variant, means over seeds with their 95 % confidence interval."""

from __future__ import annotations

import io
import math
import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
from rich import box
from rich.console import Console
from rich.table import Table
from scipy.special import stdtrit

MAX_GROUPS = 4  # flows that get a column of their own


@dataclass(frozen=True)
class Interval:
    """A mean over seeds; ``half_width`` of its 95 % confidence interval is NaN with one seed."""

    mean: float
    half_width: float

    def text(self, digits: int) -> str:
        if math.isnan(self.mean):
            return "-"
        mean = f"{self.mean:.{digits}f}"
        return mean if math.isnan(self.half_width) else f"{mean} ± {self.half_width:.{digits}f}"


def interval(values: npt.ArrayLike) -> Interval:
    """Mean and Student's 95 % interval of independent values; values that are NaN do not take part."""
    known = np.asarray(values, dtype=np.float64)
    known = known[~np.isnan(known)]
    if len(known) == 0:
        return Interval(math.nan, math.nan)
    if len(known) == 1:
        return Interval(float(known[0]), math.nan)
    half_width = stdtrit(len(known) - 1, 0.975) * np.std(known, ddof=1) / math.sqrt(len(known))
    return Interval(float(np.mean(known)), float(half_width))


def goodput_columns(runs: pl.DataFrame) -> dict[str, str]:
    """Headings of the goodput columns by name: one a group of flows, or the total where these are too many."""
    groups = {name: name.removeprefix("goodput:") for name in runs.columns if name.startswith("goodput:")}
    return groups if len(groups) <= MAX_GROUPS else {"goodput": "total"}


def summary_table(summary: pl.DataFrame) -> Table:
    """The table that commands show."""
    runs = per_run(summary)
    seeds = summary["seed"].n_unique()
    means = f"mean and 95 % interval of {seeds} seeds" if seeds > 1 else "one seed"
    title = f"{summary['scenario'][0]} on {summary['world'][0]}, {means}"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    columns = [
        *((name, f"goodput\n{heading}\n(Mbit/s)", 2, 1.0) for name, heading in goodput_columns(runs).items()),
        ("queue_delay_ms", "queueing\ndelay\n(ms)", 2, 1.0),
        ("retransmit_rate", "retrans-\nmitted\n(%)", 2, 100.0),
        ("utilisation", "utili-\nsation\n(%)", 1, 100.0),
        ("jain", "Jain\nindex\n", 3, 1.0),
        ("score", "score\n\n", 2, 1.0),
    ]
    table.add_column("variant\n\n", min_width=max(map(len, runs["variant"])))
    for _, heading, _, _ in columns:
        table.add_column(heading, justify="right")
    for (variant,), group in runs.group_by("variant", maintain_order=True):
        cells = [
            interval(group[name].cast(pl.Float64).fill_null(math.nan).to_numpy() * factor).text(digits)
            for name, _, digits, factor in columns
        ]
        table.add_row(str(variant), *cells)
    return table


def summary_text(summary: pl.DataFrame) -> str:
    """The table as plain text."""
    console = Console(file=io.StringIO(), width=160, color_system=None, legacy_windows=False)
    with console.capture() as captured:
        console.print(summary_table(summary))
    return "".join(line.rstrip() + "\n" for line in captured.get().splitlines())
