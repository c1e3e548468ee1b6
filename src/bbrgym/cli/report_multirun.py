# SPDX-License-Identifier: GPL-2.0-only
"""``bbrgym report``."""

from __future__ import annotations

import argparse
from pathlib import Path

from bbrgym.cli.polars_threads import start_polars

DESCRIPTION = """\
Writes the tables, figures and page of a multirun (bbrgym train -m, bbrgym evaluate -m) again, from the folders of
the jobs that have ended so far, and prints the tables.

example:
  bbrgym report runs/multirun
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("folder", metavar="DIR", help="folder of a multirun, hydra.sweep.dir")


def run(options: argparse.Namespace) -> None:
    """Write the report and print the tables."""
    from bbrgym.cli.many_runs import show
    from bbrgym.sweeps.multirun import report_multirun

    start_polars()
    folder = Path(options.folder)
    show(folder, report_multirun(folder))
