# SPDX-License-Identifier: GPL-2.0-only
"""Errors that name the field, its value and what is allowed."""

from __future__ import annotations

_ALIKE = 0.6  # likeness from which a name is suggested
_PACKAGES = {"google": "protobuf", "sklearn": "scikit-learn", "zmq": "pyzmq"}  # of modules with another name
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
    """An environment has no such argument; a TypeError too, by which others find out which arguments it has."""


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


class TrainingError(RuntimeError):
    """A training cannot continue: a number became NaN or infinite, or its workers are gone."""


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


class SweepError(RuntimeError):
    """Jobs of a sweep, or runs of a reproduction, failed."""
