# SPDX-License-Identifier: GPL-2.0-only
"""The price of a portfolio's guard, and what it gains where networks leave the training's range.

usage: python benchmarks/portfolio_guard.py RUN [--draws 160] [--share 0.02] [--recordings DIR]
    [--write docs/training.md]

RUN is a run folder of `bbrgym train agent=portfolio scenario=wan_mix`. The guard is fitted on the probes that it
kept. Each draw is probed in the twin, then runs with every setting of the library from the end of the probe on, so that
the selector, the guarded selector and the best fixed setting are compared on the same runs. No draw was trained on.
DIR holds recordings of cellular links in Mahimahi's format, *.down; without it the links that follow one have the
package's own recordings and its synthetic one alone.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from portfolio_run import load_portfolio, parser_of
from report import Bystanders, command, measured_on, replace_section

from bbrgym.agents.portfolio.guard import GuardSettings, fitted_guard
from bbrgym.agents.portfolio.parts import parts_of
from bbrgym.agents.portfolio.policy import PortfolioAgent
from bbrgym.agents.portfolio.probe import ProbePart, histories
from bbrgym.agents.portfolio.tasks import TrainingConditions
from bbrgym.agents.training.draws import TrainingDraw
from bbrgym.evaluate.statistics import bootstrap_mean
from bbrgym.scenario.distribution import Distribution, load_distribution
from bbrgym.scenario.files import read_scenario
from bbrgym.worlds import WorldSettings
from bbrgym.worlds.score import DEFAULT_DELTA

_FIRST_SEED = 2**30
_SHIPPED = ("wan_mix", "lossy_mix", "rtt_pairs", "with_cubic")
_RECORDINGS = ("bbrgym:synthetic-lte.down", "bbrgym:lte.down", "bbrgym:wifi.down")
_STEPS_S = (4, 8, 12, 16, 20, 24)
_BEYOND: Mapping[str, Mapping[str, Any]] = {  # fields of wan_mix that are others there
    "slower than trained, 0.2 to 1 Mbit/s": {"variables.capacity_mbps": {"log_uniform": [0.2, 1.0]}},
    "faster than trained, 200 to 400 Mbit/s": {"variables.capacity_mbps": {"log_uniform": [200, 400]}},
    "longer RTTs than trained, 200 to 600 ms": {
        "variables.shortest_rtt_ms": {"log_uniform": [200, 400]},
        "variables.longest_rtt_ms": {"log_uniform": [1, 2], "times": "shortest_rtt_ms", "high": 600},
    },
    "capacity in six steps, a quarter to four times": {
        "link.changes": [
            {"at_s": at_s, "rate_mbps": {"log_uniform": [0.25, 4], "times": "capacity_mbps"}} for at_s in _STEPS_S
        ]
    },
    "beside one or two flows of BBRv3": {"flows.1.cc": "bbr3", "flows.1.number": {"integer": [1, 2]}},
    "beside three to five flows of CUBIC": {"flows.1.number": {"integer": [3, 5]}},
}


def main() -> None:
    """Print the section, and write it into a page."""
    parser = parser_of(__doc__)
    parser.add_argument("--draws", type=int, default=160)
    parser.add_argument("--share", type=float, default=0.02)
    parser.add_argument("--recordings", type=Path, metavar="DIR")
    asked = parser.parse_args()
    bystanders = Bystanders()
    agent, options = load_portfolio(asked.run)
    kept = pl.concat([pl.read_parquet(path) for path in sorted((asked.run / "states").glob("probe-*.parquet"))])
    guard = fitted_guard(features_of(agent, kept), GuardSettings(share=asked.share))
    conditions = TrainingConditions(options, WorldSettings(), DEFAULT_DELTA)
    rows = []
    for name, distribution in distributions(asked.recordings).items():
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
        outside, worse = (f"{100 * one.mean():.0f} %" for one in (is_outside, free < 0))
        rows.append(f"| {name} | {outside} | {worse} | {shown} |")
        print(rows[-1], flush=True)
    section = (
        f"`{command()}`, {measured_on()}; {bystanders.phrase()}. {asked.draws} draws of each, {len(kept)} probes "
        "of the training. Mean score minus that of the best fixed setting, and its 95 % interval over the draws.\n\n"
        "| networks | outside | worse on | selector | guarded | guarded minus selector |\n"
        "| --- | --- | --- | --- | --- | --- |\n"
    )
    section += "\n".join(rows) + "\n"
    if asked.write:
        replace_section(asked.write, "guard", section)


def distributions(recordings: Path | None) -> dict[str, Distribution]:
    """Return the shipped ones, that of the training first, and those beyond the training's range."""
    found = {name: load_distribution(name) for name in _SHIPPED}
    fields = read_scenario("wan_mix")
    found |= {name: Distribution(changed(fields, values)) for name, values in _BEYOND.items()}
    own = [] if recordings is None else [str(path.resolve()) for path in sorted(recordings.glob("*.down"))]
    queue = {"kind": "droptail", "size_bdp": {"log_uniform": [0.5, 10]}}
    link = {"trace_path": {"choice": [*_RECORDINGS, *own]}, "delay_ms": 1.0, "queue": queue}
    return {**found, "a rate that follows a recording of a radio": Distribution({**fields, "link": link})}


def changed(fields: Any, values: Mapping[str, Any]) -> Any:
    """Return a scenario's fields with others at some dotted paths."""
    fields = copy.deepcopy(fields)
    for path, value in values.items():
        *outer, last = path.split(".")
        place = fields
        for name in outer:
            place = place[int(name) if isinstance(place, list) else name]
        place[last] = value
    return fields


def features_of(agent: PortfolioAgent, table: pl.DataFrame) -> torch.Tensor:
    """Return the features of probes."""
    with torch.no_grad():
        features: torch.Tensor = agent.looks[0].features(
            histories(table, agent.routine.intervals, agent.routine.width)[0]
        )
    return features


if __name__ == "__main__":
    main()
