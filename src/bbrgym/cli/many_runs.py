# SPDX-License-Identifier: GPL-2.0-only
"""``-m``: many runs of a command, by Hydra's sweepers and launchers, and a report."""

from __future__ import annotations

import argparse
import logging
import os
import re
import shlex
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from itertools import starmap, takewhile
from pathlib import Path
from typing import Any

from hydra._internal.hydra import Hydra
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from bbrgym.cli.terminal import check_finished, print_results, print_run_folder
from bbrgym.config.overrides import composing, override_of, parse_override
from bbrgym.errors import ConfigError, MissingExtraError, SweepError, one_line
from bbrgym.sweeps.jobs import Job
from bbrgym.sweeps.multirun import MultirunFolder, report_multirun
from bbrgym.sweeps.results import STATUS, UNFINISHED, MultirunResults, best_of, tables_of
from bbrgym.sweeps.study import without_password

_OF_JOBS = ("output_dir", "resume")  # the multirun sets these for each job
_SLASHES = re.compile(r"/(?![^{}]*\})")  # outside references such as ${now:%Y/%m}
_HERE = ("BasicLauncher", "JoblibLauncher", "LocalLauncher")  # whose jobs are processes of this machine


def multirun(name: str, hydra: Hydra, options: argparse.Namespace) -> None:
    """Run all jobs that are not done, write the report, print the tables and refuse failed jobs."""
    overrides = list(options.overrides)
    _check_overrides(overrides)
    with composing(overrides):
        _check_no_own_launcher(name, hydra, overrides)
        config = hydra.compose_config(name, overrides, RunMode.MULTIRUN)
        shared = _shared_folder(config, overrides)
    folder = Path(shared["hydra.sweep.dir"]).absolute()
    others = [text for text in overrides if parse_override(text).key_or_group not in shared]
    again = [options.command, *_flags(options), "-m", *others, *starmap(override_of, shared.items())]
    with _launching(again, overrides):
        job = _job(options, config)
        own = {**shared, "hydra.sweep.dir": str(folder)}
        given = [*others, *starmap(override_of, own.items())]
        returned = hydra.multirun(name, job, given, with_log_configuration=False)
    results = report_multirun(folder, without_password(shlex.join(["bbrgym", *again])))
    show(folder, results)
    check_no_failures(folder, results, again, _names(returned, folder))


def _job(options: argparse.Namespace, config: DictConfig) -> Job:
    """Return the function that runs a job. Jobs on this machine end with this process, a cluster's do not."""
    is_here = str(config.hydra.launcher._target_).endswith(_HERE)
    return Job(options.command, tuple(_flags(options)), str(Path.cwd()), os.getpid() if is_here else None)


@contextmanager
def _launching(again: Sequence[str], overrides: Sequence[str]) -> Iterator[None]:
    """Say what goes on after an interruption, or where a launcher gives up, such as when a node is lost."""
    advice = f"what is finished is kept; {shlex.join(['bbrgym', *again])} goes on"
    try:
        with _kept_logging(), composing(overrides):
            yield
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt(advice) from error
    except (ConfigError, MissingExtraError, SweepError, OSError):
        raise
    except Exception as error:
        raise SweepError(f"the launcher gave up: {one_line(error)[:300]}; {advice}") from error


def _names(returned: Any, folder: Path) -> set[str] | None:
    """Return the names of the jobs that a sweeper ran; None if the sweeper does not say."""
    try:
        return {os.path.relpath(one.hydra_cfg.hydra.runtime.output_dir, folder) for batch in returned for one in batch}
    except (AttributeError, TypeError):  # each sweeper returns what it likes
        return None


@contextmanager
def _kept_logging() -> Iterator[None]:
    """Restore the logging, which Hydra's launchers set up again; a job that they ran here has opened files for it."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        yield
    finally:
        for added in set(root.handlers) - set(handlers):
            added.close()
        root.handlers[:], root.level = handlers, level


def _flags(options: argparse.Namespace) -> list[str]:
    """Return Hydra's flags that the jobs get too."""
    folders = {"--config-dir": options.config_dir, "--config-path": options.config_path}
    flags = {flag: folder and str(Path(folder).absolute()) for flag, folder in folders.items()}
    flags["--config-name"] = options.config_name
    return [part for flag, value in flags.items() if value is not None for part in (flag, value)]


