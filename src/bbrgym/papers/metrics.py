# SPDX-License-Identifier: GPL-2.0-only
"""Metrics of a run in the papers' sense, taken from the run's records.

Those from the summary hold for each flow's measured window, from the later of warm-up and start to its stop; those
from the time series for the whole run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
import polars as pl

from bbrgym.evaluate.records import flow_groups, per_run

Measure: TypeAlias = Callable[["MeasuredRun", Sequence[str]], float]

FAIR = 0.9  # Jain's index from which on flows count as in equilibrium
FULL = 0.95  # of the link's rate, from which on it counts as full
_SMOOTHING_S = 5.0


@dataclass(frozen=True)
class MeasuredRun:
    """Records of a run, and other facts that metrics need."""

    summary: pl.DataFrame  # rows of summary.parquet
    timeseries: pl.DataFrame  # rows of timeseries.parquet
    mss_bytes: int  # payload of a full packet
    queue_bytes: float = math.nan  # size of the link's queue


@dataclass(frozen=True)
class RunMetric:
    """A named number of a run."""

    unit: str
    of: Measure  # takes the run's records and the names of the flows that count


def measure(run: MeasuredRun, metric: str, flow: str | None = None) -> float:
    """Return a metric of all flows, or of a flow or a group declared with a count; NaN if there is none."""
    names = run.summary["flow"].to_list()
    if flow is not None:
        groups = flow_groups(names)
        names = [flow] if flow in names else groups.get(flow, [])
    return METRICS[metric].of(run, names) if names else math.nan


# ---- from the summary ---------------------------------------------------------------------------------


def _flows(run: MeasuredRun, names: Sequence[str]) -> pl.DataFrame:
    return run.summary.filter(pl.col("flow").is_in(names))


def _total(column: str) -> Measure:
    return lambda run, names: float(_flows(run, names)[column].fill_nan(None).sum())


def _mean(column: str) -> Measure:
    return lambda run, names: _or_nan(_flows(run, names)[column].fill_nan(None).mean())


def _or_nan(value: object) -> float:
    return float(value) if isinstance(value, int | float) else math.nan


def jain(rates: Sequence[float] | np.ndarray) -> float:
    """Return Jain's fairness index, NaN of no rates and of zeros alone."""
    values = np.asarray(rates, dtype=np.float64)
    squares = float(len(values) * np.sum(values**2))
    return float(np.sum(values)) ** 2 / squares if squares > 0 else math.nan


def _queue_share(run: MeasuredRun, names: Sequence[str]) -> float:
    """Return the mean queue by Little's law, rate times wait, over the queue's size."""
    held_bits = _flows(run, names).select(pl.col("throughput_mbps") * pl.col("queue_delay_mean_ms") * 1e3).to_series()
    return float(held_bits.fill_nan(None).sum()) / 8 / run.queue_bytes


# ---- from the time series -----------------------------------------------------------------------------


def _rows(run: MeasuredRun, names: Sequence[str]) -> pl.DataFrame:
    return run.timeseries.filter(pl.col("flow").is_in(names))


def _count(column: str) -> Measure:
    return lambda run, names: float(_rows(run, names)[column].sum())


def _part(column: str) -> Measure:
    """Return the measure of a count's part of the packets sent."""

    def of(run: MeasuredRun, names: Sequence[str]) -> float:
        rows = _rows(run, names)
        sent = float(rows["sent_pkts"].sum())
        return float(rows[column].sum()) / sent if sent > 0 else math.nan

    return of


def _in_order(run: MeasuredRun, names: Sequence[str]) -> float:
    """Return the mean rate of in-order arrivals from the flows' start to the run's end."""
    rows = _rows(run, names)
    return float(rows["in_order_arrival_mbps"].sum()) / rows["time_s"].n_unique()


def _arrived(run: MeasuredRun, names: Sequence[str]) -> float:
    """Return the packets sent that were not dropped; some may still be queued."""
    rows = _rows(run, names)
    return float(rows["sent_pkts"].sum()) - float(rows["dropped_pkts"].sum())


def _arrival_mbps(run: MeasuredRun, names: Sequence[str]) -> float:
    """Return the rate of the payload that arrived, from the start to the run's end."""
    return _arrived(run, names) * run.mss_bytes / 125_000 / _or_nan(_rows(run, names)["time_s"].max())


def _out_of_order(run: MeasuredRun, names: Sequence[str]) -> float:
    """Return the part of the arrived packets that did not advance the next expected sequence number."""
    rows = _rows(run, names)
    in_order_pkts = _in_order(run, names) * _or_nan(rows["time_s"].max()) * 125_000 / run.mss_bytes
    pkts = _arrived(run, names)
    return 1.0 - in_order_pkts / pkts if pkts > 0 else math.nan


def _in_flight(run: MeasuredRun, names: Sequence[str]) -> float:
    """Return the mean over the intervals in which a flow is active."""
    return _or_nan(_rows(run, names).filter(pl.col("active") > 0)["in_flight_pkts"].mean())


def _window_use(run: MeasuredRun, names: Sequence[str]) -> float:
    rows = _rows(run, names).filter((pl.col("active") > 0) & (pl.col("cwnd_pkts") > 0))
    return _or_nan(rows.select(pl.col("in_flight_pkts") / pl.col("cwnd_pkts")).to_series().mean())


