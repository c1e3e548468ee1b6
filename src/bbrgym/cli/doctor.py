# SPDX-License-Identifier: GPL-2.0-only
"""``bbrgym doctor``: what worlds miss on this machine."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from bbrgym.cli.plain_command import Words
from bbrgym.cli.terminal import named_table, print_results
from bbrgym.errors import ConfigError, nearest, one_line
from bbrgym.worlds import registered_worlds, world_spec
from bbrgym.worlds.engine import engine_class

DESCRIPTION = """\
Shows which worlds can run on this machine (default: all of them), and what the world linux misses here.

example:
  bbrgym doctor linux
"""
WORDS = Words("[WORLD]", 0)
_OF_THE_MACHINE = "linux"  # the world that needs more of the machine than its engine


def engines_table(worlds: Sequence[str]) -> tuple[Table, dict[str, str]]:
    """Return a row for each world, and by world why the engine cannot be loaded."""
    table, problems = named_table("Worlds on this machine", "world", "there", "found"), {}
    for world in worlds:
        try:
            engine_class(world_spec(world).engine)
        except (ImportError, OSError) as error:  # a package or a library is missing
            problems[world] = one_line(error)
        table.add_row(world, "NO" if world in problems else "yes", problems.get(world, "its engine can be loaded"))
    return table, problems


def machine_table() -> tuple[Table, list[str]]:
    """Return a row for each thing that the world linux uses, and the names of required ones that are missing."""
    from bbrgym.worlds.linux_machine import examine

    table = named_table("World linux on this machine", "what", "there", "found", "remedy", "still works")
    checks = examine()
    for check in checks:
        missing = () if check.is_there else (check.remedy, check.without)
        table.add_row(check.name, "yes" if check.is_there else "NO", check.found, *missing)
    return table, [check.name for check in checks if check.is_needed and not check.is_there]


def run(words: Sequence[str], given: Sequence[str]) -> None:  # noqa: ARG001
    """Print the tables. Raises ConfigError: a world cannot run here."""
    worlds = words or list(registered_worlds())
    if worlds[0] not in registered_worlds():
        raise ConfigError(f"WORLD: is {worlds[0]!r}; {nearest(worlds[0], registered_worlds())}")
    table, problems = engines_table(worlds)
    print_results(table)
    if _OF_THE_MACHINE in worlds and _OF_THE_MACHINE not in problems:
        table, missing = machine_table()
        print_results(table)
        if missing:
            problems[_OF_THE_MACHINE] = f"it needs {', '.join(missing)}"
    if problems:
        raise ConfigError("; ".join(f"world {one} cannot run on this machine: {why}" for one, why in problems.items()))