def _shared_folder(config: DictConfig, overrides: Sequence[str]) -> dict[str, str]:
    """Return the folder of a multirun, as ``hydra.sweep.dir``; and what of it differs between jobs, in their names."""
    own: Any = OmegaConf.to_container(config.hydra.sweep, resolve=False)
    swept = [one.key_or_group for one in map(parse_override, overrides) if one.is_sweep_override()]
    of_jobs = re.compile(rf"\$\{{({'|'.join(map(re.escape, [*swept, 'hydra.job', 'hydra:job']))})\b")
    parts = _SLASHES.split(str(own["dir"]))
    shared = [*takewhile(lambda part: not of_jobs.search(part), parts)]
    if not any(shared):
        raise ConfigError(
            f"hydra.sweep.dir: is {own['dir']!r}, another one for each job; expected a folder of all, and "
            "hydra.sweep.subdir for what differs"
        )
    if shared == parts:
        return {"hydra.sweep.dir": str(config.hydra.sweep.dir)}
    config.hydra.sweep.dir = "/".join(shared)
    subdir = "/".join([*parts[len(shared) :], str(own["subdir"])])
    return {"hydra.sweep.dir": str(config.hydra.sweep.dir), "hydra.sweep.subdir": subdir}


def _check_no_own_launcher(name: str, hydra: Hydra, overrides: Sequence[str]) -> None:
    """Check that no choice of a swept group brings a launcher or a sweeper, of which a multirun has one."""
    fixed = [text for text in overrides if not parse_override(text).is_sweep_override()]
    composed = hydra.compose_config(name, fixed, RunMode.MULTIRUN).hydra
    choices, params = composed.runtime.choices, composed.sweeper.get("params") or {}
    for one in map(parse_override, [*overrides, *(f"{key}={value}" for key, value in params.items())]):
        group = one.key_or_group
        if one.is_sweep_override() and one.is_discrete_sweep() and group in choices:
            for option in one.sweep_string_iterator():
                try:
                    of_job = hydra.compose_config(name, [*fixed, f"{group}={option}"], RunMode.MULTIRUN)
                except ConfigError:  # the job itself says so
                    continue
                own = of_job.hydra.runtime.choices
                for part in ("hydra/launcher", "hydra/sweeper"):
                    if own[part] != choices[part]:  # Hydra would take its default instead
                        raise ConfigError(
                            f"{group}={option}: brings {part}={own[part]}, which cannot differ between jobs; expected "
                            f"{part}={own[part]} on the command line too"
                        )


def _check_overrides(overrides: Sequence[str]) -> None:
    """Check that no option is one that the multirun sets, is given twice, or has a value twice."""
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


# ---- report -------------------------------------------------------------------------------------------


def show(folder: Path, results: MultirunResults) -> None:
    """Print the tables of a multirun and the places of the files."""
    print_results(*tables_of(results), *best_of(results))
    print_run_folder(folder, "multirun folder")


def check_no_failures(
    folder: Path, results: MultirunResults, again: Sequence[str], names: Collection[str] | None
) -> None:
    """Check that jobs are done.

    Args:
        folder: of the multirun.
        results: of all its jobs.
        again: arguments of the command that tries them again.
        names: of the jobs that count; the folder may hold others of earlier commands. Default: all.

    Raises:
        SweepError: names the jobs that are not, and why.
    """
    jobs, lines = MultirunFolder(folder), []
    for name in results.failed:
        if names is None or name in names:
            state = jobs.read_state(name)
            reason = f": {state['reason']}" if state.get("reason") else ""
            lines.append(f"{name} {state.get(STATUS, UNFINISHED)}{reason} ({jobs.log(name)})")
    number = results.summary["job"].n_unique() if names is None else len(names)
    check_finished(lines, f"of {number} jobs", again)
