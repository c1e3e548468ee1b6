# SPDX-License-Identifier: GPL-2.0-only
"""``bbrgym reproduce``."""

from __future__ import annotations

import argparse
import shlex
import time
from collections.abc import Sequence
from pathlib import Path

from bbrgym.cli.terminal import (
    advice_on_interrupt,
    new_run_dir,
    print_results,
    print_run_folder,
    refuse_unfinished,
    runs_bar,
    take_run_dir,
)
from bbrgym.config.overrides import override_of, parse_override
from bbrgym.papers.launched_experiments import launch_experiments
from bbrgym.papers.report import effort_text, papers_tables, write_papers_docs, write_papers_report
from bbrgym.papers.reproduction import ReproductionFolder, prepare_reproduction
from bbrgym.papers.request import Reproduction, parse_reproduction
from bbrgym.papers.results import ReproducedExperiment
from bbrgym.worlds import refuse_found_programs

DESCRIPTION = """\
Runs experiments of the papers, conf/experiment/<paper>/<figure or table>.yaml, and prints each published number beside
what is measured: the mean over seeds with its 95 % interval, the ratio and a verdict (agrees: within the published
spread or 10 %; shape: order and trend hold; no; of a testbed's numbers inside the range of its runs, near it or no).
Of a draft's questions it prints what each choice changes beside the first one.
Writes a run folder with each figure redrawn over the published points. A run that breaks is reported and does not
affect the others; resume=DIR goes on with the reproduction that DIR holds and tries it again. stack gives every sender
another stack. With hydra/launcher=joblib, submitit_slurm or ray each experiment is a job of that launcher.

examples:
  bbrgym reproduce experiment=bbq/fig13
  bbrgym reproduce paper=nyu
  bbrgym reproduce paper=draft
  bbrgym reproduce paper=rebbr seeds=10 output_dir=runs/rebbr
  bbrgym reproduce experiment=bbq/fig13 'world=[twin,ns3]'
  bbrgym reproduce paper=rebbr stack=ns3 output_dir=runs/rebbr-ns3
  bbrgym reproduce paper=rebbr 'stack={pacing: fq}' output_dir=runs/rebbr-paced
  bbrgym reproduce resume=runs/rebbr
"""

MODELS = (Reproduction,)


def run(options: argparse.Namespace) -> None:
    """Run the experiments, write the run folder with its report, and print the tables."""
    config = dict(options.config)
    path, resume = take_run_dir(config, options.run_dir)
    docs = config.pop("docs")
    folder = ReproductionFolder(path or new_run_dir("reproduce"))
    asked = parse_reproduction(config)
    if resume and folder.has_config():
        asked = _resumed(asked, folder, [parse_override(text).key_or_group for text in options.overrides])
    prepared = prepare_reproduction(asked)
    command = shlex.join(["bbrgym", "reproduce", *options.overrides])
    given_up: dict[str, str] = {}
    with (
        advice_on_interrupt(folder, "reproduce", override_of("resume", str(folder.path))),
        folder.opened(resume=resume),
    ):
        if options.launch is not None:
            given_up = launch_experiments(prepared, folder, options.launch)
        began_s = time.monotonic()
        with runs_bar() as show:
            results = prepared.run(folder, show, given_up)
        elapsed_s = time.monotonic() - began_s
        write_papers_report(folder.path, results, asked.stack_text, command)
    if docs is not None:
        ran_here = not resume and options.launch is None
        effort = effort_text(results, elapsed_s, asked.parallel_runs) if ran_here else ""
        write_papers_docs(Path(str(docs)), results, asked.stack_text, command, effort)
    print_results(*papers_tables(results, asked.stack_text))
    print_run_folder(folder.path)
    _refuse_failures(folder, results)


def _refuse_failures(folder: ReproductionFolder, results: Sequence[ReproducedExperiment]) -> None:
    """Check that no run broke.

    Raises:
        SweepError: names the runs that did, and why.
    """
    broken = [f"{run.case.job.key}: {run.reason}" for one in results for run in one.failures]
    runs = sum(one.runs for one in results)
    refuse_unfinished(broken, f"of {runs} runs", ["reproduce", override_of("resume", str(folder.path))])


def _resumed(asked: Reproduction, folder: ReproductionFolder, given: list[str]) -> Reproduction:
    """Return the request of the folder, with what is given now in its place; the folder refuses what differs."""
    stored = folder.read_request(parse_reproduction)
    keys = {key.split(".")[0] for key in given}
    if "world" not in keys:
        refuse_found_programs(stored.world)
    return stored.model_copy(update={name: getattr(asked, name) for name in Reproduction.model_fields if name in keys})
