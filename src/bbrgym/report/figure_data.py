# SPDX-License-Identifier: GPL-2.0-only
"""What figures show of the records, on paper and on screen alike."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from bbrgym.evaluate.ranking import Ranking
from bbrgym.evaluate.records import FIXED, TUNABLE_PREFIX, with_entrants, worlds_of
from bbrgym.evaluate.results import Results
from bbrgym.scenario.families import buffer_bdp
from bbrgym.tunables import TUNABLES

Line: TypeAlias = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]
"""Times in s and values."""

MAX_TUNABLES = 4  # shown over time
FROM_ZERO = 2  # panels of a draw over time whose scale begins there
POINTS = 80  # of a line


@dataclass(frozen=True)
class DrawOverTime:
    """One draw in one world: goodput, queueing delay and the tunables that move most.

    Attributes:
        title: which draw, and what it is like.
        panels: titles, with units.
        lines: by entrant, of each panel; None where it has none.
        bin_s: of which the values are means.
    """

    title: str
    panels: Sequence[str]
    lines: dict[str, list[Line | None]]
    bin_s: float


def draws_over_time(results: Results, ranking: Ranking) -> list[DrawOverTime]:
    """The draws that have rows in the time series."""
    rows = with_entrants(results.timeseries.filter(pl.col("world") == ranking.world))
    of_world = results.summary.filter(pl.col("world") == ranking.world)
    return [
        _draw_over_time(
            rows.filter(pl.col("seed") == seed),
            ranking.main,
            _learners(of_world.filter(pl.col("seed") == seed)),
            f"{results.draws[seed].name}: {_described(results, seed)}",
        )
        for seed in rows["seed"].unique(maintain_order=True)
    ]


def scenario_over_time(results: Results) -> list[DrawOverTime]:
    """The first seed of a plain scenario in each world, if agents took part: these beside the first preset."""
    agents = [one.label for one in results.entrants if one.agent != FIXED]
    presets = [one.label for one in results.entrants if one.agent == FIXED]
    if not agents:
        return []
    rows = with_entrants(results.timeseries)
    seed = rows["seed"][0]
    return [
        _draw_over_time(
            rows.filter((pl.col("world") == world) & (pl.col("seed") == seed)),
            [*presets[:1], *agents],
            _learners(results.summary),
            f"{results.title} on {world}, seed {seed}",
        )
        for world in worlds_of(rows)
    ]


def _draw_over_time(rows: pl.DataFrame, entrants: Sequence[str], learners: Sequence[str], title: str) -> DrawOverTime:
    shown = rows.filter(pl.col("entrant").is_in(entrants) & pl.col("flow").is_in(learners))
    shown = shown.filter(pl.col("active") > 0)
    panels = {
        "goodput_mbps": "goodput of the learner flows, mean (Mbit/s)",
        "link_queue_delay_mean_ms": "queueing delay (ms)",
        **{column: tunable_title(column.removeprefix(TUNABLE_PREFIX)) for column in _moving_tunables(shown)},
    }
    bin_s = bin_of(rows)
    lines = {
        entrant: [_line_or_none(own, column, bin_s) for column in panels]
        for entrant in entrants
        for own in [shown.filter(pl.col("entrant") == entrant)]
    }
    return DrawOverTime(title, list(panels.values()), lines, bin_s)


def _line_or_none(rows: pl.DataFrame, column: str, bin_s: float) -> Line | None:
    time_s, values = binned(rows, column, bin_s)
    return (time_s, values) if np.isfinite(values).any() else None


def _moving_tunables(rows: pl.DataFrame) -> list[str]:
    """Columns of the tunables that any entrant moves most."""
    names = [column.removeprefix(TUNABLE_PREFIX) for column in rows.columns if column.startswith(TUNABLE_PREFIX)]
    by_entrant = rows.partition_by("entrant")
    return [
        TUNABLE_PREFIX + name
        for name in _most_varied({name: [own[TUNABLE_PREFIX + name] for own in by_entrant] for name in names})
    ]


def mapped_tunables(cells: pl.DataFrame) -> list[str]:
    """The tunables of an agent's policy map that vary most over it."""
    return _most_varied({str(name): [rows["mean"]] for (name,), rows in cells.group_by("tunable", maintain_order=True)})


def _most_varied(values: Mapping[str, Sequence[pl.Series]]) -> list[str]:
    """Those tunables of which a series varies most, as a part of their range."""
    varied = {
        name: max((_part_of_range(name, one.fill_nan(None).drop_nulls().to_numpy()) for one in series), default=0.0)
        for name, series in values.items()
    }
    most = sorted(varied, key=lambda name: -varied[name])[:MAX_TUNABLES]
    return [name for name in most if varied[name] > 0]


def _part_of_range(name: str, values: npt.NDArray[np.float64]) -> float:
    """How much values of a tunable vary, as a part of its range, on its scale."""
    tunable = TUNABLES[name]
    if len(values) == 0:
        return 0.0
    if tunable.scale == "log":
        return float(np.std(np.log(values)) / math.log(tunable.high / tunable.low))
    return float(np.std(values)) / (tunable.high - tunable.low)


def tunable_title(name: str) -> str:
    """A tunable with its unit."""
    return f"{name} ({TUNABLES[name].unit})"


def binned(rows: pl.DataFrame, column: str, bin_s: float) -> Line:
    """Means of a column over all rows of each bin of time."""
    bins = (
        rows.group_by(((pl.col("time_s") - 1e-9) / bin_s).floor().alias("bin"))
        .agg(pl.col("time_s").max(), pl.col(column).cast(pl.Float64).fill_nan(None).mean())
        .sort("bin")
    )
    return bins["time_s"].to_numpy(), bins[column].fill_null(math.nan).to_numpy()


def bin_of(rows: pl.DataFrame) -> float:
    """Length of the bins into which a time series is put, in s."""
    last_s = rows["time_s"].max()
    return last_s / POINTS if isinstance(last_s, float) else 1.0


def _learners(of_draw: pl.DataFrame) -> list[str]:
    """Names of a draw's learner flows; of all flows without any."""
    learners = of_draw.filter(pl.col("role") == "learner")
    names: list[str] = (learners if len(learners) else of_draw)["flow"].unique(maintain_order=True).to_list()
    return names


def _described(results: Results, seed: int) -> str:
    """A draw in one line."""
    scenario = results.draws[seed].resolved()
    rtts_ms = [flow.rtt_ms for flow in scenario.flows]
    flows = f"{len(rtts_ms)} flows" if len(rtts_ms) > 1 else "1 flow"
    spread = f"{min(rtts_ms):.3g} to {max(rtts_ms):.3g} ms" if len(rtts_ms) > 1 else f"{rtts_ms[0]:.3g} ms"
    return f"{flows}, {scenario.link.mean_rate_mbps:.3g} Mbit/s, {spread}, queue {buffer_bdp(scenario):.2g} BDP"
