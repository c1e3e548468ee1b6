# SPDX-License-Identifier: GPL-2.0-only
"""Results of an evaluation for its loggers: means of each entrant, and tables."""

from __future__ import annotations

import math

import polars as pl

from bbrgym.evaluate.records import per_run
from bbrgym.evaluate.results import Results
from bbrgym.loggers.logger import Logger

_NAMES = {"score": "score", "own_score": "own_score", "goodput": "goodput_mbps", "queue_delay_ms": "queue_delay_ms"}


def log_results(log: Logger, results: Results) -> None:
    """Log the mean scores, goodput and queueing delay of each entrant in each world, and the tables."""
    runs = per_run(results.summary)
    means = runs.group_by("world", "entrant", maintain_order=True).agg(pl.col(*_NAMES).mean())
    outcome = {
        f"{world}/{entrant}/{name}": value
        for world, entrant, *values in means.iter_rows()
        for name, value in zip(_NAMES.values(), values, strict=True)
        if value is not None and math.isfinite(value)
    }
    log.metrics(0, outcome)
    log.table(0, "runs", runs)
    if results.rankings:
        log.table(0, "ranking", pl.concat([ranking.table() for ranking in results.rankings]))
    log.summary(outcome)
