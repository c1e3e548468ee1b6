# SPDX-License-Identifier: GPL-2.0-only
"""Digests of behaviour: what a page measured is stale if the digest of a short run of it has changed.

A digest is of scenarios and entrants in the twin, e.g. ``steady wan_mix / bbr bbq shipped/fixed``: of goodput, RTT and
retransmissions of each flow in the first seconds of a scenario, and of the scores on ten test draws of a distribution.
"""

from __future__ import annotations

import hashlib

import polars as pl

from bbrgym.evaluate.evaluation import run_evaluation
from bbrgym.evaluate.records import FIXED
from bbrgym.scenario.files import load_scenario
from bbrgym.scenario.model import Scenario
from bbrgym.scenario.shipped import distribution_names
from bbrgym.tunables import VARIANTS
from bbrgym.worlds import FAST_WORLD

_DRAWS = 10
_SECONDS = 10.0  # simulated, of a scenario at most
_DIGITS = 6  # of each value: fewer than a network's floats have on every machine
_ABOUT = ("scenario", "variant", "agent", "seed", "flow")


def behaviour_digest(of: str) -> str:
    """Return ten hexadecimal digits that change with the behaviour of entrants on scenarios.

    Raises:
        ConfigError: there is no such scenario or entrant.
        MissingExtraError: an agent needs a package that is not installed.
    """
    scenarios, _, entrants = of.partition(" / ")
    variants = [name for name in entrants.split() if name in VARIANTS]
    agents = [name for name in entrants.split() if name not in VARIANTS]
    digest = hashlib.sha256()
    for name in scenarios.split():
        is_drawn = name in distribution_names()
        settings = {"variants": variants, "world": FAST_WORLD, **({"draws": _DRAWS} if is_drawn else {"seeds": [1]})}
        results = run_evaluation(name if is_drawn else _short(name), settings, agent=agents or FIXED)
        values = ("score",) if is_drawn else ("goodput_mbps", "rtt_mean_ms", "retransmit_rate")
        rows = results.summary.select(*_ABOUT, pl.col(*values).round_sig_figs(_DIGITS))
        digest.update(rows.write_csv().encode())
    return digest.hexdigest()[:10]


def _short(name: str) -> Scenario:
    """Return the first seconds of a scenario."""
    whole = load_scenario(name)
    times = {"duration_s": min(whole.duration_s, _SECONDS), "warmup_s": 0.0}
    return load_scenario({**whole.model_dump(exclude_none=True), **times, "checks": []})


def behaviour_mark(of: str) -> str:
    """Return the comment that stands above what a page measured, for docs/stale.py."""
    return f"<!-- measured {behaviour_digest(of)}: {of} -->"
