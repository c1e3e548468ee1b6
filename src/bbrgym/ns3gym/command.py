# SPDX-License-Identifier: GPL-2.0-only
"""The command line of a simulation, with placeholders for what differs between runs.

A placeholder is a name in braces: `{port}`, `{seed}`, and the name of each argument. `{arguments}` stands for
``--name=value`` of all arguments without a placeholder of their own. A command without `{port}` gets the arguments of
ns3-gym's simulations at its end: ``--openGymPort=PORT --simSeed=SEED``, then the others. Other braces stay as they are.

A command is a list of words, or a text that is split into words as a shell splits it. Placeholders are filled in after
the split and no shell runs, so a value is never split or expanded. A word ``{arguments}`` becomes a word for each
argument; within a longer word the arguments are quoted, for a program that splits that word again, as ``./ns3 run``
does. A shell gets the arguments as words: ``["sh", "-c", '. ./settings.sh; exec ./simulation "$@"', "sh"]``.
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

_PLACEHOLDER = re.compile(r"(?<!\$)\{(\w+)\}")  # ${name} is the shell's
_ALL = "arguments"
_SET_BY_RUN = ("port", "seed", "openGymPort", "simSeed", _ALL)


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
    if not _PLACEHOLDER.search(program) and shutil.which(program) is None:
        raise ConfigError(f"command: there is no program {words[0]!r}" + (f" in {cwd}" if cwd else ""))
    return list(words)


def fill(words: Sequence[str], port: int, seed: int, arguments: Mapping[str, Value]) -> list[str]:
    """Return the words to run.

    Raises:
        ConfigError: an argument has no place in the command.
    """
    placeholders = {name for word in words for name in _PLACEHOLDER.findall(word)}
    others = [f"--{name}={_text(value)}" for name, value in arguments.items() if name not in placeholders]
    last: list[str] = []
    if "port" not in placeholders:
        seed_words = [] if "seed" in placeholders else [f"--simSeed={seed}"]
        last = [f"--openGymPort={port}", *seed_words, *([] if _ALL in placeholders else others)]
    elif others and _ALL not in placeholders:
        raise ConfigError(f"arguments: {others[0]} has no place in the command, where {{arguments}} stands for all")
    values = {"port": str(port), "seed": str(seed), **{name: _text(value) for name, value in arguments.items()}}
    values[_ALL] = shlex.join(others)
    filled: list[str] = []
    for word in words:
        filled += others if word == f"{{{_ALL}}}" else [_PLACEHOLDER.sub(lambda one: values.get(one[1], one[0]), word)]
    return filled + last


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
