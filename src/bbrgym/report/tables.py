# SPDX-License-Identifier: GPL-2.0-only
"""What came out, as tables for people.

The summary has a row per entrant (and world): means over seeds with their 95 % confidence interval. With several
worlds there follow how far apart they are and how fast each was.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
from rich import box
from rich.console import Console
from rich.table import Table
from scipy.special import stdtrit

from bbrgym.evaluate.ranking import Ranking, Standing
from bbrgym.evaluate.records import per_run, worlds_of
from bbrgym.evaluate.results import Results
from bbrgym.evaluate.world_gap import METRICS, differences

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


def title_of(summary: pl.DataFrame, what: str | None = None) -> str:
    """``what on world``, or ``what on world and world``; the scenario's name without another one."""
    return f"{what or summary['scenario'][0]} on {' and '.join(worlds_of(summary))}"


def tables_of_results(results: Results) -> Iterator[Table]:
    """Yield all tables for people, except the one of the speed."""
    yield from tables_of(results.summary, results.title)
    for ranking in results.rankings:
        yield standings_table(ranking, results.title)
        yield families_table(ranking, results.title)


def tables_of(summary: pl.DataFrame, what: str | None = None) -> Iterator[Table]:
    """The summary, and for each world after the first how far it is from the first."""
    yield summary_table(summary, what)
    reference, *others = worlds_of(summary)
    for other in others:
        yield difference_table(summary, reference, other)


def summary_table(summary: pl.DataFrame, what: str | None = None) -> Table:
    """A row per entrant and world."""
    runs = per_run(summary)
    worlds = worlds_of(summary)
    is_one_world = len(worlds) == 1
    seeds = summary["seed"].n_unique()
    runs_are = "seed" if summary["scenario"].n_unique() == 1 else "draw"
    means = f"mean and 95 % interval of {seeds} {runs_are}s" if seeds > 1 else f"one {runs_are}"
    table = new_table(f"{title_of(summary, what)}, {means}")
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
    table.add_column("variant\n\n", min_width=max(map(len, runs["entrant"])))
    if not is_one_world:
        table.add_column("world\n\n", min_width=max(map(len, worlds)))
    for _, heading, _, _ in columns:
        table.add_column(heading, justify="right")
    for entrant in runs["entrant"].unique(maintain_order=True):
        for world in worlds:
            group = runs.filter((pl.col("entrant") == entrant) & (pl.col("world") == world))
            cells = [
                interval(group[name].cast(pl.Float64).fill_null(math.nan).to_numpy() * factor).text(digits)
                for name, _, digits, factor in columns
            ]
            names = [entrant] if is_one_world else [entrant if world == worlds[0] else "", world]
            table.add_row(*names, *cells, end_section=not is_one_world and world == worlds[-1])
    return table


def _share_columns(groups: dict[str, str]) -> Iterator[tuple[str, str, int, float]]:
    """Of all groups but the last, to which the others leave the rest."""
    return ((f"share:{heading}", f"share\n{heading}\n", 3, 1.0) for heading in list(groups.values())[:-1])


def difference_table(summary: pl.DataFrame, reference: str, other: str) -> Table:
    """A row per entrant: ``other`` less ``reference``, and what is beyond the tolerances."""
    rows = list(differences(summary, reference, other))
    agreeing = sum(all(cell.agrees for cell in cells) for _, cells in rows)
    chance = "; of one seed, so chance is part of it" if summary["seed"].n_unique() == 1 else ""
    table = new_table(f"{other} less {reference}: {agreeing} of {len(rows)} variants within the tolerances{chance}")
    table.add_column("variant\n\n")
    for metric in METRICS:
        table.add_column(f"{metric.heading}\n{metric.tolerance_text()}", justify="right")
    table.add_column("agree\n\n")
    for entrant, cells in rows:
        shown = [cell.metric.text(cell.difference, "+") + ("" if cell.agrees else " !") for cell in cells]
        table.add_row(entrant, *shown, "yes" if all(cell.agrees for cell in cells) else "no")
    return table


def standings_table(ranking: Ranking, what: str) -> Table:
    """A row per entrant, and one for several training runs of an agent together."""
    draws = ranking.scores.draws
    table = new_table(f"{what} on {ranking.world}: scores of {draws} draws, with 95 % intervals by bootstrap")
    table.add_column("entrant\n\n", min_width=max(map(len, ranking.scores.names)))
    has_oracle = ranking.best_fixed is not None and ranking.oracle is not None
    headings = [
        "score,\nmean\n",
        "score, inter-\nquartile mean\n",
        f"score less\n{ranking.reference}\n",
        f"better than\n{ranking.reference}\n% of draws",
        *([f"of the gap\n{ranking.best_fixed}\nto oracle, %"] if has_oracle else []),
    ]
    for heading in headings:
        table.add_column(heading, justify="right")
    for standing in ranking.standings:
        cells = [
            standing.mean.text(3),
            standing.iqm.text(3),
            "-" if standing.entrant == ranking.reference else standing.difference.text(3, "+"),
            "-" if standing.entrant == ranking.reference else standing.improvement.scaled(100).text(0),
            *([standing.gap_closed.scaled(100).text(0)] if has_oracle else []),
        ]
        table.add_row(_with_runs(standing), *cells)
    return table


def families_table(ranking: Ranking, what: str) -> Table:
    """A row per entrant, a column per family of draws."""
    table = new_table(f"{what} on {ranking.world}: mean score by family of scenarios")
    table.add_column("entrant\n\n", min_width=max(map(len, ranking.scores.names)))
    for family, standings in ranking.by_family.items():
        first, _, rest = family.partition(" ")
        table.add_column(f"{first}\n{rest}\n{standings[0].draws}", justify="right")
    for rows in zip(*ranking.by_family.values(), strict=True):
        table.add_row(_with_runs(rows[0]), *(standing.mean.short(2) for standing in rows))
    return table


def _with_runs(standing: Standing) -> str:
    return standing.entrant if standing.runs == 1 else f"{standing.entrant}, all {standing.runs}"


def speed_table(timing: pl.DataFrame) -> Table:
    """A row per world: what its runs cost."""
    worlds = timing.group_by("world", maintain_order=True).agg(pl.col("simulated_s").sum(), pl.col("wall_s").sum())
    table = new_table("Wall time within the runs (without the start of processes)")
    for heading in ("world", "simulated (s)", "wall time (s)", "simulated s per s", "speed"):
        table.add_column(heading, justify="left" if heading == "world" else "right")
    first, first_speed = "", math.nan
    for world, simulated_s, wall_s in worlds.iter_rows():
        speed = simulated_s / wall_s
        first, first_speed = (first or world), (speed if not first else first_speed)
        ratio = "1" if world == first else f"{_ratio(speed / first_speed)} times {first}"
        table.add_row(world, f"{simulated_s:.0f}", f"{wall_s:.2f}", f"{speed:.1f}", ratio)
    return table


def _ratio(ratio: float) -> str:
    return f"{ratio:.1f}" if ratio >= 1 else f"{ratio:.2g}"


def new_table(title: str) -> Table:
    """An empty table in the house style."""
    return Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)


def plain_text(tables: Iterable[Table]) -> str:
    """Tables as plain text."""
    console = Console(file=io.StringIO(), width=160, color_system=None, legacy_windows=False)
    with console.capture() as captured:
        for table in tables:
            console.print(table)
    return "".join(line.rstrip() + "\n" for line in captured.get().splitlines())
