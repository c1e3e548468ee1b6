# SPDX-License-Identifier: GPL-2.0-only
"""Tables of an evaluation for people.

The summary has a row per entrant (and world) of means with their 95 % intervals: over seeds of one scenario by
Student's t, over draws of a distribution by bootstrap (`bbrgym.evaluate.statistics`). Over draws, the ranking alone
shows scores.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Iterator
from typing import TypeAlias

import polars as pl
from rich import box
from rich.console import Console
from rich.table import Table

from bbrgym.evaluate.check_results import verdicts_of
from bbrgym.evaluate.ranking import Ranking, RankingRow
from bbrgym.evaluate.records import per_run, with_entrants, worlds_of
from bbrgym.evaluate.results import Results
from bbrgym.evaluate.statistics import MIN_DRAWS, Estimate, bootstrap_mean, student_mean

MAX_GROUPS = 4  # groups of flows with a goodput column of their own; of more, the total is shown

_Column: TypeAlias = tuple[str, str, int, float]  # of a mean: column, heading, digits, factor to the unit shown

_OF_OTHERS: tuple[_Column, ...] = (
    ("score", "score\n\n", 2, 1.0),
    ("own_score", "own\nscore\n", 2, 1.0),
    ("others_share", "share of\nfair\n", 2, 1.0),
    ("others_below_half", "below half\nof fair\n% of runs", 0, 100.0),
    ("harm", "harm:\ngoodput\n%", 1, 100.0),
    ("harm_rtt_p95", "harm:\n95 % RTT\n%", 1, 100.0),
    ("harm_loss", "harm: loss\npercentage\npoints", 2, 100.0),
)


def goodput_columns(runs: pl.DataFrame) -> dict[str, str]:
    """Return headings of goodput columns by name: one per group of flows, or the total where there are too many."""
    groups = {name: name.removeprefix("goodput:") for name in runs.columns if name.startswith("goodput:")}
    return groups if len(groups) <= MAX_GROUPS else {"goodput": "total"}


def title_of(summary: pl.DataFrame, what: str | None = None) -> str:
    """Return ``what on world`` or ``what on world and world``. Default of ``what``: the scenario's name."""
    return f"{what or summary['scenario'][0]} on {' and '.join(worlds_of(summary))}"


def tables_of_results(results: Results) -> Iterator[Table]:
    """Yield all tables of an evaluation except that of the speed."""
    yield summary_table(results.summary, results.title)
    yield from others_tables(results)
    if has_transfers(results.summary):
        yield transfers_table(results.summary, results.title)
    if not results.checks.is_empty():
        yield checks_table(results.checks, results.title)
    for ranking in results.rankings:
        yield ranking_table(ranking, results.title)
        yield families_table(ranking, results.title)


def summary_table(summary: pl.DataFrame, what: str | None = None) -> Table:
    """Return a table with a row per entrant and world: means over seeds, or over draws without a score."""
    runs = per_run(summary)
    worlds = worlds_of(summary)
    is_one_world = len(worlds) == 1
    is_of_draws = summary["scenario"].n_unique() > 1
    caption = _interval_caption(summary["seed"].n_unique(), over_draws=is_of_draws)
    table = new_table(f"{title_of(summary, what)}, {caption}")
    groups = goodput_columns(runs)
    columns: list[_Column] = [
        *((name, f"goodput\n{heading}\nMbit/s", 2, 1.0) for name, heading in groups.items()),
        *(() if is_one_world or len(groups) == 1 else _share_columns(groups)),
        ("queue_delay_ms", "queue\ndelay\nms", 2, 1.0),
        ("retransmit_rate", "re-\nsent\n%", 2, 100.0),
        ("utilisation", "utili-\nsation\n%", 1, 100.0),
        ("jain", "Jain\nindex\n", 3, 1.0),
        *(() if is_of_draws else [("score", "score\n\n", 2, 1.0)]),
    ]
    if not is_of_draws and not runs["own_score"].equals(runs["score"]):  # as where there are other flows
        columns.append(("own_score", "own\nscore\n", 2, 1.0))
    table.add_column("variant\n\n", min_width=max(map(len, runs["entrant"])))
    if not is_one_world:
        table.add_column("world\n\n", min_width=max(map(len, worlds)))
    for _, heading, _, _ in columns:
        table.add_column(heading, justify="right")
    for entrant in runs["entrant"].unique(maintain_order=True):
        for world in worlds:
            group = runs.filter((pl.col("entrant") == entrant) & (pl.col("world") == world))
            names = [entrant] if is_one_world else [entrant if world == worlds[0] else "", world]
            is_last = not is_one_world and world == worlds[-1]
            table.add_row(*names, *_mean_cells(group, columns, is_of_draws), end_section=is_last)
    return table


def _mean_cells(rows: pl.DataFrame, columns: Iterable[_Column], is_of_draws: bool) -> Iterator[str]:
    mean = bootstrap_mean if is_of_draws else student_mean
    for name, _, digits, factor in columns:
        yield mean(rows[name].cast(pl.Float64).fill_null(math.nan).to_numpy() * factor).short(digits)


