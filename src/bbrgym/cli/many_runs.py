# SPDX-License-Identifier: GPL-2.0-only
"""``-m``: many runs of a command, by Hydra's sweepers and launchers, and their report."""

from __future__ import annotations

import argparse
import logging
import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hydra._internal.callbacks import Callbacks
from hydra._internal.hydra import Hydra
from hydra.core.plugins import Plugins
from hydra.types import HydraContext, RunMode
from omegaconf import DictConfig, OmegaConf

from bbrgym.cli.terminal import print_results, print_run_folder, refuse_unfinished
from bbrgym.compose import composing, override_of, parse_override
from bbrgym.errors import ConfigError, MissingExtraError
from bbrgym.interrupts import sigterm_interrupts
from bbrgym.sweeps.jobs import Job
from bbrgym.sweeps.multirun import report_multirun
from bbrgym.sweeps.results import STATUS, SweepResults, best_of, tables_of
from bbrgym.sweeps.sweep_folder import MultirunFolder

_OF_JOBS = ("output_dir", "resume")  # the multirun sets these for each job
_EXTRAS = {"joblib": ("joblib", "train"), "submitit": ("submitit", "slurm"), "ray": ("ray", "ray-launcher")}


def multirun(command: str, name: str, hydra: Hydra, options: argparse.Namespace) -> None:
    """Run all jobs that are not done, write the report, print the tables and refuse failed jobs.

    Raises:
        ScenarioError, ConfigError: the request is wrong.
        MissingExtraError: the launcher or the sweeper needs a package that is not installed.
        SweepError: jobs are not done, or the search's database cannot be used.
        KeyboardInterrupt: also on SIGTERM.
    """
    overrides = list(options.overrides)
    _refuse_wrong(overrides)
    config = hydra.compose_config(name, overrides, RunMode.MULTIRUN)
    folder = Path(str(config.hydra.sweep.dir)).absolute()
    OmegaConf.update(config, "hydra.sweep.dir", str(folder))
    flags = [(flag, value) for flag, value in _flags(options) if value is not None]
    given = [part for pair in flags for part in pair]
    if options.config_dir is not None:
        given[given.index(options.config_dir)] = str(Path(options.config_dir).absolute())
    job = Job(command, tuple(given), str(Path.cwd()))
    again = [*(part for pair in flags for part in pair), "-m", *_without_folder(overrides)]
    again = [command, *again, override_of("hydra.sweep.dir", str(config.hydra.sweep.dir))]
    began_s = time.time()
    try:
        with sigterm_interrupts(), _kept_logging(), composing(overrides):
            _sweep(hydra, config, job)
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt(f"what is finished is kept; {shlex.join(['bbrgym', *again])} goes on") from error
    results = report_multirun(folder, shlex.join(["bbrgym", *again]))
    show(folder, results)
    refuse_failures(folder, results, again, began_s)


def _sweep(hydra: Hydra, config: DictConfig, job: Job) -> None:
    context = HydraContext(config_loader=hydra.config_loader, callbacks=Callbacks(config))
    sweeper = Plugins.instance().instantiate_sweeper(config=config, hydra_context=context, task_function=job)
    arguments: Any = OmegaConf.to_container(config.hydra.overrides.task, resolve=False)
    # Launchers compose each job's configuration anew, from these.
    config.hydra.overrides.hydra = [
        *(text for text in config.hydra.overrides.hydra if not text.startswith("hydra.sweep.dir=")),
        override_of("hydra.sweep.dir", str(config.hydra.sweep.dir)),
    ]
    sweeper.sweep(arguments=arguments)


@contextmanager
def _kept_logging() -> Iterator[None]:
    """Restore the logging that Hydra's launchers set up."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        yield
    finally:
        root.handlers[:], root.level = handlers, level


def _flags(options: argparse.Namespace) -> list[tuple[str, str | None]]:
    path = options.config_path and str(Path(options.config_path).absolute())
    return [
        ("--config-dir", options.config_dir),
        ("--config-path", path),
        ("--config-name", options.config_name),
    ]


def _without_folder(overrides: Sequence[str]) -> list[str]:
    return [text for text in overrides if parse_override(text).key_or_group != "hydra.sweep.dir"]


def _refuse_wrong(overrides: Sequence[str]) -> None:
    """Check the options that jobs share.

    Raises:
        ConfigError: an option is one that the multirun sets, is given twice, or has a value twice.
        MissingExtraError: the launcher is not installed.
    """
    keys: set[str] = set()
    for override in map(parse_override, overrides):
        key = override.get_key_element()
        if key in _OF_JOBS:
            raise ConfigError(f"{key}: -m gives each job its own, expected hydra.sweep.dir=DIR; repeat it to go on")
        if key in keys:
            raise ConfigError(f"{key}: is given twice, expected once")
        keys.add(key)
        if override.is_sweep_override() and override.is_discrete_sweep() and hasattr(override.value(), "tags"):
            values = list(override.sweep_string_iterator())
            if len(set(values)) < len(values):
                raise ConfigError(f"{key}: is {', '.join(values)}, expected each value once")
        if override.key_or_group == "hydra/launcher":
            launcher = str(override.value()).partition("_")[0]
            module, extra = _EXTRAS.get(launcher, ("", ""))
            if module and find_spec(f"hydra_plugins.hydra_{module}_launcher") is None:
                missing = ModuleNotFoundError(
                    f"No module named 'hydra_{module}_launcher'", name=f"hydra_{module}_launcher"
                )
                raise MissingExtraError(f"hydra/launcher={override.value()}", extra, missing)


# ---- report -------------------------------------------------------------------------------------------


def show(folder: Path, results: SweepResults) -> None:
    """Print the tables of a multirun and where its files are."""
    print_results(*tables_of(results), *best_of(results))
    print_run_folder(folder, "multirun folder")


def refuse_failures(folder: Path, results: SweepResults, again: Sequence[str], since_s: float) -> None:
    """Check that all jobs are done which ran since a time; the folder may hold others of earlier commands.

    Raises:
        SweepError: names the jobs that are not, and why.
    """
    jobs, lines = MultirunFolder(folder), []
    for name in results.failed:
        if jobs.log(name).exists() and jobs.log(name).stat().st_mtime < since_s:
            continue
        state = jobs.read_state(name)
        reason = f": {state['reason']}" if state.get("reason") else ""
        lines.append(f"{name} {state.get(STATUS, 'did not run')}{reason} ({jobs.log(name)})")
    refuse_unfinished(lines, f"of {results.summary['job'].n_unique()} jobs", again)
