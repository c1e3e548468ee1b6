# SPDX-License-Identifier: GPL-2.0-only
"""``bbrgym conformance``."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from bbrgym.cli.terminal import BarState, new_run_dir, print_results, print_run_folder, progress_bar, take_output_dir
from bbrgym.conformance.conformance_run import (
    Conformance,
    ConformanceFolder,
    ConformanceProgress,
    parse_conformance,
    run_conformance,
)
from bbrgym.conformance.findings import failures
from bbrgym.conformance.report import conformance_tables, write_conformance_docs, write_conformance_report
from bbrgym.errors import SweepError

DESCRIPTION = """\
Runs the test cases of draft-ietf-ccwg-bbr-06 as scenarios at several RTTs and rates, and checks the sender's state
ACK by ACK: phase, bounds, bandwidth, rounds. Prints for each case and condition whether it passed, or the first moment
at which a statement failed; writes a run folder with the table and a trace of each run. bbr3 is run as google/bbr
(reading=code) and as the draft where the two differ (reading=draft). Exit code 1: a statement failed without a known
reason.

examples:
  bbrgym conformance
  bbrgym conformance cc=bbr3 reading=draft case=drain-inflight
  bbrgym conformance 'world=[twin,ns3]' 'cc=[bbr3,bbr2,bbr]' output_dir=runs/conformance
"""

MODELS = (Conformance,)


def run(options: argparse.Namespace) -> None:
    """Run the cases, write the run folder, and print the tables.

    Raises:
        SweepError: a statement failed without a known reason, or a run broke.
    """
    config = dict(options.config)
    path = take_output_dir(config, options.run_dir)
    docs = config.pop("docs")
    asked = parse_conformance(config)
    folder = ConformanceFolder(path or new_run_dir("conformance"))
    command = shlex.join(["bbrgym", "conformance", *options.overrides])
    with folder.opened(resume=False):
        with progress_bar(_shown) as show:
            findings = run_conformance(asked, folder, show)
        write_conformance_report(folder.path, findings)
    if docs is not None:
        write_conformance_docs(Path(str(docs)), findings, command)
    print_results(*conformance_tables(findings))
    print_run_folder(folder.path, has_page=False)
    failed = failures(findings)
    if len(failed):
        lines = [f"{len(failed)} of {len(findings)} findings are failures without a known reason"]
        lines += [f"  {row['trace'] or row['case']}: {row['statement'] or row['reason']}" for row in failed.to_dicts()]
        raise SweepError("\n".join(lines))


def _shown(progress: ConformanceProgress) -> BarState:
    failed = f"{progress.failed} failed" if progress.failed else ""
    return BarState(progress.ended, progress.total, f"{progress.ended}/{progress.total} runs", failed)
