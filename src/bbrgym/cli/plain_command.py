# SPDX-License-Identifier: GPL-2.0-only
"""Commands that are not Hydra programs: words, then options OPTION=VALUE as Hydra programs have them."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from importlib import resources
from types import ModuleType
from typing import Any, NamedTuple

from bbrgym.config.overrides import parse_override
from bbrgym.errors import ConfigError

_OPTION = re.compile(r"~|\+{0,2}[A-Za-z_][\w.]*=")


class Words(NamedTuple):
    """Words that a command takes before its options, as its usage shows them, and how many."""

    shown: str
    least: int = 1
    most: float = 1

    def check(self, command: str, given: Sequence[str]) -> None:
        """Raise ConfigError unless there are as many."""
        if not self.least <= len(given) <= self.most:
            raise ConfigError(f"{command}: {' '.join(given) or 'nothing'} is given, expected {self.shown or 'no word'}")


def add_plain_command(commands: Any, name: str, purpose: str, module: ModuleType) -> None:
    """Add a command to the parser.

    Args:
        commands: of the parser.
        name: of the command, and of the file in conf/ with its options if it has any.
        purpose: in one line.
        module: the command's, with DESCRIPTION, WORDS and `run`, which gets the words and options as given; HAS_OPTIONS
            if it has some without a file.
    """
    file, words = resources.files("bbrgym") / "conf" / f"{name}.yaml", module.WORDS
    text, has_file = module.DESCRIPTION, file.is_file()
    has_options = has_file or getattr(module, "HAS_OPTIONS", False)
    if has_file:
        text += "\noptions and their defaults:\n\n" + file.read_text(encoding="utf-8")
    style = argparse.RawDescriptionHelpFormatter
    usage = f"bbrgym {name} {words.shown}{' [OPTION=VALUE ...]' if has_options else ''}"
    command = commands.add_parser(name, help=purpose, usage=usage, description=text, formatter_class=style)
    command.add_argument("arguments", nargs="*", help=argparse.SUPPRESS)

    def run(options: argparse.Namespace) -> None:
        given = [one for one in options.arguments if _OPTION.match(one)]
        asked = [one for one in options.arguments if one not in given]
        words.check(name, asked)
        if given and not has_options:
            raise ConfigError(f"{given[0]}: is not an option, bbrgym {name} has none")
        module.run(asked, given)

    command.set_defaults(run_command=run)


def values_of(given: Sequence[str]) -> dict[str, Any]:
    """Return the values of options by name, where no file names them; several with commas between them are a list."""
    values: dict[str, Any] = {}
    for name, _, text in (one.partition("=") for one in given):
        override = parse_override(f"{name}={text}")
        values[name] = (parse_override(f"{name}=[{text}]") if override.is_sweep_override() else override).value()
    return values
