# SPDX-License-Identifier: GPL-2.0-only
"""Figures of one flow over time: rates, window, RTT, queue, losses, phases and tunables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
import yaml

from bbrgym.evaluate.records import TUNABLE_PREFIX, flow_groups, with_entrants, worlds_of
from bbrgym.evaluate.results import Results
from bbrgym.report.figure_spec import Axis, Bands, Dash, FigureSpec, Line, Panel, Series, Ticks, colour
from bbrgym.report.tunable_figures import varying_tunables, with_unit
from bbrgym.scenario.files import load_scenario
from bbrgym.tunables import VARIANTS
from bbrgym.worlds.phases import phase_of

MAX_FLOWS = 4  # of an entrant with figures on the page,
MAX_FIGURES = 24  # and all flows' figures there, unless there are more entrants
MAX_SPANS = 150  # of all phases; with more, the parts of PROBE_BW are shown as one

_BITS_PER_BYTE = 8
_BLACK = "#000000"
_PHASE_COLOURS = {
    "STARTUP": "#E69F00",
    "DRAIN": "#56B4E9",
    "PROBE_RTT": "#CC79A7",
    "PROBE_BW": "#D9D9D9",
    "PROBE_BW up": "#009E73",
    "PROBE_BW down": "#999933",
    "PROBE_BW refill": "#0072B2",
    "PROBE_BW cruise": "#D9D9D9",
    "slow start": "#E69F00",
    "congestion avoidance": "#D9D9D9",
    "other": "#888888",
}


@dataclass(frozen=True)
class _Quantity:
    """A line of a panel."""

    column: str  # of the rows
    label: str
    colour: str
    dash: Dash = "solid"
    no_value: float | None = None  # value that stands for none
    low: str | None = None  # columns of the band of a single run
    high: str | None = None


_CAPACITY, _RATES = "capacity, BDP, base RTT", "pacing rate and bandwidth estimate"
_DELAY = "link_queue_delay_{}_ms"
_QUANTITIES = (  # by panel, with its unit
    ("goodput", "Mbit/s", _Quantity("goodput_mbps", "goodput", colour(0))),
    ("goodput", "Mbit/s", _Quantity("fair_share_mbps", "fair share", _BLACK, "dot")),
    (_RATES, "Mbit/s", _Quantity("pacing_mbps", "pacing rate", colour(1), no_value=0.0)),
    (_RATES, "Mbit/s", _Quantity("bw_mbps", "bandwidth estimate", colour(2), no_value=0.0)),
    (_RATES, "Mbit/s", _Quantity("capacity_mbps", _CAPACITY, _BLACK, "dash")),
    ("window", "packets", _Quantity("cwnd_pkts", "cwnd", colour(1))),
    ("window", "packets", _Quantity("in_flight_pkts", "in flight", colour(0))),
    ("window", "packets", _Quantity("bdp_pkts", _CAPACITY, _BLACK, "dash")),
    ("RTT", "ms", _Quantity("rtt_mean_ms", "RTT", colour(0), no_value=0.0, low="rtt_min_ms", high="rtt_p95_ms")),
    ("RTT", "ms", _Quantity("min_rtt_ms", "minRTT", colour(2), no_value=0.0)),
    ("RTT", "ms", _Quantity("base_rtt_ms", _CAPACITY, _BLACK, "dash")),
    ("queue", "ms", _Quantity(_DELAY.format("mean"), "queueing delay", colour(6), high=_DELAY.format("p95"))),
)
_LOSSES_IN = "window"
_MEANS = ("goodput", "RTT", "queue")  # panels of means over the intervals; the others show values at their ends


def flow_figures(results: Results) -> Iterator[FigureSpec]:
    """Specify the figures of the page: of a scenario those of each run, of draws those of the first.

    Of draws each entrant of the ranking's main ones has one figure, its first tuned flow's; of a scenario each has
    those of up to `MAX_FLOWS` flows, fewer where there would be more than `MAX_FIGURES`. A flow that never ran
    has none.
    """
    summary, rows = results.summary, with_entrants(results.timeseries)
    if results.draws and len(rows):
        seed = rows["seed"].item(0)
        summary, rows = summary.filter(pl.col("seed") == seed), rows.filter(pl.col("seed") == seed)
    runs = rows.select("world", "entrant").n_unique()
    flows = 1 if results.draws else max(1, min(MAX_FLOWS, MAX_FIGURES // max(1, runs)))
    for world in worlds_of(rows):
        main = [ranking.main for ranking in results.rankings if ranking.world == world]
        of_world = rows.filter(pl.col("world") == world)
        entrants = main[0] if main else of_world["entrant"].unique(maintain_order=True).to_list()
        for entrant in entrants:
            own = of_world.filter(pl.col("entrant") == entrant)
            for flow in shown_flows(summary, own.filter(pl.col("active") > 0), flows):
                where = f" on {world}" if rows["world"].n_unique() > 1 else ""
                yield flow_figure(
                    own.filter(pl.col("flow") == flow),
                    algorithm=_algorithm(summary, own["variant"].item(0), flow),
                    base_rtt_ms=summary.filter(pl.col("flow") == flow)["rtt_ms"].item(0),
                    mss_bytes=_mss_bytes(results, own["seed"].item(0)),
                    name=_file_name("flow", entrant, flow, *([world] if where else [])),
                    title=f"{entrant}: flow {flow}{where}",
                )


def shown_flows(summary: pl.DataFrame, rows: pl.DataFrame, number: int) -> list[str]:
    """Return the flows of an entrant that have figures: tuned flows first, one of each group before a second."""
    names = rows["flow"].unique(maintain_order=True).to_list()
    tuned = set(summary.filter(pl.col("role") == "tuned")["flow"])
    rank = {name: number for group in flow_groups(names).values() for number, name in enumerate(group)}
    ordered = sorted(names, key=lambda name: (rank[name], name not in tuned, names.index(name)))
    return sorted(ordered[:number], key=names.index)


def flow_figure(
    rows: pl.DataFrame, *, algorithm: str, base_rtt_ms: float, mss_bytes: int, name: str, title: str
) -> FigureSpec:
    """Specify the figure of one flow in the runs of an entrant in a world; lines are means over the seeds."""
    interval_s = interval_of(rows)
    rows = _with_references(rows.filter(pl.col("active") > 0), base_rtt_ms, mss_bytes)
    first = rows.filter(pl.col("seed") == rows["seed"].first())
    seeds = rows["seed"].n_unique()
    bands = list(phase_bands(first, interval_s, algorithm))
    panels = []
    for about, unit in dict.fromkeys((panel, unit) for panel, unit, _ in _QUANTITIES):
        quantities = [one for panel, _, one in _QUANTITIES if panel == about]
        series: list[Series] = [*bands, *(line for one in quantities for line in _lines(rows, one))]
        if about == _LOSSES_IN:
            series += [ticks for ticks in (loss_ticks(first),) if ticks.at]
        unit += f",\nmeans of {interval_s:g} s" if about in _MEANS else ""
        panels.append(Panel(_time_axis(rows, interval_s), Axis(unit, starts_at_zero=True), series, about))
    for tunable in varying_tunables(first.with_columns(entrant=pl.lit(""))):
        values = first[TUNABLE_PREFIX + tunable].to_numpy()
        line = Line(first["time_s"].to_numpy(), values, "tunable", colour(3), is_stepped=True)
        panels.append(Panel(_time_axis(rows, interval_s), Axis(), [*bands, line], with_unit(tunable)))
    return FigureSpec(
        name=name,
        title=title,
        panels=panels,
        shares_x=True,
        height_in=1.4 + 1.5 * len(panels),
        note=_note(seeds, first["seed"].item(0), interval_s),
        is_folded=True,
    )


def interval_of(rows: pl.DataFrame) -> float:
    """Return the time between two rows of a flow in s; of a single row that since the beginning."""
    times = rows["time_s"].unique().sort()
    least = times.diff().drop_nulls().min() if len(times) > 1 else times.min()
    return float(least) if isinstance(least, float) else math.nan


def phase_bands(rows: pl.DataFrame, interval_s: float, algorithm: str) -> Iterator[Bands]:
    """Yield the shaded intervals of each phase of a run, from the rows of one flow.

    A row's phase is that at the end of its interval, and stands for all of it.
    """
    phases = [phase_of(code, algorithm) for code in rows["phase"].to_list()]
    ends_s = rows["time_s"].to_numpy()
    spans = _spans([phase.name for phase in phases], ends_s, interval_s)
    if sum(map(len, spans.values())) > MAX_SPANS:
        spans = _spans([phase.group for phase in phases], ends_s, interval_s)
    for name, of_phase in sorted(spans.items(), key=lambda item: list(_PHASE_COLOURS).index(item[0])):
        yield Bands(of_phase, name, _PHASE_COLOURS[name], opacity=0.3)


def loss_ticks(rows: pl.DataFrame) -> Ticks:
    """Return a tick at the end of each interval of a run in which the sender marked a packet lost."""
    return Ticks(rows.filter(pl.col("lost_pkts") > 0)["time_s"].to_list(), "packets lost", _BLACK)


def _spans(
    names: Sequence[str], ends_s: npt.NDArray[np.float64], interval_s: float
) -> dict[str, list[tuple[float, float]]]:
    """Return the times of each name, where neighbours of one name are joined."""
    spans: dict[str, list[tuple[float, float]]] = {}
    last = ("", -math.inf)
    for name, end_s in zip(names, ends_s.tolist(), strict=True):
        of_name = spans.setdefault(name, [])
        follows = last[0] == name and end_s - last[1] < 1.5 * interval_s
        begin_s = of_name.pop()[0] if follows else max(last[1], end_s - interval_s)
        of_name.append((begin_s, end_s))
        last = (name, end_s)
    return spans


def _with_references(rows: pl.DataFrame, base_rtt_ms: float, mss_bytes: int) -> pl.DataFrame:
    """Return rows with the payload capacity of the link, the flow's BDP at that capacity, and the base RTT."""
    capacity = pl.col("fair_share_mbps") * pl.col("link_active_flows")
    return rows.with_columns(
        capacity_mbps=capacity,
        bdp_pkts=capacity * 1e6 * (base_rtt_ms / 1e3) / (_BITS_PER_BYTE * mss_bytes),
        base_rtt_ms=pl.lit(base_rtt_ms),
    )


