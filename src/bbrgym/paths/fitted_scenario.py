# SPDX-License-Identifier: GPL-2.0-only
"""Writes the scenario of a fitted path; values missing from the log get defaults, which the file names."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from bbrgym.paths.fit import PathFit, RateTrace
from bbrgym.paths.jumps import DelaySteps
from bbrgym.runs.atomic_files import write_text
from bbrgym.scenario.bounds import BOUNDS
from bbrgym.scenario.files import parse_scenario
from bbrgym.scenario.model import HEADER_BYTES
from bbrgym.scenario.shipped import MIX

DEFAULT_RTT_MS = 40.0
DEFAULT_BUFFER_BDP = 1.0
DURATION_S = 30.0
DELAY_STEP_MS = 10.0  # or a multiple, for a long log

_MOST_DELAY_MS = 1.0  # of the link, a part of the RTT
_DIGITS = 6


def write_scenario(fits: Mapping[str, PathFit], path: Path) -> list[Path]:
    """Write the scenario of a log, or the distribution that draws one of several, and the traces.

    Args:
        fits: by the name of their log.
        path: of the scenario's file; traces are written beside it.

    Returns:
        The files, the scenario's first.

    Raises:
        ScenarioError: a path is not one that a scenario can have.
        OSError: a file cannot be written.
    """
    name = _name(path)
    scenarios, texts = [], {}
    for index, fit in enumerate(fits.values()):
        own = name if len(fits) == 1 else f"{name}-{index}"
        trace_path = path.with_name(f"{own}.rates.csv")
        if fit.trace is not None:
            texts[trace_path] = _trace_text(fit.trace)
        # The paths in a scenario's file are relative to it, those in a mix are not.
        shown_path = trace_path.name if len(fits) == 1 else str(trace_path.resolve())
        scenarios.append(scenario_fields(fit, own, None if fit.trace is None else shown_path))
    for fields in scenarios:
        parse_scenario({**fields, "link": {"rate_mbps": 1.0, **fields["link"], "trace_path": None}})
    for fields in scenarios:
        delays = fields["link"].get("delay_trace")
        if delays is not None:
            delays_path = path.with_name(f"{fields['name']}.delays.txt")
            texts[delays_path] = "".join(f"{delay_ms:.10g}\n" for delay_ms in delays.pop("delays_ms"))
            delays["path"] = delays_path.name if len(fits) == 1 else str(delays_path.resolve())
    for text_path, text in texts.items():
        write_text(text_path, text)
    values = scenarios[0] if len(scenarios) == 1 else {"name": name, MIX: scenarios}
    comments = [f"# From {shown!r}, by bbrgym path. {_defaults(fit)}" for shown, fit in fits.items()]
    text = yaml.safe_dump(values, sort_keys=False, width=120)
    write_text(path, "\n".join([*comments, text]))
    return [path, *texts]


def scenario_fields(fit: PathFit, name: str, trace_path: str | None) -> dict[str, Any]:
    """Return the fields of a fitted path's scenario.

    Args:
        fit: of the path.
        name: of the scenario.
        trace_path: of the trace that the link follows; None: it has a rate.
    """
    rtt_ms = _rounded(fit.base_rtt_s.value * 1e3) if fit.base_rtt_s.is_seen else DEFAULT_RTT_MS
    rtt_ms = min(max(rtt_ms, BOUNDS["rtt_ms"].low), BOUNDS["rtt_ms"].high)
    rate_mbps = fit.rate_mbps.value if fit.rate_mbps.is_seen else fit.rate_mbps.low
    link: dict[str, Any] = {"rate_mbps": _rounded(rate_mbps)} if trace_path is None else {}
    if trace_path is not None:
        link["trace_path"] = trace_path
    link["delay_ms"] = _rounded(min(_MOST_DELAY_MS, rtt_ms / 4))
    if fit.delays is not None:
        link["delay_trace"] = _delay_trace(fit.delays, fit.duration_s)
    link["queue"] = {"kind": "droptail", **_size(fit, rate_mbps * 125 * rtt_ms)}
    if fit.random_loss.is_seen and fit.random_loss.low > 0:
        link["loss"] = {"kind": "bernoulli", "rate": _rounded(fit.random_loss.value)}
    flow: dict[str, Any] = {"name": "flow", "rtt_ms": rtt_ms}
    if fit.connections > 1:
        flow["count"] = fit.connections
    return {"name": name, "duration_s": DURATION_S, "mss_bytes": fit.mss_bytes, "link": link, "flows": [flow]}


def _delay_trace(delays: DelaySteps, duration_s: float) -> dict[str, Any]:
    most = int(BOUNDS["delay_steps"].high)
    step_ms = DELAY_STEP_MS * max(math.ceil(duration_s * 1e3 / DELAY_STEP_MS / most), 1)
    delays_s = delays.at(np.arange(0.0, duration_s, step_ms / 1e3))
    return {"delays_ms": [_rounded(delay_s * 1e3) for delay_s in delays_s.tolist()], "step_ms": step_ms}


def _size(fit: PathFit, bdp_bytes: float) -> dict[str, Any]:
    buffer = fit.buffer_bytes
    size_bytes = buffer.value if buffer.is_seen else max(buffer.low, DEFAULT_BUFFER_BDP * bdp_bytes)
    return {"size_bytes": max(round(size_bytes), fit.mss_bytes + HEADER_BYTES)}


def _defaults(fit: PathFit) -> str:
    """Return a sentence on what the log does not tell."""
    missing = []
    if not fit.base_rtt_s.is_seen:
        missing.append(f"the RTT ({DEFAULT_RTT_MS:g} ms here)")
    if not fit.rate_mbps.is_seen:
        missing.append("the capacity (the highest rate seen here)")
    if not fit.buffer_bytes.is_seen:
        missing.append(f"the buffer ({DEFAULT_BUFFER_BDP:g} BDP here, or what was seen in it if that is more)")
    if not fit.random_loss.is_seen:
        missing.append("random loss (none here)")
    return f"It does not tell {', '.join(missing)}." if missing else "It tells all that stands here."


def _trace_text(trace: RateTrace) -> str:
    rows = zip(trace.times_s.tolist(), trace.rates_mbps.tolist(), strict=True)
    return "time_s,rate_mbps\n" + "".join(f"{time_s:.6f},{rate_mbps:.6f}\n" for time_s, rate_mbps in rows)


def _name(path: Path) -> str:
    """Return a name that a scenario may have for a file's."""
    text = "".join(one if one.isascii() and (one.isalnum() or one in "_.-") else "-" for one in path.stem)
    return (text.lstrip("_.-") or "path")[:56]


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
