# SPDX-License-Identifier: GPL-2.0-only
"""``bbrgym sweep``."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn

from bbrgym.cli.terminal import (
    add_command,
    advice_on_interrupt,
    new_run_dir,
    print_results,
    print_run_folder,
    progress_bar,
    refuse_unfinished,
    take_run_dir,
)
from bbrgym.compose import compose_config, override_of, parse_override
from bbrgym.errors import ConfigError
from bbrgym.interrupts import sigterm_interrupts
from bbrgym.sweeps.results import STATUS, SweepResults, best_of, tables_of
from bbrgym.sweeps.run_sweep import Sweep, SweepProgress, parse_sweep, run_sweep
from bbrgym.sweeps.sweep_folder import SweepFolder
from bbrgym.targets import with_shipped

_OWN = ("command", "sweep_dir", "job_timeout_s", "resume", "launcher", "hparams_search")
_OF_JOBS = ("command", "hparams_search")  # those of them that decide which jobs there are


_DESCRIPTION = """\
Runs bbrgym train (or evaluate, with command=evaluate) once for every combination of options that have several values;
each job has its own process, log and run folder. At the end it shows tables and writes figures and report.html. Jobs
that fail are reported and do not affect the others; resume=DIR goes on with an interrupted sweep.

examples:
  bbrgym sweep agent=ppo,sac 'seed=range(1,4)' total_steps=200_000 launcher.n_jobs=2 sweep_dir=runs/mine
  bbrgym sweep hparams_search=ppo seed=1,2 total_steps=100_000 sweep_dir=runs/search
  bbrgym sweep command=evaluate scenario=steady,lossy world=twin launcher=ray
  bbrgym sweep resume=runs/mine
"""


def add(commands: Any, purpose: str) -> None:
    """Add the command."""
    command = add_command(commands, "sweep", purpose, _DESCRIPTION, run)
    command.add_argument("overrides", nargs="*", metavar="OPTION=VALUE")


def run(options: argparse.Namespace) -> None:
    """Run the sweep, print its tables and refuse failed jobs."""
    sweep_dir, results = sweep_from(options.overrides)
    print_results(*tables_of(results), *best_of(results))
    print_run_folder(sweep_dir, "sweep folder", has_page=False)
    refuse_failures(sweep_dir, results)


def sweep_from(overrides: Sequence[str]) -> tuple[Path, SweepResults]:
    """Run a sweep with the options of a command line, and return its folder and results.

    Raises:
        As `run_sweep`; KeyboardInterrupt also on SIGTERM.
    """
    own, of_jobs = _divided(overrides)
    config = compose_config("sweep", own)
    given, resume = take_run_dir(config, "sweep_dir")
    sweep_dir = given or new_run_dir("sweep")
    asked = parse_sweep({**config, "overrides": of_jobs})
    folder = SweepFolder(sweep_dir)
    is_trusted = True
    if resume and (folder.has_config() or not of_jobs):
        asked, is_trusted = _resumed(folder, asked, own)
    advice = advice_on_interrupt(folder, "sweep", override_of("resume", str(sweep_dir)))
    columns = (MofNCompleteColumn(), TextColumn("jobs"), BarColumn(), TextColumn("{task.fields[failed]}"))
    with progress_bar(*columns, TimeElapsedColumn(), fields_of=_fields_of) as show, advice, sigterm_interrupts():
        results = run_sweep(
            asked,
            sweep_dir=sweep_dir,
            resume=resume,
            is_trusted=is_trusted,
            on_progress=show,
            command=shlex.join(["bbrgym", "sweep", *overrides]),
        )
    return sweep_dir, results


def refuse_failures(sweep_dir: Path, results: SweepResults) -> None:
    """Check that all jobs are done.

    Raises:
        SweepError: names the jobs that are not, and why.
    """
    folder = SweepFolder(sweep_dir)
    lines = []
    for name in results.failed:
        state = folder.read_state(name)
        reason = f": {state['reason']}" if state.get("reason") else ""
        lines.append(f"{name} {state.get(STATUS, 'did not run')}{reason} ({folder.log(name)})")
    jobs = results.summary["job"].n_unique()
    refuse_unfinished(lines, f"of {jobs} jobs", ["sweep", override_of("resume", str(sweep_dir))])


def _divided(overrides: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the sweep's own options and those of the jobs."""
    own = [text for text in overrides if _root(text) in _OWN]
    for text in own:
        if parse_override(text).is_sweep_override():
            raise ConfigError(f"{text!r}: is an option of the sweep itself, expected one value")
    return own, [text for text in overrides if _root(text) not in _OWN]


def _root(text: str) -> str:
    return parse_override(text).key_or_group.split(".")[0]


def _resumed(folder: SweepFolder, asked: Sweep, own: Sequence[str]) -> tuple[Sweep, bool]:
    """Complete a request by the one that the folder was made for: the launcher, and unless they are given, the jobs.

    Returns:
        The request, and whether the class of its launcher was given now.
    """
    before = folder.read_request(parse_sweep)
    given = {one.key_or_group: one.value() for one in map(parse_override, own)}
    launcher = asked.launcher if "launcher" in given else _changed(before.launcher, given)
    has_jobs = bool(asked.overrides) or any(key.split(".")[0] in _OF_JOBS for key in given)
    timeout_s = asked.job_timeout_s if has_jobs or "job_timeout_s" in given else before.job_timeout_s
    request = (asked if has_jobs else before).model_copy(update={"launcher": launcher, "job_timeout_s": timeout_s})
    return request, "launcher" in given or "launcher._target_" in given


def _changed(launcher: str | dict[str, Any], given: Mapping[str, Any]) -> Any:
    """Return a launcher's options with those that are given in their places."""
    options = OmegaConf.create({"launcher": with_shipped("launcher", launcher)})
    for key, value in given.items():
        if key.startswith("launcher."):
            OmegaConf.update(options, key, value, merge=True, force_add=True)
    return OmegaConf.to_container(options["launcher"])


def _fields_of(progress: SweepProgress) -> dict[str, Any]:
    """Return the values of the progress bar."""
    failed = f"{progress.failed} failed" if progress.failed else ""
    return {"total": progress.total, "completed": progress.ended, "failed": failed}
