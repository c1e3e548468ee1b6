# SPDX-License-Identifier: GPL-2.0-only
"""``bbrgym reproduce``."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from bbrgym.cli.terminal import (
    advice_on_interrupt,
    check_finished,
    new_run_dir,
    print_results,
    print_run_folder,
    runs_bar,
    take_run_dir,
)
from bbrgym.config.overrides import override_of, parse_override
from bbrgym.papers.page import write_papers_docs
from bbrgym.papers.reproduction import Reproduction, ReproductionFolder, parse_reproduction, prepare_reproduction
from bbrgym.papers.tables import tables_of
from bbrgym.report.tables import plain_text
from bbrgym.runs.atomic_files import write_text
from bbrgym.worlds import check_no_programs

DESCRIPTION = """\
Runs experiments of the papers, conf/experiment/<paper>/<figure or table>.yaml, and prints each published number beside
what is measured: the mean over seeds with its 95 % interval, the ratio and a verdict (agrees: within the published
spread or 10 %; shape: order and trend hold; no; of a testbed's numbers inside the range of its runs, near it or no).
Of a draft's questions it prints what each choice changes beside the first one. Writes a run folder with the tables.
A run that breaks is reported and does not affect the others; resume=DIR goes on with the reproduction that DIR holds
and tries it again.

examples:
  bbrgym reproduce experiment=bbq/fig13
  bbrgym reproduce paper=nyu
  bbrgym reproduce paper=draft
  bbrgym reproduce paper=rebbr seeds=10 output_dir=runs/rebbr
  bbrgym reproduce experiment=bbq/fig13 'world=[twin,ns3]'
  bbrgym reproduce -m paper=bbq,rebbr hydra/launcher=joblib hydra.sweep.dir=runs/papers    (a job for each)
  bbrgym reproduce resume=runs/rebbr
"""

MODELS = (Reproduction,)


def run(options: argparse.Namespace) -> None:
    """Run the experiments, write the run folder, and print the tables. Raises SweepError: runs broke."""
    config = dict(options.config)
    path, resume = take_run_dir(config, options.run_dir)
    docs = config.pop("docs")
    folder = ReproductionFolder(path or new_run_dir("reproduce"))
    asked = parse_reproduction(config)
    if resume and folder.has_config():
        asked = _resumed(asked, folder, [parse_override(text).key_or_group for text in options.overrides])
    prepared = prepare_reproduction(asked)
    again = ("reproduce", override_of("resume", str(folder.path)))
    with advice_on_interrupt(folder, *again), folder.opened(resume=resume):
        with runs_bar() as show:
            results = prepared.run(folder, show)
        experiments = [one.experiment for one in prepared.experiments]
        tables = list(tables_of(experiments, results.numbers))
        write_text(folder.path / "summary.txt", plain_text(tables))
    if docs is not None:
        runs = f"{prepared.runs:,} runs of {prepared.duration_s:,.0f} simulated s"
        source = f"`{shlex.join(['bbrgym', 'reproduce', *options.overrides])}` ({runs})"
        write_papers_docs(Path(str(docs)), results.numbers, experiments, source)
    print_results(*tables)
    print_run_folder(folder.path, has_page=False)
    broken = [f"{key}: {reason}" for key, reason in results.failures.items()]
    check_finished(broken, f"of {prepared.runs} runs", again)


def _resumed(asked: Reproduction, folder: ReproductionFolder, given: list[str]) -> Reproduction:
    """Return the folder's request, updated by what is given now; the folder refuses what differs."""
    stored = folder.read_request(parse_reproduction)
    keys = {key.split(".")[0] for key in given}
    if "world" not in keys:
        check_no_programs(stored.world)
    return stored.model_copy(update={name: getattr(asked, name) for name in Reproduction.model_fields if name in keys})
