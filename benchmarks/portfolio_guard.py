# SPDX-License-Identifier: GPL-2.0-only
"""The price of a portfolio's guard, and what it gains where networks leave the training's range.

usage: python benchmarks/portfolio_guard.py RUN [--draws 160] [--share 0.02] [--write docs/training.md]

RUN is a run folder of `bbrgym train agent=portfolio scenario=wan_mix`. The guard is fitted on the probes that it
kept. Each draw is probed in the twin, then runs with every setting of the library from the end of the probe on, so that
the selector, the guarded selector and the best fixed setting are compared on the same runs. No draw was trained on.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
import torch
from portfolio_run import load_portfolio, parser_of
from report import Bystanders, command, measured_on, replace_section

from bbrgym.agents.portfolio.draws import TrainingDraw
from bbrgym.agents.portfolio.guard import GuardSettings, fitted_guard
from bbrgym.agents.portfolio.parts import parts_of
from bbrgym.agents.portfolio.policy import PortfolioAgent
from bbrgym.agents.portfolio.probe import ProbePart, histories
from bbrgym.agents.portfolio.tasks import TrainingConditions
from bbrgym.evaluate.statistics import bootstrap_mean
from bbrgym.scenario.distribution import Distribution, load_distribution
from bbrgym.scenario.files import read_scenario
from bbrgym.worlds import WorldSettings
from bbrgym.worlds.score import DEFAULT_DELTA

_FIRST_SEED = 2**30
_BEYOND: Mapping[str, Mapping[str, Any]] = {
    "slower than trained, 0.2 to 1 Mbit/s": {"capacity_mbps": {"log_uniform": [0.2, 1.0]}},
    "faster than trained, 200 to 400 Mbit/s": {"capacity_mbps": {"log_uniform": [200, 400]}},
    "longer RTTs than trained, 200 to 600 ms": {
        "shortest_rtt_ms": {"log_uniform": [200, 400]},
        "longest_rtt_ms": {"log_uniform": [1, 2], "times": "shortest_rtt_ms", "high": 600},
    },
}


def main() -> None:
    """Print the section, and write it into a page."""
    parser = parser_of(__doc__)
    parser.add_argument("--draws", type=int, default=160)
    parser.add_argument("--share", type=float, default=0.02)
    asked = parser.parse_args()
    bystanders = Bystanders()
    agent, options = load_portfolio(asked.run)
    kept = pl.concat([pl.read_parquet(path) for path in sorted((asked.run / "states").glob("probe-*.parquet"))])
    guard = fitted_guard(features_of(agent, kept), GuardSettings(share=asked.share))
    conditions = TrainingConditions(options, WorldSettings(), DEFAULT_DELTA)
    rows = []
    for name, distribution in distributions().items():
        draws = [TrainingDraw(distribution(seed), seed, 1.0) for seed in range(_FIRST_SEED, _FIRST_SEED + asked.draws)]
        parts = [
            ProbePart(conditions, part, agent.routine.setting, agent.routine.intervals, agent.library)
            for part in parts_of(draws)
        ]
        table = pl.concat([part(None) for part in parts])
        features, scores = features_of(agent, table), np.array(table["scores"].to_list())
        choices = agent.looks[0].selector.choices(features)
        is_outside = guard(features).numpy() > 0
        free = scores[np.arange(len(scores)), choices] - scores[:, 0]
        held = np.where(is_outside, 0.0, free)
        cells = [bootstrap_mean(free), bootstrap_mean(held), bootstrap_mean(held - free)]
        shown = " | ".join(f"{one.value:+.3f} [{one.low:+.3f}, {one.high:+.3f}]" for one in cells)
        rows.append(f"| {name} | {100 * is_outside.mean():.0f} % | {shown} |")
        print(rows[-1], flush=True)
    section = (
        f"`{command()}`, {measured_on()}; {bystanders.phrase()}. {asked.draws} draws of each, {len(kept)} probes "
        "of the training. Mean score minus that of the best fixed setting, and its 95 % interval over the draws.\n\n"
        "| networks | outside | selector | guarded | guarded minus selector |\n| --- | --- | --- | --- | --- |\n"
    )
    section += "\n".join(rows) + "\n"
    if asked.write:
        replace_section(asked.write, "guard", section)


def distributions() -> dict[str, Distribution]:
    """Return those of the training, the other shipped ones, and three beyond the training's ranges."""
    found = {name: load_distribution(name) for name in ("wan_mix", "lossy_mix", "rtt_pairs", "with_cubic")}
    for name, variables in _BEYOND.items():
        fields = copy.deepcopy(read_scenario("wan_mix"))
        fields["variables"] = {**fields["variables"], **variables}
        found[name] = Distribution(fields)
    return found


def features_of(agent: PortfolioAgent, table: pl.DataFrame) -> torch.Tensor:
    """Return the features of probes."""
    with torch.no_grad():
        features: torch.Tensor = agent.looks[0].features(
            histories(table, agent.routine.intervals, agent.routine.width)[0]
        )
    return features


if __name__ == "__main__":
    main()
