# SPDX-License-Identifier: GPL-2.0-only
"""``bbrgym explain``."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from bbrgym.cli.polars_threads import start_polars
from bbrgym.cli.terminal import print_results, print_run_folder

DESCRIPTION = """\
Says what a trained agent does: how much its actions and its score change if a feature is that of another episode. A
page shows one episode.

example:
  bbrgym explain runs/mine
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("run_dir", metavar="RUN_DIR", help="run folder of bbrgym train")
    parser.add_argument("--checkpoint", default="best", help="best or last (default: best)")
    parser.add_argument("--draws", type=int, default=40, help="episodes that it acts in (default: 40)")


def run(options: argparse.Namespace) -> None:
    """Print an explanation of the agent, and write the page to RUN_DIR/explained."""
    from bbrgym.agents.explanation.explanation import explain  # imports PyTorch, which few commands need
    from bbrgym.report.explanation_report import sentences, shuffled_table, write_explanation

    start_polars()
    explanation = explain(options.run_dir, checkpoint=options.checkpoint, draws=options.draws)
    folder = Path(options.run_dir) / "explained"
    given = ["--checkpoint", options.checkpoint, "--draws", str(options.draws)]
    write_explanation(folder, explanation, shlex.join(["bbrgym", "explain", options.run_dir, *given]))
    print_results(sentences(explanation), "", shuffled_table(explanation))
    print_run_folder(folder, "folder")
