# SPDX-License-Identifier: GPL-2.0-only
"""Measure how many of 100 intervals of 95 % hold the truth, and how many of the percentiles of a plain bootstrap do.

usage: python benchmarks/interval_coverage.py [--samples 1000] [--jobs 2]

A cell is "ours / percentiles". A fifth of a mixture lies far below the rest; the last two values are scores drawn from
bench/presets.json. Peers have log-normal weights; samples without an interval are left out.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from report import command, measured_on
from scipy.stats import trim_mean

from bbrgym.evaluate.statistics import Array, Estimate, Scores, cluster_mean
from bbrgym.report.markdown import markdown_table

SIZES = (10, 15, 20, 30, 50, 100)
VALUES = ("normal", "log-normal 0.5", "log-normal 1", "log-normal 1.5", "mixture", "wan_mix", "lossy_mix")
#: An interval by the scores a0, b0, c0 and weights w0 of sample 0; the number by draws x: [4, ..., draws].
STATISTICS: dict[str, tuple[Callable[[Scores, int], Estimate], Callable[[Array], Array]]] = {
    "mean": (lambda of, i: of.mean(f"a{i}"), lambda x: x[0].mean(-1)),
    "difference": (lambda of, i: of.difference(f"b{i}", f"a{i}"), lambda x: (x[1] - x[0]).mean(-1)),
    "ratio": (
        lambda of, i: of.gap_closed(f"b{i}", f"a{i}", f"c{i}"),
        lambda x: (x[1] - x[0]).mean(-1) / (x[2] - x[0]).mean(-1),
    ),
    "middle mean": (lambda of, i: of.iqm(f"a{i}"), lambda x: trim_mean(x[0], 0.25, axis=-1)),
    "wins": (lambda of, i: of.improvement(f"b{i}", f"a{i}"), lambda x: (x[1] > x[0]).mean(-1)),
    "peers": (
        lambda of, i: cluster_mean(of[f"a{i}"][0], of[f"w{i}"][0]),
        lambda x: (x[3] * x[0]).sum(-1) / x[3].sum(-1),
    ),
}


def draw(values: str, generator: np.random.Generator, *shape: int) -> Array:
    """Return draws of three entrants' scores and a weight: [4, *shape]."""
    found = generator.normal(size=(4, *shape))
    if values == "mixture":
        found = np.where(generator.random(found.shape) < 0.2, -np.exp(0.7 * found), 0.15 * found - 0.2)
    elif values.startswith("log-normal"):
        found = np.exp(float(values.split()[1]) * found)
    found[1], found[2] = found[0] + found[1] / 2 + 1.2, found[0] + found[2] / 2 + 2.0
    if values.endswith("_mix"):
        entries = json.loads(Path("bench/presets.json").read_text(encoding="utf-8"))["entries"]
        scores = np.array([entry["tasks"][values]["scores"] for entry in entries[:3]])
        found[:3] = scores[:, generator.integers(scores.shape[1], size=shape)]
    found[3] = generator.lognormal(0.0, 0.5, shape)
    return found


def coverage(row: tuple[str, str], samples: int) -> list[str]:
    """Return the cells of a statistic and values: one of each number of draws."""
    (interval, number), values = STATISTICS[row[0]], row[1]
    truth, cells = float(number(draw(values, np.random.default_rng(0), 2_000_000))), []
    for size in SIZES:
        generator, held = np.random.default_rng([1, size]), []
        drawn, indices = draw(values, generator, samples, size), generator.integers(size, size=(2000, size))
        scores = Scores({f"{name}{i}": drawn[at, i] for at, name in enumerate("abcw") for i in range(samples)})
        for i in range(samples):
            estimate = interval(scores, i)
            low, high = np.quantile(number(drawn[:, i, indices]), (0.025, 0.975))
            if not np.isnan(estimate.low):
                held.append((estimate.low <= truth <= estimate.high, low <= truth <= high))
        cells.append(" / ".join(f"{share:.1f}" for share in 100 * np.mean(held, axis=0)) if held else "-")
    return cells


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--samples", type=int, default=1000, help="of each cell (default: 1000)")
    parser.add_argument("--jobs", type=int, default=2, help="rows at once (default: 2)")
    options = parser.parse_args()
    rows = list(product(STATISTICS, VALUES))
    with ProcessPoolExecutor(options.jobs) as pool:
        cells = pool.map(partial(coverage, samples=options.samples), rows)
        table = [[*row, *own] for row, own in zip(rows, cells, strict=True)]
    print(f"`{command()}`, {measured_on()}\n\n{markdown_table(['', '', *map(str, SIZES)], table)}")


if __name__ == "__main__":
    main()
