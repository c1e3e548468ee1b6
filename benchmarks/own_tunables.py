# SPDX-License-Identifier: GPL-2.0-only
"""Gains of each variant with its own tunables alone over its published setting, on held-out draws.

usage: python benchmarks/own_tunables.py RULE... [--draws 200] [--first-draw 0] [--world twin] [--write PAGE]

RULE is a run folder of `bbrgym train experiment=wan_per_flow variant=NAME 'action.tunables=[...]' agent.start=FIXED`,
or of `experiment=wan_flow_portfolio` with `'agent.start=[FIXED]'`, and FIXED that of the search for its fixed setting,
`agent.policy=fixed`. Intervals are by bootstrap over draws.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from report import Bystanders, command, measured_on, parser_of_runs, replace_section

from bbrgym.agents.training.folder import TrainingFolder
from bbrgym.agents.training.settings import parse_training
from bbrgym.evaluate.evaluation import run_evaluation
from bbrgym.report.markdown import markdown_table

HEADS = ("variant", "tunables", "fixed setting over published", "rule over published", "rule over fixed setting")


def main() -> None:
    """Print the section, and write it into a page."""
    asked = parser_of_runs(__doc__, "RULE").parse_args()
    bystanders = Bystanders()
    table = markdown_table(HEADS, [row(run, asked) for run in asked.runs])
    section = (
        f"`{command()}`, {measured_on()}; {bystanders.phrase()}. Draws {asked.first_draw} to "
        f"{asked.first_draw + asked.draws - 1} of the test split.\n\n{table}"
    )
    print(section)
    if asked.write:
        replace_section(asked.write, "own-tunables", section + "\n", "cc tcp twin world envs agents conf/scenario")


def row(run: Path, asked: argparse.Namespace) -> Sequence[str]:
    """Return the gains of a rule, and of the fixed setting that it started from."""
    training = TrainingFolder(run).read_request(parse_training)
    settings = {
        "variants": [training.variant],
        "world": asked.world,
        "split": "test",
        "draws": asked.draws,
        "first_draw": asked.first_draw,
    }
    start = training.agent["start"]
    agents = {"rule": str(run), "searched": start if isinstance(start, str) else start[0]}
    scores = run_evaluation(training.source, settings, agent=agents).rankings[0].scores
    by_kind = {name.split()[0]: name for name in scores.names}
    pairs = (("searched", training.variant), ("rule", training.variant), ("rule", "searched"))
    gains = [scores.difference(by_kind[one], by_kind[other]).text(3, "+") for one, other in pairs]
    return training.variant, ", ".join(training.action["tunables"]), *gains


if __name__ == "__main__":
    main()