def _lines(rows: pl.DataFrame, quantity: _Quantity) -> Iterator[Line]:
    """Yield the line of a quantity; nothing if there is never a value."""

    def known(column: str) -> pl.Expr:
        value = pl.col(column).cast(pl.Float64)
        return value if quantity.no_value is None else pl.when(value != quantity.no_value).then(value)

    low, high = quantity.low or quantity.column, quantity.high or quantity.column
    is_alone = rows["seed"].n_unique() == 1
    over = rows.group_by("time_s", maintain_order=True).agg(
        known(quantity.column).mean().alias("mean"),
        known(low if is_alone else quantity.column).min().alias("low"),
        known(high if is_alone else quantity.column).max().alias("high"),
    )
    over = over.sort("time_s")
    mean, lows, highs = (over[name].fill_null(math.nan).to_numpy() for name in ("mean", "low", "high"))
    if not np.isfinite(mean).any():
        return
    has_band = not np.array_equal(lows, highs, equal_nan=True)
    yield Line(
        over["time_s"].to_numpy(),
        mean,
        quantity.label,
        quantity.colour,
        width=1.0,
        dash=quantity.dash,
        band=(lows, highs) if has_band else None,
    )


def _time_axis(rows: pl.DataFrame, interval_s: float) -> Axis:
    ends = rows["time_s"].min(), rows["time_s"].max()
    first, last = (float(end) if isinstance(end, float) else 0.0 for end in ends)
    return Axis("time (s)", limits=(max(0.0, round(first - interval_s, 6)), last))


def _note(seeds: int, first: int, interval_s: float) -> str:
    of_seeds = (
        f"Means and ranges over {seeds} seeds; phases, losses and tunables are those of seed {first}."
        if seeds > 1
        else f"Seed {first}. The bands of RTT and queueing delay reach from the least and from the mean to the 95th "
        "percentile of an interval."
    )
    return (
        f"Pacing rate, estimates, windows and phases are those at the end of each {interval_s:g} s. Capacity and BDP "
        f"count payload. {of_seeds}"
    )


def _algorithm(summary: pl.DataFrame, variant: str, flow: str) -> str:
    """Return the algorithm of a flow in the runs of a variant."""
    cc = summary.filter((pl.col("variant") == variant) & (pl.col("flow") == flow))["cc"].item(0)
    return VARIANTS[cc].algorithm if cc in VARIANTS else cc


def _mss_bytes(results: Results, seed: int) -> int:
    scenario = results.draws.get(seed) or load_scenario(yaml.safe_load(results.config)["scenario"])
    return scenario.mss_bytes


def _file_name(*parts: str) -> str:
    return "-".join(part.replace(" ", "-").replace("/", "-") for part in parts)
