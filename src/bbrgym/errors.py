# SPDX-License-Identifier: GPL-2.0-only
"""The errors that name what a user got wrong."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ConfigError(ValueError):
    """A name, option or file that a command or function was given cannot be used."""


class ScenarioError(ConfigError):
    """One wrong thing in a scenario.

    Attributes:
        path: the field, e.g. ``flows[0].rtt_ms``; empty where it is the scenario as a whole.
        problem: the value and what is allowed instead.
    """

    def __init__(self, path: str, problem: str, scenario: str = "") -> None:
        self.path = path
        self.problem = problem
        self.scenario = scenario
        where = f"scenario {scenario}" if scenario else "scenario"
        super().__init__(f"{where}: {path + ': ' if path else ''}{problem}")

    def __reduce__(self) -> tuple[type[ScenarioError], tuple[str, str, str]]:
        return ScenarioError, (self.path, self.problem, self.scenario)


def nearest(name: str, known: Iterable[str]) -> str:
    """What to say of an unknown name: the nearest known one and the list of all."""
    names = list(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    hint = f"did you mean {close[0]}? " if close else ""
    return f"{hint}allowed are {', '.join(names)}"


class TrainingError(RuntimeError):
    """A training cannot go on: something in it became NaN or infinite, or what it runs on is gone."""


class MissingExtraError(ModuleNotFoundError):
    """Something that was asked for needs a package that is not installed.

    Args:
        what: was asked for.
        extra: of bbrgym, with which the package comes.
        error: that said so.
    """

    def __init__(self, what: str, extra: str, error: ModuleNotFoundError) -> None:
        super().__init__(f"{what} needs {error.name}: pip install 'bbrgym[{extra}]'", name=error.name)


class SweepError(RuntimeError):
    """Jobs of a sweep have failed."""
