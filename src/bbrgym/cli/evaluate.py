# SPDX-License-Identifier: GPL-2.0-only
"""``bbrgym evaluate``."""

from __future__ import annotations

import argparse
import re
import shlex
from pathlib import Path

from bbrgym.cli.own_files import naming_files, take_files
from bbrgym.cli.scenario import scenario_of
from bbrgym.cli.terminal import (
    advice_on_interrupt,
    new_run_dir,
    print_results,
    print_run_folder,
    runs_bar,
    take_output_dir,
)
from bbrgym.config.overrides import override_of, parse_override
from bbrgym.errors import ConfigError
from bbrgym.evaluate.evaluation import config_of, prepare_evaluation
from bbrgym.evaluate.evaluation_settings import Evaluation, parse_settings
from bbrgym.evaluate.logged_results import log_results
from bbrgym.evaluate.records import EvaluationFolder
from bbrgym.evaluate.resume import resumed_config
from bbrgym.loggers.logger import Logger, NoLoggerSettings, completed_loggers, logged, logger_of
from bbrgym.report.output_settings import OUTPUT_OPTIONS, taken_output_settings
from bbrgym.report.report import write_report
from bbrgym.report.tables import speed_table, tables_of_results
from bbrgym.runs import drawing

DESCRIPTION = """\
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

MODELS = (Evaluation,)


def run(options: argparse.Namespace) -> None:
    """Evaluate, write the run folder with a report, and print the tables."""
    config = dict(options.config)
    resume, output = config.pop("resume"), taken_output_settings(config)
    path = take_output_dir(config, options.run_dir)
    if not isinstance(resume, bool):
        raise ConfigError(f"resume: is {resume!r}, expected true or false")
    logger = logger_of(completed_loggers(config.pop("logger")), is_trusted=True)
    if not isinstance(logger, NoLoggerSettings) and output.figures.format is None:  # which logs them
        output = output.model_copy(update={"figures": output.figures.model_copy(update={"format": "png"})})
    take_files(config, trust=config.get("trust") is True)
    scenario, agent = scenario_of(config.pop("scenario")), config.pop("agent")
    folder = EvaluationFolder(path or new_run_dir(scenario.name))
    if resume:
        keys = [parse_override(text).key_or_group for text in options.overrides]
        own = ("output_dir", "resume", "logger", "hydra", *OUTPUT_OPTIONS)
        given = [key for key in keys if re.split("[./]", key)[0] not in own]
        if folder.has_config():
            config = resumed_config(config_of(scenario, parse_settings(config), agent), given, folder)
            scenario, agent = scenario_of(config.pop("scenario")), config.pop("agent")
        elif not given:
            raise ConfigError(
                f"resume: {str(folder.path)!r} holds no evaluation, expected one, or the options of a new one"
            )
    prepared = prepare_evaluation(scenario, config, agent=agent)
    variants = [text for text in options.overrides if text.startswith("variants=")]
    with (
        advice_on_interrupt(
            folder, "evaluate", override_of("output_dir", str(folder.path)), "resume=true", *naming_files(variants)
        ),
        folder.opened(resume=resume),
    ):
        prepared.begin(folder)
        with logged(logger, prepared.logged_run(folder)) as log:
            with runs_bar() as show:
                results = prepared.run(folder, show)
            try:  # before the figures take their time, and within the log, so that a logger of the console has them
                print_results(*tables_of_results(results))
                if results.timing["world"].n_unique() > 1:
                    print_results(speed_table(results.timing))
            finally:
                if output.figures.are_asked_for and drawing.reason_not_to_draw() is None:
                    drawing.leave_out_help()
                write_report(folder.path, results, shlex.join(["bbrgym", "evaluate", *options.overrides]), output)
                log_results(log, results)
                _log_figures(log, folder.path)
    print_run_folder(folder.path, has_figures=output.figures.are_asked_for)


def _log_figures(log: Logger, folder: Path) -> None:
    """Log the figures that are PNG."""
    for picture in sorted((folder / "figures").glob("*.png")):
        log.picture(0, f"figures/{picture.stem}", picture)
