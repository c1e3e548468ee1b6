# SPDX-License-Identifier: GPL-2.0-only
"""Trainings of a portfolio against the references of their own libraries, and all of them together.

usage: python benchmarks/portfolio_seeds.py RUN... [--scenario wan_mix] [--draws 200] [--first-draw 0] [--world twin]
    [--write docs/results.md]

Each RUN is a run folder of `bbrgym train agent=portfolio`, of the same settings but for the seed. On draws of the test
split it compares the portfolio with the first setting of its library, the best fixed one of its training; with the
portfolio that is given the true parameters; and with its library's oracle, which chooses on other runs of the network.
The intervals of the last row are by bootstrap over draws and trainings.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from report import Bystanders, command, measured_on, parser_of_runs, publish

from bbrgym.evaluate.evaluation import run_evaluation
from bbrgym.evaluate.statistics import Scores
from bbrgym.report.markdown import markdown_table

REFERENCES = ("library-best", "privileged", "library-oracle")
FIXED = "the best fixed setting"
ALL = "all of them"


def main() -> None:
    """Print the section, and write it into a page."""
    parser = parser_of_runs(__doc__, "RUN")
    parser.add_argument("--scenario", default="wan_mix")
    asked = parser.parse_args()
    bystanders = Bystanders()
    of_runs = [gains(run, asked) for run in asked.runs]
    rows = [row_of(run.name, one) for run, one in zip(asked.runs, of_runs, strict=True)]
    if len(of_runs) > 1:
        pooled = {name: np.concatenate([one[name] for one in of_runs]) for name in of_runs[0].names if name != FIXED}
        rows.append(row_of(ALL, Scores({**pooled, FIXED: of_runs[0][FIXED]})))
    section = (
        f"`{command()}`, {measured_on()}; {bystanders.phrase()}. Draws {asked.first_draw} to "
        f"{asked.first_draw + asked.draws - 1} of the test split of `{asked.scenario}`. Mean scores minus that of the "
        "best fixed setting of each training, and 95 % intervals.\n\n"
    ) + markdown_table(
        ["training", "portfolio", "given the true parameters", "library oracle", "share of the gap, %"], rows
    )
    publish(asked.write, "portfolio-seeds", section, f"{asked.scenario} / bbr-mix shipped/fixed shipped/wan")


def gains(run: Path, asked: argparse.Namespace) -> Scores:
    """Return the scores of a portfolio and its references less that of its best fixed setting, [1, draws] each."""
    settings = {"variants": [], "world": asked.world, "split": "test", "interval_s": 0.5}
    settings |= {"draws": asked.draws, "first_draw": asked.first_draw}
    agents = {"portfolio": str(run), **{name: f"{name}:{run}" for name in REFERENCES}}
    outcome = run_evaluation(asked.scenario, settings, agent=agents)
    scores = outcome.rankings[0].scores
    found = {name.split()[0]: scores[name] for name in scores.names}
    fixed = found.pop("library-best")
    return Scores({**{name: one - fixed for name, one in found.items()}, FIXED: np.zeros_like(fixed)})


def row_of(name: str, scores: Scores) -> list[str]:
    """Return the table's row of a training, or of all."""
    above = [scores.difference(one, FIXED).text(3, "+") for one in ("portfolio", "privileged", "library-oracle")]
    share = scores.gap_closed("portfolio", FIXED, "library-oracle")
    return [name, *above, f"{100 * share.value:.1f} [{100 * share.low:.0f}, {100 * share.high:.0f}]"]


if __name__ == "__main__":
    main()