def _interval_caption(n: int, *, over_draws: bool) -> str:
    """Describe the means and the intervals of a summary."""
    if not over_draws:
        return f"mean and 95 % interval of {n} seeds by Student's t" if n > 1 else "one seed"
    if n < MIN_DRAWS:
        return f"mean of {n} draws ({MIN_DRAWS} or more have intervals)"
    return f"mean and 95 % interval of {n} draws by bootstrap"


def _share_columns(groups: dict[str, str]) -> Iterator[_Column]:
    """Return the share columns of all groups but the last, which has the rest."""
    return ((f"share:{heading}", f"share\n{heading}\n", 3, 1.0) for heading in list(groups.values())[:-1])


def has_transfers(summary: pl.DataFrame) -> bool:
    """Return whether any flow has a transfer that can be complete."""
    return bool(summary["completed"].is_not_nan().any())


def transfers_table(summary: pl.DataFrame, what: str | None = None) -> Table:
    """Return a table of completions, with a row per entrant, world and group of flows with transfers.

    Means and percentiles are over the transfers of a run that are complete, then means over the runs.
    """
    is_of_draws = summary["scenario"].n_unique() > 1
    group = pl.col("flow").str.replace(r"-\d+$", "").alias("group")
    times, slowdowns = (pl.col(name).filter(pl.col("completed") == 1) for name in ("completion_s", "slowdown"))
    runs = (
        with_entrants(summary)
        .filter(pl.col("completed").is_not_nan())
        .group_by("entrant", "world", group, "seed", maintain_order=True)
        .agg(
            pl.col("completed").mean(),
            times.mean().alias("mean_s"),
            times.quantile(0.95, "linear").alias("p95_s"),
            slowdowns.mean().alias("slowdown_mean"),
            *(slowdowns.quantile(part / 100, "linear").alias(f"slowdown_p{part}") for part in (95, 99)),
        )
    )
    columns = (
        ("completed", "complete\n%", 1, 100.0),
        ("mean_s", "time\nmean, s", 3, 1.0),
        ("p95_s", "time\n95 %, s", 3, 1.0),
        ("slowdown_mean", "slowdown\nmean", 2, 1.0),
        ("slowdown_p95", "slowdown\n95 %", 2, 1.0),
        ("slowdown_p99", "slowdown\n99 %", 2, 1.0),
    )
    is_one_world = summary["world"].n_unique() == 1
    caption = _interval_caption(summary["seed"].n_unique(), over_draws=is_of_draws)
    title = f"{title_of(summary, what)}: completion of transfers, {caption}"
    names = ("variant\n", *([] if is_one_world else ["world\n"]), "flows\n")
    table = new_table(title, names, [heading for _, heading, _, _ in columns])
    for (entrant, world, name), rows in runs.group_by("entrant", "world", "group", maintain_order=True):
        about = (str(entrant), *([] if is_one_world else [str(world)]), str(name))
        table.add_row(*about, *_mean_cells(rows, columns, is_of_draws))
    return table


def others_tables(results: Results) -> Iterator[Table]:
    """Yield a table per world with a row per entrant, and per reference that is not one of them."""
    is_of_draws = bool(results.draws)
    for world, runs in runs_with_others(results):
        caption = _interval_caption(runs["seed"].n_unique(), over_draws=is_of_draws)
        about = f"{results.title} on {world}: other flows, {caption}"
        table = new_table(about, ["in place of the tuned flows\n\n"], [heading for _, heading, _, _ in _OF_OTHERS])
        for (entrant,), rows in runs.group_by("entrant", maintain_order=True):
            table.add_row(str(entrant), *_mean_cells(rows, _OF_OTHERS, is_of_draws))
        yield table


