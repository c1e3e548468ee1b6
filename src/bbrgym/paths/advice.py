# SPDX-License-Identifier: GPL-2.0-only
"""Advice on the congestion control for paths that were fitted to logs.

A value that a log tells is drawn from its interval, uniformly; what the log does not tell is drawn from a range. So the
intervals of the scores have in them what is not known of the path:

    buffer       log-uniform, from what was seen in it, or a quarter of a BDP, up to four BDP or twice what was seen
    capacity     log-uniform, from the highest rate seen up to twice that
    base RTT     log-uniform, from half of the default up to twice that

Random loss that a log does not tell is left out, and a rate that varies follows the log's trace.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from bbrgym.evaluate.ranking import Ranking
from bbrgym.paths.fit import FittedValue, PathFit
from bbrgym.paths.fitted_scenario import DEFAULT_RTT_MS
from bbrgym.scenario.model import HEADER_BYTES
from bbrgym.scenario.shipped import MIX, VARIABLES

VARIANTS_ADVISED = ("bbr", "bbr3", "bbr-plus", "bbr-acd", "bbq", "bbr-pg", "bbr-pg-inv", "cubic")
"""Presets of v1 and v3, the hand-designed variants and CUBIC, which are compared."""

AGENTS_ADVISED = ("shipped/fixed", "shipped/flow")
"""The best fixed setting, and a policy that a sender can run by itself, which needs PyTorch; both are compared too."""

_LEAST_BUFFER_BDP, _MOST_BUFFER_BDP = 0.25, 4.0
_SPREAD = 2.0
_LEAST_OF_LOG = 0.9  # of the log's goodput, that its control has in simulations


def possible_paths(fits: Sequence[PathFit], scenarios: Sequence[Mapping[str, Any]], name: str) -> dict[str, Any]:
    """Return the fields of a distribution that draws one of the paths, with what its log does not tell."""
    return {"name": name, MIX: [_possible(fit, fields) for fit, fields in zip(fits, scenarios, strict=True)]}


def advice(ranking: Ranking, fits: Sequence[PathFit], summary: pl.DataFrame) -> str:
    """Return one sentence: the best entrant, its statistical ties, and what the logs do not tell.

    There is none against a control that a log shows doing better than the simulations of its path say that it can.
    """
    for cc in dict.fromkeys(fit.cc for fit in fits):
        own = summary.filter((pl.col("variant") == cc) & (pl.col("agent") == "fixed") & (pl.col("role") == "tuned"))
        runs = own.group_by("seed").agg(pl.col("goodput_mbps").sum())["goodput_mbps"].to_list()
        logged_mbps = min(fit.goodput_mbps for fit in fits if fit.cc == cc)
        if runs and (simulated_mbps := float(np.mean(runs))) < _LEAST_OF_LOG * logged_mbps:
            return (
                f"No advice: the log shows {cc} at {logged_mbps:.3g} Mbit/s, simulations of its path at "
                f"{simulated_mbps:.3g}, so the fitted path does not explain this log; {_untold(fits)}."
            )
    by_name = {row.entrant: row for row in ranking.rows}
    best = by_name[ranking.reference]
    others = [row for row in ranking.rows if row is not best]
    level = [row.entrant for row in others if not row.difference.high < 0]
    told = (
        f"it cannot be told from {_joined(level)} in {ranking.scores.draws} draws"
        if level
        else f"each other one is worse in the interval of {ranking.scores.draws} draws"
    )
    return f"Use {best.entrant}, whose mean score is {best.mean.text(2)}: {told}; {_untold(fits)}."


def _possible(fit: PathFit, fields: Mapping[str, Any]) -> dict[str, Any]:
    link, (flow,) = dict(fields["link"]), fields["flows"]
    rate_mbps = fit.rate_mbps.value if fit.rate_mbps.is_seen else fit.rate_mbps.low
    bdp_bytes = rate_mbps * 125 * flow["rtt_ms"]
    if "rate_mbps" in link:
        unseen = _log_uniform(rate_mbps, _SPREAD * rate_mbps)
        link["rate_mbps"] = _uniform(fit.rate_mbps) if fit.rate_mbps.is_seen else unseen
    rtt_ms: Any = _log_uniform(DEFAULT_RTT_MS / _SPREAD, DEFAULT_RTT_MS * _SPREAD)
    if fit.base_rtt_s.is_seen:
        rtt_ms = _uniform(fit.base_rtt_s.times(1e3)) if math.isfinite(fit.base_rtt_s.low) else flow["rtt_ms"]
    packet_bytes = fields["mss_bytes"] + HEADER_BYTES
    least_bytes = max(fit.buffer_bytes.low, _LEAST_BUFFER_BDP * bdp_bytes, 2.0 * packet_bytes)
    most_bytes = max(_SPREAD * least_bytes, _MOST_BUFFER_BDP * bdp_bytes)
    size = _uniform(fit.buffer_bytes) if fit.buffer_bytes.is_seen else _log_uniform(least_bytes, most_bytes)
    link["queue"] = {"kind": "droptail", "size_bytes": {**size, "whole": True, "low": packet_bytes}}
    if "loss" in link:
        link["loss"] = {**link["loss"], "rate": _uniform(fit.random_loss)}
    return {**fields, VARIABLES: {}, "link": link, "flows": [{**flow, "rtt_ms": rtt_ms}]}


def _uniform(fitted: FittedValue) -> dict[str, list[float]]:
    return {"uniform": [_rounded(fitted.low), _rounded(fitted.high)]}


def _log_uniform(low: float, high: float) -> dict[str, list[float]]:
    return {"log_uniform": [_rounded(low), _rounded(high)]}


def _rounded(value: float) -> float:
    return float(f"{value:.9g}")


def _untold(fits: Sequence[PathFit]) -> str:
    """Return what at least one log does not tell, as a part of a sentence."""
    kinds = {
        "the base RTT (20 to 80 ms here)": [fit.base_rtt_s.is_seen for fit in fits],
        "the capacity (up to twice the highest rate seen here)": [fit.rate_mbps.is_seen for fit in fits],
        "the buffer (up to 4 BDP here)": [fit.buffer_bytes.is_seen for fit in fits],
        "random loss (none here)": [fit.random_loss.is_seen for fit in fits],
        "whether other traffic takes a part or the link itself varies": [fit.competitor is False for fit in fits],
    }
    missing = [name for name, seen in kinds.items() if not all(seen)]
    logs = "the log does" if len(fits) == 1 else "the logs do"
    return f"{logs} not tell {_joined([*missing, 'which flows will share the link later'])}"


def _joined(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
