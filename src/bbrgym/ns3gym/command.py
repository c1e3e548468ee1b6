# SPDX-License-Identifier: GPL-2.0-only
"""The command line of a simulation, with places for what differs from run to run.

`{port}`, `{seed}` and the name of an argument in braces stand for their values, `{arguments}` for ``--name=value`` of
all arguments that have no place of their own. A command without `{port}` gets what ns3-gym's simulations understand
after its last word: ``--openGymPort=PORT --simSeed=SEED`` and the arguments. Other braces stay as they are.
"""

from __future__ import annotations

import itertools
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np

from bbrgym.errors import ConfigError
from bbrgym.schema import shown

Value: TypeAlias = str | int | float | bool
"""Of an argument."""

_PLACE = re.compile(r"(?<!\$)\{(\w+)\}")  # ${name} is the shell's
_ALL = "arguments"
_SET_BY_RUN = ("port", "seed", "openGymPort", "simSeed", _ALL)


class Command:
    """A command with places.

    Args:
        command: its words, or one text for the shell.
        cwd: where it will run.

    Raises:
        ConfigError: it is empty, of another type, or its program is not there.
    """

    def __init__(self, command: str | Sequence[str], cwd: Path | None = None) -> None:
        is_words = isinstance(command, list | tuple) and all(isinstance(word, str) for word in command)
        if not command or not (is_words or isinstance(command, str)):
            raise ConfigError(f"command: {shown(command)}, expected a text for the shell or a list of words")
        self._is_shell = isinstance(command, str)
        self._words = [command] if isinstance(command, str) else list(command)
        self._places = {name for word in self._words for name in _PLACE.findall(word)}
        if not self._is_shell and not _PLACE.search(self._words[0]) and _program(self._words[0], cwd) is None:
            raise ConfigError(f"command: there is no program {self._words[0]!r}" + (f" in {cwd}" if cwd else ""))

    def words(self, port: int, seed: int, arguments: Mapping[str, Value]) -> list[str]:
        """What to run.

        Args:
            port: on which the agent listens.
            seed: of the run.
            arguments: as `checked` gives them.

        Raises:
            ConfigError: an argument has no place.
        """
        others = [f"--{name}={_text(value)}" for name, value in arguments.items() if name not in self._places]
        if "port" not in self._places:
            after = [f"--openGymPort={port}", *([] if "seed" in self._places else [f"--simSeed={seed}"]), *others]
        elif others and _ALL not in self._places:
            raise ConfigError(f"arguments: {others[0]} has no place in the command, where {{arguments}} stands for all")
        else:
            after = []
        values = {"port": str(port), "seed": str(seed), **{name: _text(value) for name, value in arguments.items()}}
        if self._is_shell:
            quoted = {name: shlex.quote(value) for name, value in values.items()}
            line = _filled(self._words[0], {**quoted, _ALL: shlex.join(others)})
            return ["/bin/sh", "-c", " ".join([line, *map(shlex.quote, after)])]
        values[_ALL] = " ".join(others)
        spread = (others if word == f"{{{_ALL}}}" else [_filled(word, values)] for word in self._words)
        return [*itertools.chain.from_iterable(spread), *after]


def checked(arguments: Mapping[str, Value]) -> dict[str, Value]:
    """Arguments by their names, which may begin with dashes as ns3-gym's do.

    Raises:
        ConfigError: a name or value cannot be an argument.
    """
    if not isinstance(arguments, Mapping):
        raise ConfigError(f"arguments: {shown(arguments)}, expected a mapping of names to values")
    return dict(_checked(name, value) for name, value in arguments.items())


def _checked(given: object, value: Value) -> tuple[str, Value]:
    name = str(given).lstrip("-")
    if not re.fullmatch(r"[\w:.-]+", name) or not isinstance(given, str):
        raise ConfigError(f"arguments: {shown(given)} is no name of an argument")
    if name in _SET_BY_RUN:
        raise ConfigError(f"arguments: {name!r} is set for each run and cannot be given here")
    if not isinstance(value, str | int | float | np.generic) or "\0" in str(value):
        raise ConfigError(f"arguments: {name} is {shown(value)}, expected a text, a number, true or false")
    return name, value.item() if isinstance(value, np.generic) else value


def _filled(text: str, values: Mapping[str, str]) -> str:
    return _PLACE.sub(lambda found: values.get(found[1], found[0]), text)


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _program(name: str, cwd: Path | None) -> str | None:
    is_path = "/" in name
    return shutil.which(str(cwd / name) if cwd is not None and is_path else name)
