# SPDX-License-Identifier: GPL-2.0-only
"""Errors that name the field, the value and what is allowed."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

_ALIKE = 0.6  # likeness from which a name is suggested
_PACKAGES = {"PIL": "pillow", "google": "protobuf", "zmq": "pyzmq"}  # of modules with another name
_MOST_NAMES = 12  # of which all are listed


class ConfigError(ValueError):
    """A name, option or file that a command or function was given cannot be used.

    Example:
        >>> import bbrgym
        >>> try:
        ...     bbrgym.make_world("twinn", "steady")
        ... except bbrgym.ConfigError as error:
        ...     print(str(error).partition("?")[0])
        world 'twinn': did you mean twin
    """


class ArgumentError(ConfigError, TypeError):
    """An environment has no such argument; a TypeError too, by which callers probe for arguments."""


class ScenarioError(ConfigError):
    """A scenario cannot be used.

    Attributes:
        path: field, e.g. ``flows[0].rtt_ms``; empty for the scenario as a whole.
        problem: value and what is allowed instead.
        scenario: name; empty if unknown.

    Example:
        >>> import bbrgym
        >>> try:
        ...     bbrgym.load_scenario({"name": "mine", "duration_s": -5})
        ... except bbrgym.ScenarioError as error:
        ...     print(error.path, error.scenario)
        duration_s mine
    """

    def __init__(self, path: str, problem: str, scenario: str = "") -> None:
        self.path = path
        self.problem = problem
        self.scenario = scenario
        where = f"scenario {scenario}" if scenario else "scenario"
        super().__init__(f"{where}: {path + ': ' if path else ''}{problem}")

    def __reduce__(self) -> tuple[type[ScenarioError], tuple[str, str, str]]:
        return ScenarioError, (self.path, self.problem, self.scenario)


def nearest(name: str, known: Iterable[str], see: str = "bbrgym list") -> str:
    """Suggest known names in place of an unknown one.

    Args:
        name: unknown.
        known: all names; of more than a dozen only the three nearest are shown.
        see: command or page that shows all of them.
    """
    names = list(known)
    close = [one for one in sorted(names, key=lambda one: -_likeness(name, one)) if _likeness(name, one) >= _ALIKE]
    if len(names) <= _MOST_NAMES:
        return f"{f'did you mean {close[0]}? ' if close else ''}allowed are {', '.join(names)}"
    *others, last = close[:3] or [""]
    hint = f"did you mean {', '.join(others)}{' or ' if others else ''}{last}? " if last else ""
    return f"{hint}{see} shows all {len(names)}"


def _likeness(name: str, known: str) -> float:
    """Return how likely ``known`` was meant, 0 to 1: by spelling, beginning or initials."""
    one, two = name.lower(), known.lower()
    if len(one) > 1 and (two.startswith(one) or one == "".join(part[:1] for part in re.split(r"[._-]", two))):
        return 0.9
    return difflib.SequenceMatcher(None, one, two).ratio()


def one_line(error: BaseException) -> str:
    """Return an error's text with line breaks and runs of spaces made single spaces."""
    return " ".join(str(error).split())


class TrainingError(RuntimeError):
    """A training cannot continue: a number became NaN or infinite, or the workers are gone."""


class MissingExtraError(ModuleNotFoundError):
    """A feature needs a package that is not installed.

    Args:
        what: feature, e.g. ``agent=ppo``.
        extra: extra of bbrgym that installs the package.
        error: of the import.
    """

    def __init__(self, what: str, extra: str, error: ModuleNotFoundError) -> None:
        module = str(error.name).partition(".")[0]
        package = _PACKAGES.get(module, module.replace("_", "-"))
        advice = f"pip install {package}, or in a checkout of bbrgym pip install '.[{extra}]'"
        super().__init__(f"{what} needs {package}: {advice}", name=error.name)


def check_matplotlib(what: str) -> None:
    """Check that Matplotlib is installed.

    Args:
        what: feature that draws, e.g. ``render_mode='rgb_array'``.

    Raises:
        MissingExtraError: it is not.
    """
    try:
        import matplotlib  # noqa: F401 - large, and only drawing needs it
    except ModuleNotFoundError as error:
        raise MissingExtraError(what, "figures", error) from error


class WorldError(RuntimeError):
    """A failed simulation: aborted, killed, hung, or ended by an error.

    The world needs a ``reset()``, which starts afresh. A bad argument is a ``ValueError`` instead.

    Attributes:
        scenario: name of the scenario.
        seed: seed of the run.
        now_s: simulated time of the last answer, in seconds.
        reason: cause of the failure.

    Example:
        >>> import bbrgym
        >>> try:
        ...     raise bbrgym.WorldError("steady", 1, 2.5, "it was killed")
        ... except bbrgym.WorldError as error:
        ...     print(error)
        scenario 'steady', seed 1, at 2.5 s: it was killed
    """

    def __init__(self, scenario: str, seed: int, now_s: float, reason: str) -> None:
        super().__init__(scenario, seed, now_s, reason)  # the arguments, so that it can be pickled
        self.scenario = scenario
        self.seed = seed
        self.now_s = now_s
        self.reason = reason

    def __str__(self) -> str:
        return f"scenario {self.scenario!r}, seed {self.seed}, at {self.now_s:g} s: {self.reason}"


class SweepError(RuntimeError):
    """Jobs of a sweep, or runs of a reproduction, failed."""