def _equilibrium_s(run: MeasuredRun, names: Sequence[str]) -> float:
    """Return when the last period of fair rates begins, counted from the last start, the run's length if none does.

    Rates are goodputs over 5 s; a period lasts until the next flow starts or stops.
    """
    rows = _rows(run, names)
    starts = (
        rows.filter(pl.col("active") > 0)
        .group_by("flow")
        .agg(pl.col("time_s").min(), pl.col("time_s").max().alias("end"))
    )
    began_s, end_s = _or_nan(starts["time_s"].max()), _or_nan(starts["end"].min())
    wide = rows.pivot("flow", index="time_s", values="goodput_mbps").sort("time_s")
    times_s = wide["time_s"].to_numpy()
    step_s = float(times_s[1] - times_s[0]) if len(times_s) > 1 else _SMOOTHING_S
    smoothed = wide.drop("time_s").select(pl.all().rolling_mean(max(1, round(_SMOOTHING_S / step_s)), min_samples=1))
    fair_s = end_s
    for time_s, rates in reversed(list(zip(times_s, smoothed.iter_rows(), strict=True))):
        if time_s > end_s:
            continue
        if time_s < began_s or not jain(np.array(rates)) >= FAIR:
            break
        fair_s = float(time_s)
    return fair_s - began_s


def _refill_s(run: MeasuredRun, names: Sequence[str]) -> float:
    """Return the time that the flows take to fill the link after the first other flow has left; NaN: never."""
    others = run.timeseries.filter(~pl.col("flow").is_in(names) & (pl.col("active") > 0))
    left_s = _or_nan(others.group_by("flow").agg(pl.col("time_s").max())["time_s"].min())
    total = (
        _rows(run, names)
        .filter(pl.col("time_s") > left_s)
        .group_by("time_s", maintain_order=True)
        .agg(pl.col("throughput_mbps").sum(), pl.col("link_rate_mbps").first())
    )
    full = total.filter(pl.col("throughput_mbps") >= FULL * pl.col("link_rate_mbps"))
    return _or_nan(full["time_s"].min()) - left_s


METRICS: Mapping[str, RunMetric] = MappingProxyType(
    {
        # payload that became readable in order, of all flows
        "goodput_mbps": RunMetric("Mbit/s", _total("goodput_mbps")),
        # IP bytes that left the bottleneck, ahead of random loss, of all flows
        "throughput_mbps": RunMetric("Mbit/s", _total("throughput_mbps")),
        "share": RunMetric("ratio", _total("share")),  # part of the goodput of all flows in the flow's window
        "rtt_mean_ms": RunMetric("ms", _mean("rtt_mean_ms")),  # mean RTT sample, of a mean flow
        # highest mean RTT of an interval of the time series
        "rtt_highest_ms": RunMetric(
            "ms", lambda run, names: _or_nan(_rows(run, names)["rtt_mean_ms"].fill_nan(None).max())
        ),
        # mean wait of the flows' packets in the queue
        "queue_delay_ms": RunMetric("ms", lambda run, names: _or_nan(per_run(_flows(run, names))["queue_delay_ms"][0])),
        "queue_share": RunMetric("ratio", _queue_share),  # part of the queue that the flows' waiting packets fill
        "completion_s": RunMetric("s", _mean("completion_s")),  # from a flow's start until all of its transfer arrived
        # departed bytes / capacity of the link
        "utilisation": RunMetric("ratio", lambda run, _: float(run.summary["utilisation"][0])),
        # Jain's index of the flows' goodput
        "jain": RunMetric(
            "ratio", lambda run, names: jain(_flows(run, names)["goodput_mbps"].fill_nan(None).drop_nulls().to_numpy())
        ),
        "retransmit_rate": RunMetric("ratio", _part("retransmitted_pkts")),  # retransmitted packets / sent packets
        # packets dropped by the queue or lost at random / sent packets
        "drop_rate": RunMetric("ratio", _part("dropped_pkts")),
        # payload of the packets that advanced the receiver's next expected sequence number
        "in_order_arrival_mbps": RunMetric("Mbit/s", _in_order),
        # 1 - packets that advanced the next expected sequence number / arrived packets
        "out_of_order_arrivals": RunMetric("ratio", _out_of_order),
        "arrived_pkts": RunMetric("pkts", _arrived),  # packets sent and not dropped, retransmissions included
        # payload of the packets that arrived, retransmissions included
        "arrival_mbps": RunMetric("Mbit/s", _arrival_mbps),
        "sent_pkts": RunMetric("pkts", _count("sent_pkts")),  # retransmissions included
        "retransmitted_pkts": RunMetric("pkts", _count("retransmitted_pkts")),
        "dropped_pkts": RunMetric("pkts", _count("dropped_pkts")),  # by the queue, or lost at random
        "rto_count": RunMetric("count", _count("rto_count")),
        "in_flight_pkts": RunMetric("pkts", _in_flight),  # of a mean flow
        "window_use": RunMetric("ratio", _window_use),  # packets in flight / congestion window, mean over time
        # time from the last start until Jain's index of 5-s goodputs stays at 0.9 or above
        "equilibrium_s": RunMetric("s", _equilibrium_s),
        "refill_s": RunMetric("s", _refill_s),  # time to fill 95 % of the link after another flow has left
    }
)
