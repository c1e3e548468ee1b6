# SPDX-License-Identifier: GPL-2.0-only
"""The results of a multirun of Hydra's, from the folders of its jobs."""

from __future__ import annotations

from pathlib import Path

from bbrgym.compose import key_of, parse_override
from bbrgym.errors import ConfigError
from bbrgym.sweeps.plan import SweepJob
from bbrgym.sweeps.results import SweepResults, collect
from bbrgym.sweeps.sweep_folder import MultirunFolder
from bbrgym.sweeps.sweep_report import write_sweep_report

_COMMANDS = ("train", "evaluate")


def report_multirun(path: Path, command: str | None = None, names: list[str] | None = None) -> SweepResults:
    """Write tables, figures and the page of a multirun in its folder, and return its results.

    Args:
        path: of the folder.
        command: shown on the page. Default: none.
        names: of jobs that count even if they have not begun. Default: none.

    Raises:
        ConfigError: the folder is none of a multirun, or a file of a job is damaged.
        OSError: a file cannot be written.
    """
    folder = MultirunFolder(path)
    found = [name for name in folder.names() if name not in (names or ())]
    jobs = _jobs(folder, [*(names or ()), *found])
    results = collect(folder, jobs)
    write_sweep_report(folder, results, command)
    return results


def _jobs(folder: MultirunFolder, names: list[str]) -> list[SweepJob]:
    """Return the jobs, whose parameters are the options that differ between them."""
    overrides = {name: [str(one) for one in folder.read_state(name).get("overrides", [])] for name in names}
    values = {name: {key_of(text): _value(text) for text in texts} for name, texts in overrides.items()}
    known = [one for one in values.values() if one]
    if not known:
        raise ConfigError(f"{str(folder.path)!r} is no folder of a multirun: it holds no finished job")
    keys = list(dict.fromkeys(key for one in known for key in one))
    differing = [key for key in keys if len({one.get(key) for one in known}) > 1]
    commands = {str(folder.read_state(name).get("command") or "train") for name in names if overrides[name]}
    command = commands.pop() if len(commands) == 1 else "train"
    return [
        SweepJob(name, command, {key: values[name][key] for key in differing if key in values[name]}, tuple(texts))
        for name, texts in overrides.items()
    ]


def _value(text: str) -> str:
    return str(parse_override(text).get_value_element_as_str())
