# SPDX-License-Identifier: GPL-2.0-only
"""``bbrgym report``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bbrgym.cli.plain_command import Words
from bbrgym.cli.polars_threads import start_polars

DESCRIPTION = """\
Writes the tables, figures and page of a multirun (bbrgym train -m, bbrgym evaluate -m) again, from the folders of
the jobs that have ended so far, and prints the tables.

example:
  bbrgym report runs/multirun
"""
WORDS = Words("DIR")


def run(words: Sequence[str], given: Sequence[str]) -> None:  # noqa: ARG001
    """Write the report and print the tables."""
    from bbrgym.cli.many_runs import show
    from bbrgym.sweeps.multirun import report_multirun

    start_polars()
    folder = Path(words[0])
    show(folder, report_multirun(folder))
