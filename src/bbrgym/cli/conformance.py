# SPDX-License-Identifier: GPL-2.0-only
"""``bbrgym conformance``."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from bbrgym.cli.terminal import BarState, print_results, progress_bar
from bbrgym.conformance.page import verdict_line, verdicts_text, write_verdicts
from bbrgym.conformance.verdicts import SENDERS, draft_verdicts, select_cases
from bbrgym.errors import ConfigError, SweepError, nearest

DESCRIPTION = """\
Runs the test cases of draft-ietf-ccwg-bbr-06 as scenarios at several RTTs and rates, and checks the sender's state
ACK by ACK: phase, bounds, bandwidth, rounds. Prints the verdicts case by case, and of each run that did not pass the
first moment at which a statement failed. bbr3 is google/bbr's code, bbr3-draft the draft where the two differ. Exit
code 1: a statement failed without a known reason.

examples:
  bbrgym conformance
  bbrgym conformance bbr3-draft --case drain-inflight --world ns3
  bbrgym conformance bbr3 bbr3-draft bbr2 bbr --write docs/conformance.md
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("senders", nargs="*", metavar="CC", help=f"{', '.join(SENDERS)}; default: bbr3 and bbr3-draft")
    parser.add_argument("--case", nargs="+", metavar="NAME", default=[], help="default: all")
    parser.add_argument("--world", choices=("twin", "ns3"), default="twin", help="default: twin")
    parser.add_argument("--seed", type=int, default=1, help="of all random numbers; default: 1")
    parser.add_argument("--write", metavar="PAGE", type=Path, help="page whose verdicts are replaced")


def run(options: argparse.Namespace) -> None:
    """Run the cases, print the verdicts and write them into a page."""
    names = options.senders or ["bbr3", "bbr3-draft"]
    for name in names:
        if name not in SENDERS:
            raise ConfigError(f"CC: is {name!r}; {nearest(name, SENDERS)}")
    total, verdicts = len(names) * sum(len(case.conditions) for case in select_cases(options.case)), []
    with progress_bar(lambda done: BarState(done, total, f"{done}/{total} runs")) as show:
        for name in names:
            for one in draft_verdicts(SENDERS[name], options.case, world=options.world, seed=options.seed):
                verdicts.append(one)
                show(len(verdicts))
    if options.write is not None:
        write_verdicts(options.write, verdicts, shlex.join(["bbrgym", *sys.argv[1:]]))
    print_results(*(verdict_line(one) for one in verdicts if one.outcome != "passed"), verdicts_text(verdicts))
    failed = sum(one.outcome == "failed" for one in verdicts)
    if failed:
        raise SweepError(f"{failed} of {total} runs fail without a known reason")
