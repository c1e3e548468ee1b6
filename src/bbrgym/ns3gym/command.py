# SPDX-License-Identifier: GPL-2.0-only
"""The command line of a simulation: a command, and behind it what differs between runs.

A command is a list of words, or a text that is split into words as a shell splits it. The arguments of ns3-gym's
simulations follow it: ``--openGymPort=PORT --simSeed=SEED``, then ``--name=value`` of each other one. No shell runs, so
a value is never split or expanded. A shell gets the arguments as words: ``["sh", "-c", 'exec ./simulation "$@"',
"sh"]``; for a program that splits one word again, as ``./ns3 run`` does: ``["sh", "-c", './ns3 run "NAME $*"', "sh"]``.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from bbrgym.errors import ConfigError
from bbrgym.schema import shown

Value: TypeAlias = str | int | float | bool
"""The value of an argument."""

_SET_BY_RUN = ("openGymPort", "simSeed")


def split_command(command: str | Sequence[str], cwd: Path | None = None) -> list[str]:
    """Return the words of a command.

    Args:
        command: a list of words, or a text that is split into words.
        cwd: directory in which it will run. Default: the current one.

    Raises:
        ConfigError: it is empty, of another type or not properly quoted, or the folder or the program does not exist.
    """
    words: Any = command
    if isinstance(command, str):
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise ConfigError(f"command: {shown(command)} cannot be split into words: {error}") from None
    if not isinstance(words, list | tuple) or not all(isinstance(word, str) for word in words) or not any(words):
        raise ConfigError(f"command: {shown(command)}, expected a text or a list of words")
    if cwd is not None and not cwd.is_dir():
        raise ConfigError(f"cwd: {str(cwd)!r} is not a folder")
    program = str(cwd / words[0]) if cwd is not None and "/" in words[0] else words[0]
    if shutil.which(program) is None:
        raise ConfigError(f"command: there is no program {words[0]!r}" + (f" in {cwd}" if cwd else ""))
    return list(words)


def with_arguments(words: Sequence[str], port: int, seed: int, arguments: Mapping[str, Value]) -> list[str]:
    """Return the words to run."""
    given = {"openGymPort": port, "simSeed": seed, **arguments}
    return [*words, *(f"--{name}={_text(value)}" for name, value in given.items())]


def checked(arguments: Mapping[str, Value]) -> dict[str, Value]:
    """Return arguments by name, without leading dashes, which ns3-gym's names have.

    Raises:
        ConfigError: a name or value cannot be an argument.
    """
    if not isinstance(arguments, Mapping):
        raise ConfigError(f"arguments: {shown(arguments)}, expected a mapping of names to values")
    found: dict[str, Value] = {}
    for given, value in arguments.items():
        name = str(given).lstrip("-")
        if not re.fullmatch(r"[\w:.-]+", name) or not isinstance(given, str):
            raise ConfigError(f"arguments: {shown(given)} is not a name of an argument")
        if name in _SET_BY_RUN:
            raise ConfigError(f"arguments: {name!r} is set for each run and cannot be given here")
        if not isinstance(value, str | int | float | np.generic) or "\0" in str(value):
            raise ConfigError(f"arguments: {name} is {shown(value)}, expected a text, a number, true or false")
        found[name] = value.item() if isinstance(value, np.generic) else value
    return found


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
