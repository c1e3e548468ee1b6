# SPDX-License-Identifier: GPL-2.0-only
"""What came out, as tables for people.

The summary has a row per contestant (and world): means over seeds with their 95 % confidence interval. With several
worlds there follow how far apart they are and how fast each was.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
from rich import box
from rich.console import Console
from rich.table import Table
from scipy.special import stdtrit

from bbrgym.comparison import METRICS, differences
from bbrgym.records import per_run

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


def worlds_of(summary: pl.DataFrame) -> list[str]:
    """Names of the worlds, in the order asked for."""
    names: list[str] = summary["world"].unique(maintain_order=True).to_list()
    return names


def title_of(summary: pl.DataFrame) -> str:
    """``scenario on world``, or ``scenario on world and world``."""
    return f"{summary['scenario'][0]} on {' and '.join(worlds_of(summary))}"


def tables_of(summary: pl.DataFrame) -> Iterator[Table]:
    """The summary, and for each world after the first how far it is from the first."""
    yield summary_table(summary)
    reference, *others = worlds_of(summary)
    for other in others:
        yield difference_table(summary, reference, other)


def summary_table(summary: pl.DataFrame) -> Table:
    """A row per contestant and world."""
    runs = per_run(summary)
    worlds = worlds_of(summary)
    is_one_world = len(worlds) == 1
    seeds = summary["seed"].n_unique()
    means = f"mean and 95 % interval of {seeds} seeds" if seeds > 1 else "one seed"
    table = _table(f"{title_of(summary)}, {means}")
    groups = goodput_columns(runs)
    columns = [
        *((name, f"goodput\n{heading}\nMbit/s", 2, 1.0) for name, heading in groups.items()),
        *(() if is_one_world or len(groups) == 1 else _share_columns(groups)),
        ("queue_delay_ms", "queue\ndelay\nms", 2, 1.0),
        ("retransmit_rate", "re-\nsent\n%", 2, 100.0),
        ("utilisation", "utili-\nsation\n%", 1, 100.0),
        ("jain", "Jain\nindex\n", 3, 1.0),
        ("score", "score\n\n", 2, 1.0),
    ]
    table.add_column("variant\n\n", min_width=max(map(len, runs["contestant"])))
    if not is_one_world:
        table.add_column("world\n\n", min_width=max(map(len, worlds)))
    for _, heading, _, _ in columns:
        table.add_column(heading, justify="right")
    for contestant in runs["contestant"].unique(maintain_order=True):
        for world in worlds:
            group = runs.filter((pl.col("contestant") == contestant) & (pl.col("world") == world))
            cells = [
                interval(group[name].cast(pl.Float64).fill_null(math.nan).to_numpy() * factor).text(digits)
                for name, _, digits, factor in columns
            ]
            names = [contestant] if is_one_world else [contestant if world == worlds[0] else "", world]
            table.add_row(*names, *cells, end_section=not is_one_world and world == worlds[-1])
    return table


def _share_columns(groups: dict[str, str]) -> Iterator[tuple[str, str, int, float]]:
    """Of all groups but the last, to which the others leave the rest."""
    return ((f"share:{heading}", f"share\n{heading}\n", 3, 1.0) for heading in list(groups.values())[:-1])


def difference_table(summary: pl.DataFrame, reference: str, other: str) -> Table:
    """A row per contestant: ``other`` less ``reference``, and what is beyond the tolerances."""
    rows = list(differences(summary, reference, other))
    agreeing = sum(all(cell.agrees for cell in cells) for _, cells in rows)
    chance = "; of one seed, so chance is part of it" if summary["seed"].n_unique() == 1 else ""
    table = _table(f"{other} less {reference}: {agreeing} of {len(rows)} variants within the tolerances{chance}")
    table.add_column("variant\n\n")
    for metric in METRICS:
        table.add_column(f"{metric.heading}\n{metric.tolerance_text()}", justify="right")
    table.add_column("agree\n\n")
    for contestant, cells in rows:
        shown = [cell.metric.text(cell.difference, "+") + ("" if cell.agrees else " !") for cell in cells]
        table.add_row(contestant, *shown, "yes" if all(cell.agrees for cell in cells) else "no")
    return table


def speed_table(timing: pl.DataFrame) -> Table:
    """A row per world: what its runs cost."""
    worlds = timing.group_by("world", maintain_order=True).agg(pl.col("simulated_s").sum(), pl.col("wall_s").sum())
    table = _table("Wall time within the runs (without the start of processes)")
    for heading in ("world", "simulated (s)", "wall time (s)", "simulated s per s", "speed"):
        table.add_column(heading, justify="left" if heading == "world" else "right")
    first, first_speed = "", math.nan
    for world, simulated_s, wall_s in worlds.iter_rows():
        speed = simulated_s / wall_s
        first, first_speed = (first or world), (speed if not first else first_speed)
        ratio = "1" if world == first else f"{speed / first_speed:.1f} times {first}"
        table.add_row(world, f"{simulated_s:.0f}", f"{wall_s:.2f}", f"{speed:.1f}", ratio)
    return table


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)


def summary_text(summary: pl.DataFrame) -> str:
    """The tables as plain text."""
    console = Console(file=io.StringIO(), width=160, color_system=None, legacy_windows=False)
    with console.capture() as captured:
        for table in tables_of(summary):
            console.print(table)
    return "".join(line.rstrip() + "\n" for line in captured.get().splitlines())
