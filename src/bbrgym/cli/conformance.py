# SPDX-License-Identifier: GPL-2.0-only
"""``bbrgym conformance``."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from pathlib import Path

from bbrgym.cli.composition import compose_config
from bbrgym.cli.plain_command import Words
from bbrgym.cli.terminal import BarState, print_results, progress_bar
from bbrgym.conformance.page import verdict_line, verdicts_text, write_verdicts
from bbrgym.conformance.verdicts import SENDERS, draft_verdicts, select_cases
from bbrgym.errors import ConfigError, SweepError, nearest
from bbrgym.worlds import check_seed

DESCRIPTION = """\
Runs the test cases of draft-ietf-ccwg-bbr-06 as scenarios at several RTTs and rates, and checks the sender's state
ACK by ACK: phase, bounds, bandwidth, rounds. Prints the verdicts case by case, and of each run that did not pass the
first moment at which a statement failed. CC is bbr3 (google/bbr's code), bbr3-draft (the draft where the two differ),
bbr2 or bbr; default: the first two. Exit code 1: a statement failed without a known reason.

examples:
  bbrgym conformance
  bbrgym conformance bbr3-draft case=drain-inflight world=ns3
  bbrgym conformance bbr3 bbr3-draft bbr2 bbr write=docs/own_control.md
"""
WORDS = Words("[CC ...]", 0, math.inf)


def run(words: Sequence[str], given: Sequence[str]) -> None:
    """Run the cases, print the verdicts and write them into a page."""
    names, config = words or ["bbr3", "bbr3-draft"], compose_config("conformance", given)
    chosen, world, seed = config["case"], config["world"], check_seed(config["seed"])
    cases = [chosen] if isinstance(chosen, str) else chosen
    if world not in ("twin", "ns3"):
        raise ConfigError(f"world: is {world!r}; allowed are twin and ns3")
    for name in names:
        if name not in SENDERS:
            raise ConfigError(f"CC: is {name!r}; {nearest(name, SENDERS)}")
    total, verdicts = len(names) * sum(len(case.conditions) for case in select_cases(cases)), []
    with progress_bar(lambda done: BarState(done, total, f"{done}/{total} runs")) as show:
        for name in names:
            for one in draft_verdicts(SENDERS[name], cases, world=world, seed=seed):
                verdicts.append(one)
                show(len(verdicts))
    if config["write"] is not None:
        command = shlex.join(["bbrgym", "conformance", *words, *given])
        write_verdicts(Path(str(config["write"])), verdicts, command)
    print_results(*(verdict_line(one) for one in verdicts if one.outcome != "passed"), verdicts_text(verdicts))
    failed = sum(one.outcome == "failed" for one in verdicts)
    if failed:
        raise SweepError(f"{failed} of {total} runs fail without a known reason")
