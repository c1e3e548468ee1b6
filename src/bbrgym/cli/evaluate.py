# SPDX-License-Identifier: GPL-2.0-only
"""``bbrgym evaluate``."""

from __future__ import annotations

import argparse
import math
import re
import shlex
from pathlib import Path
from typing import Any

import polars as pl

from bbrgym.agents.training.loggers.logger import LoggedRun, Logger, completed_loggers, logged, logger_of
from bbrgym.cli.hydra_program import add_composed_command
from bbrgym.cli.scenario import scenario_of
from bbrgym.cli.terminal import (
    advice_on_interrupt,
    new_run_dir,
    print_results,
    print_run_folder,
    runs_bar,
)
from bbrgym.compose import override_of, parse_override
from bbrgym.errors import ConfigError
from bbrgym.evaluate.evaluation import PreparedEvaluation, config_of, prepare_evaluation
from bbrgym.evaluate.evaluation_settings import Evaluation, parse_settings
from bbrgym.evaluate.records import EvaluationFolder, per_run
from bbrgym.evaluate.results import Results
from bbrgym.evaluate.resume import resumed_config
from bbrgym.report.output_settings import OUTPUT_OPTIONS, taken_output_settings
from bbrgym.report.report import write_report
from bbrgym.report.tables import speed_table, tables_of_results

_DESCRIPTION = """\
Runs every variant, and the agents beside them, with every seed on a scenario, or on draws of a distribution; writes a
run folder and shows the tables. With several worlds it also shows how far apart they are, and how fast. resume=true
goes on with the evaluation that output_dir holds; options that differ from that evaluation's are refused.

examples:
  bbrgym evaluate scenario=rtt_fairness 'variants=[bbr,bbq]' 'seeds=[1,2,3]' output_dir=runs/mine
  bbrgym evaluate scenario=mine.yaml scenario.link.rate_mbps=50 scenario.duration_s=20
  bbrgym evaluate 'variants=[bbq]' tunables.bbq_alpha_us=1000
  bbrgym evaluate 'world=[ns3,twin]' 'seeds=[1,2,3]'
  bbrgym evaluate scenario=wan_mix draws=100 world=twin 'agent=[runs/mine,random]'
  bbrgym evaluate output_dir=runs/mine resume=true
"""


def add(commands: Any, purpose: str) -> None:
    """Add the command."""
    add_composed_command(commands, "evaluate", purpose, _DESCRIPTION, run, lambda: [Evaluation])


def run(options: argparse.Namespace) -> None:
    """Evaluate, write the run folder with its report, and print the tables."""
    config = dict(options.config)
    resume, output_dir, output = config.pop("resume"), config.pop("output_dir"), taken_output_settings(config)
    if not isinstance(resume, bool):
        raise ConfigError(f"resume: is {resume!r}, expected true or false")
    logger = logger_of(completed_loggers(config.pop("logger")), is_trusted=True)
    scenario, agent = scenario_of(config.pop("scenario")), config.pop("agent")
    if output_dir is not None and options.run_dir is not None:
        raise ConfigError(f"output_dir: is {output_dir!r} with hydra.run.dir, expected one of them")
    given_dir = output_dir if options.run_dir is None else options.run_dir
    folder = EvaluationFolder(new_run_dir(scenario.name) if given_dir is None else Path(str(given_dir)))
    if resume and folder.has_config():
        keys = [parse_override(text).key_or_group for text in options.overrides]
        own = ("output_dir", "resume", "logger", "hydra", *OUTPUT_OPTIONS)
        given = [key for key in keys if re.split("[./]", key)[0] not in own]
        config = resumed_config(config_of(scenario, parse_settings(config), agent), given, folder)
        scenario, agent = scenario_of(config.pop("scenario")), config.pop("agent")
    prepared = prepare_evaluation(scenario, config, agent=agent)
    with (
        advice_on_interrupt(folder, "evaluate", override_of("output_dir", str(folder.path)), "resume=true"),
        folder.opened(resume=resume),
    ):
        prepared.begin(folder)
        with logged(logger, _logged_run(prepared, folder)) as log:
            with runs_bar() as show:
                results = prepared.run(folder, show)
            write_report(folder.path, results, shlex.join(["bbrgym", "evaluate", *options.overrides]), output)
            _log_results(log, results, folder.path)
    print_results(*tables_of_results(results))
    if results.timing["world"].n_unique() > 1:
        print_results(speed_table(results.timing))
    print_run_folder(folder.path)


def _logged_run(prepared: PreparedEvaluation, folder: EvaluationFolder) -> LoggedRun:
    group = f"evaluate-{prepared.source.name}"
    return LoggedRun(
        "evaluate", folder.path.name, group, prepared.config, folder.path, provenance=folder.read_provenance()[-1]
    )


def _log_results(log: Logger, results: Results, path: Path) -> None:
    """Log the means of each entrant, the tables, and the figures that are PNG."""
    runs = per_run(results.summary)
    names = {"score": "score", "goodput": "goodput_mbps", "queue_delay_ms": "queue_delay_ms"}
    means = runs.group_by("world", "entrant", maintain_order=True).agg(pl.col(*names).mean())
    outcome = {
        f"{world}/{entrant}/{name}": value
        for world, entrant, *values in means.iter_rows()
        for name, value in zip(names.values(), values, strict=True)
        if value is not None and math.isfinite(value)
    }
    log.metrics(0, outcome)
    log.table(0, "runs", runs)
    if results.rankings:
        log.table(0, "ranking", pl.concat([ranking.table() for ranking in results.rankings]))
    for picture in sorted((path / "figures").glob("*.png")):
        log.picture(0, f"figures/{picture.stem}", picture)
    log.summary(outcome)
