# SPDX-License-Identifier: GPL-2.0-only
"""``bbrgym doctor``: what a world misses on this machine."""

from __future__ import annotations

import argparse

from rich.table import Table

from bbrgym.cli.terminal import named_table, print_results
from bbrgym.errors import ConfigError

_WORLDS = ("linux",)  # the others need nothing of the machine


def machine_table() -> tuple[Table, list[str]]:
    """Return a row for each thing that the world linux uses, and the names of those that it needs and lacks."""
    from bbrgym.worlds.linux_machine import examine

    table = named_table("World linux on this machine", "what", "there", "found", "remedy", "still works")
    checks = examine()
    for check in checks:
        missing = () if check.is_there else (check.remedy, check.without)
        table.add_row(check.name, "yes" if check.is_there else "NO", check.found, *missing)
    return table, [check.name for check in checks if check.is_needed and not check.is_there]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("world", choices=_WORLDS, help="the world")


def run(options: argparse.Namespace) -> None:
    """Print the table.

    Raises:
        ConfigError: the world cannot run here.
    """
    table, missing = machine_table()
    print_results(table)
    if missing:
        raise ConfigError(f"world {options.world} cannot run on this machine: it needs {', '.join(missing)}")
