# SPDX-License-Identifier: GPL-2.0-only
"""The command line of a simulation, with placeholders for what differs between runs.

A placeholder is a name in braces: `{port}`, `{seed}`, and the name of each argument. `{arguments}` stands for
``--name=value`` of all arguments without a placeholder of their own. A command without `{port}` gets the arguments of
ns3-gym's simulations at its end: ``--openGymPort=PORT --simSeed=SEED``, then the others. Other braces stay as they are.

A command is a list of words, or a text that is split into words as a shell splits it. Placeholders are filled in after
the split and no shell runs, so a value is never split or expanded. A word ``{arguments}`` becomes a word for each
argument; within a longer word the arguments are quoted, for a program that splits that word again, as ``./ns3 run``
does.

With ``shell=True`` a text is run by ``/bin/sh -c``. Values are quoted then, and no placeholder may stand within quotes.
Where a shell takes quotes for text or reads a part twice (here-documents, backquotes, arithmetic, comments, ``eval``),
no value that needs quotes is taken.
"""

from __future__ import annotations

import itertools
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

#: Within these single quotes do not hold: a shell expands what they enclose, or ends the part at a character of it.
_UNQUOTABLE = re.compile(r"<<|`|\(\(|\$\[|#|\beval\b")
_NEEDS_NO_QUOTES = re.compile(r"[\w./:=,+@%-]*", re.ASCII)
_PLACEHOLDER = re.compile(r"(?<!\$)\{(\w+)\}")  # ${name} is the shell's
_ALL = "arguments"
_SET_BY_RUN = ("port", "seed", "openGymPort", "simSeed", _ALL)


class CommandLine:
    """A command with placeholders.

    Args:
        command: a list of words, or a text that is split into words.
        cwd: directory in which it will run. Default: the current one.
        shell: whether a shell runs the text.

    Raises:
        ConfigError: it is empty, of another type or not properly quoted, or its program does not exist.
    """

    def __init__(self, command: str | Sequence[str], cwd: Path | None = None, *, shell: bool = False) -> None:
        words: Any = command
        if isinstance(command, str):
            try:
                words = [command] if shell else shlex.split(command)
            except ValueError as error:
                raise ConfigError(f"command: {shown(command)} cannot be split into words: {error}") from None
        elif shell:
            raise ConfigError(f"shell: True, but the command is {shown(command)}, expected a text for the shell")
        if not isinstance(words, list | tuple) or not all(isinstance(word, str) for word in words) or not any(words):
            raise ConfigError(f"command: {shown(command)}, expected a text or a list of words")
        self._is_shell, self._words = shell, list(words)
        self._placeholders = {name for word in words for name in _PLACEHOLDER.findall(word)}
        if shell:
            _refuse_quoted_placeholders(words[0])
        elif not _PLACEHOLDER.search(words[0]):
            program = str(cwd / words[0]) if cwd is not None and "/" in words[0] else words[0]
            if shutil.which(program) is None:
                raise ConfigError(f"command: there is no program {words[0]!r}" + (f" in {cwd}" if cwd else ""))

    def words(self, port: int, seed: int, arguments: Mapping[str, Value]) -> list[str]:
        """Return the words to run.

        Args:
            port: on which the agent listens.
            seed: of the run.
            arguments: as `checked` returns them.

        Raises:
            ConfigError: an argument has no place in the command, or a shell cannot be given its value there.
        """
        others = [f"--{name}={_text(value)}" for name, value in arguments.items() if name not in self._placeholders]
        if "port" not in self._placeholders:
            seed_words = [] if "seed" in self._placeholders else [f"--simSeed={seed}"]
            last = [f"--openGymPort={port}", *seed_words, *(() if _ALL in self._placeholders else others)]
        elif others and _ALL not in self._placeholders:
            raise ConfigError(f"arguments: {others[0]} has no place in the command, where {{arguments}} stands for all")
        else:
            last = []
        values = {"port": str(port), "seed": str(seed), **{name: _text(value) for name, value in arguments.items()}}
        if self._is_shell:
            _refuse_unquotable(self._words[0], [*values.values(), *others])
            values = {name: shlex.quote(value) for name, value in values.items()}
        values[_ALL] = shlex.join(others)
        if self._is_shell:
            return ["/bin/sh", "-c", " ".join([_filled(self._words[0], values), *map(shlex.quote, last)])]
        spread = (others if word == f"{{{_ALL}}}" else [_filled(word, values)] for word in self._words)
        return [*itertools.chain.from_iterable(spread), *last]


def checked(arguments: Mapping[str, Value]) -> dict[str, Value]:
    """Return arguments by their names, without the dashes that names may begin with, as ns3-gym's do.

    Raises:
        ConfigError: a name or value cannot be an argument.
    """
    if not isinstance(arguments, Mapping):
        raise ConfigError(f"arguments: {shown(arguments)}, expected a mapping of names to values")
    return dict(_checked(name, value) for name, value in arguments.items())


def _checked(given: object, value: Value) -> tuple[str, Value]:
    name = str(given).lstrip("-")
    if not re.fullmatch(r"[\w:.-]+", name) or not isinstance(given, str):
        raise ConfigError(f"arguments: {shown(given)} is not a name of an argument")
    if name in _SET_BY_RUN:
        raise ConfigError(f"arguments: {name!r} is set for each run and cannot be given here")
    if not isinstance(value, str | int | float | np.generic) or "\0" in str(value):
        raise ConfigError(f"arguments: {name} is {shown(value)}, expected a text, a number, true or false")
    return name, value.item() if isinstance(value, np.generic) else value


def _refuse_quoted_placeholders(line: str) -> None:
    """Raise ConfigError for a placeholder within quotes: a shell would run `$(...)` in its value, or end the quotes."""
    for found in _PLACEHOLDER.finditer(line):
        try:
            shlex.split(line[: found.start()])
        except ValueError:
            raise ConfigError(
                f"command: {found[0]} stands within quotes or after a backslash, expected it outside: "
                "with shell=True values are quoted as they are filled in"
            ) from None


def _refuse_unquotable(line: str, values: Sequence[str]) -> None:
    """Raise ConfigError for a value that needs quotes, where a shell's line has a part in which they do not hold."""
    part = _UNQUOTABLE.search(line)
    for value in values:
        if part is not None and not _NEEDS_NO_QUOTES.fullmatch(value):
            raise ConfigError(
                f"arguments: {shown(value)} cannot be quoted for a shell whose command has {part[0]!r}, expected "
                "letters, digits and . / : = , + @ % _ - alone, or a command without it"
            )


def _filled(text: str, values: Mapping[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), text)


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