def runs_with_others(results: Results) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield each world with other flows, and the runs there that have them: those of entrants, then of references."""
    for world in worlds_of(results.summary):
        of_entrants, references = (
            per_run(table.filter(pl.col("world") == world)) for table in (results.summary, results.references)
        )
        own = of_entrants["entrant"].unique().to_list()
        runs = [one.filter(pl.col("others_share").is_not_null()) for one in (of_entrants, references)]
        runs[1] = runs[1].filter(~pl.col("entrant").is_in(own))
        both = pl.concat(runs, how="diagonal")
        if not both.is_empty():
            yield world, both


def checks_table(checks: pl.DataFrame, what: str) -> Table:
    """Return a table with a row per check, entrant and world, from the rows of checks.parquet."""
    verdicts = verdicts_of(checks)
    is_one_world = checks["world"].n_unique() == 1
    runs = "draws" if checks["scenario"].n_unique() > 1 else "seeds"
    passed = sum(verdict.passed for verdict in verdicts)
    title = f"{what}: {passed} of {len(verdicts)} checks passed (by the mean over {runs})"
    names = ("check", "expected", "variant", *([] if is_one_world else ["world"]))
    table = new_table(title, names, ["measured", f"{runs} that pass"])
    table.add_column("")
    for index, one in enumerate(verdicts):
        following = verdicts[index + 1 : index + 2]
        is_last = [(other.check, other.bounds) for other in following] != [(one.check, one.bounds)]
        about = (one.check, one.bounds, one.entrant, *([] if is_one_world else [one.world]))
        measured = one.measured.short(_digits(one.measured.value))
        outcome = "passed" if one.passed else "FAILED"
        table.add_row(*about, measured, f"{one.passing} of {one.runs}", outcome, end_section=is_last)
    return table


def _digits(value: float) -> int:
    """Return the digits after the point that show three of a number, at most four."""
    return max(0, min(4, 2 - math.floor(math.log10(abs(value))))) if value and math.isfinite(value) else 2


def ranking_table(ranking: Ranking, what: str) -> Table:
    """Return a table with a row per entrant and per group of training runs."""
    table = new_table(f"{what} on {ranking.world}: scores of {draws_with_intervals(ranking.scores.draws)}")
    table.add_column("entrant\n\n", min_width=max(map(len, ranking.scores.names)))
    has_oracle = ranking.best_fixed is not None and ranking.oracle is not None
    headings = [
        "score,\nmean\n",
        "own score,\nmean\n",
        "score, inter-\nquartile mean\n",
        f"score minus\n{ranking.reference}\n",
        f"better than\n{ranking.reference}\n% of draws",
        *([f"of the gap\n{ranking.best_fixed}\nto oracle, %"] if has_oracle else []),
    ]
    for heading in headings:
        table.add_column(heading, justify="right")
    for row in ranking.rows:
        cells = [
            row.mean.text(3),
            row.own_score.text(3),
            row.iqm.text(3),
            "-" if row.entrant == ranking.reference else row.difference.text(3, "+"),
            "-" if row.entrant == ranking.reference else row.improvement.scaled(100).text(0),
            *([_ratio_text(row.gap_closed)] if has_oracle else []),
        ]
        table.add_row(_with_runs(row), *cells)
    return table


def draws_with_intervals(draws: int) -> str:
    """Return the number of draws, and the method of the intervals."""
    number = f"{draws} draw{'s' if draws != 1 else ''}"
    if draws < MIN_DRAWS:
        return f"{number} ({MIN_DRAWS} or more have intervals)"
    return f"{number}, with 95 % intervals by bootstrap"


def _ratio_text(ratio: Estimate) -> str:
    """Return a ratio in percent; ``undefined`` if the denominator cannot be told from 0."""
    return "undefined" if math.isnan(ratio.value) else ratio.scaled(100).text(0)


def families_table(ranking: Ranking, what: str) -> Table:
    """Return a table with a row per entrant and a column per family of draws."""
    table = new_table(f"{what} on {ranking.world}: mean score / own score by family of scenarios")
    table.add_column("entrant\n\n", min_width=max(map(len, ranking.scores.names)))
    for family, rows in ranking.by_family.items():
        first, _, rest = family.partition(" ")
        table.add_column(f"{first}\n{rest}\n{rows[0].draws}", justify="right")
    for of_entrant in zip(*ranking.by_family.values(), strict=True):
        cells = (f"{row.mean.short(2)} / {row.own_score.value:.2f}" for row in of_entrant)
        table.add_row(_with_runs(of_entrant[0]), *cells)
    return table


def _with_runs(row: RankingRow) -> str:
    return row.entrant if row.runs == 1 else f"{row.entrant}, all {row.runs}"


def speed_table(timing: pl.DataFrame) -> Table:
    """Return a table with a row per world: the wall time and speed of runs."""
    worlds = timing.group_by("world", maintain_order=True).agg(pl.col("simulated_s").sum(), pl.col("wall_s").sum())
    headings = ("simulated (s)", "wall time (s)", "simulated s per s", "speed")
    table = new_table("Wall time within the runs (without the start of processes)", ["world"], headings)
    first, first_speed = "", math.nan
    for world, simulated_s, wall_s in worlds.iter_rows():
        speed = simulated_s / wall_s
        first, first_speed = (first or world), (speed if not first else first_speed)
        ratio = speed / first_speed
        text = "1" if world == first else f"{ratio:.1f} times {first}" if ratio >= 1 else f"{ratio:.2g} times {first}"
        table.add_row(world, f"{simulated_s:.0f}", f"{wall_s:.2f}", f"{speed:.1f}", text)
    return table


def new_table(title: str, left: Iterable[str] = (), right: Iterable[str] = ()) -> Table:
    """Return an empty table in the style of all tables here, with columns of texts and then of numbers."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for heading in left:
        table.add_column(heading)
    for heading in right:
        table.add_column(heading, justify="right")
    return table


def plain_text(tables: Iterable[Table]) -> str:
    """Return tables as plain text, up to 160 characters wide."""
    console = Console(file=io.StringIO(), width=160, color_system=None, legacy_windows=False)
    with console.capture() as captured:
        for table in tables:
            console.print(table)
    return "".join(line.rstrip() + "\n" for line in captured.get().splitlines())
