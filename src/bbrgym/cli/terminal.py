# SPDX-License-Identifier: GPL-2.0-only
"""Parts that the commands share: their options, and how they print."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import resources
from typing import Any

from rich.console import Console
from rich.progress import Progress, ProgressColumn

from bbrgym.run_folder import RunFolder

_WIDTH = 200  # columns of output that goes to a file or pipe: enough for any table


def add_command(
    commands: Any, name: str, purpose: str, description: str, run: Callable[[argparse.Namespace], None]
) -> argparse.ArgumentParser:
    """Add a command with a description and examples."""
    command: argparse.ArgumentParser = commands.add_parser(
        name, help=purpose, description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    command.set_defaults(run=run)
    return command


def add_composed_command(
    commands: Any, name: str, purpose: str, description: str, run: Callable[[argparse.Namespace], None]
) -> argparse.ArgumentParser:
    """Add a command whose options are those of ``conf/<name>.yaml``."""
    options = (resources.files("bbrgym") / "conf" / f"{name}.yaml").read_text(encoding="utf-8")
    command = add_command(commands, name, purpose, description, run)
    command.epilog = "options and their defaults:\n\n" + options
    command.add_argument("overrides", nargs="*", metavar="OPTION=VALUE")
    return command


class Interrupted(KeyboardInterrupt):
    """A command was interrupted; the text says how it goes on."""


@contextmanager
def advice_on_interrupt(folder: RunFolder, *command: str) -> Iterator[None]:
    """Add the command that resumes to a KeyboardInterrupt out of a block, if the run folder can be resumed.

    Args:
        folder: that the block writes.
        command: arguments of the command bbrgym that goes on.
    """
    try:
        yield
    except KeyboardInterrupt as error:
        if not folder.has_config():
            raise
        raise Interrupted(f"what is finished is kept; {shlex.join(['bbrgym', *command])} goes on") from error


@contextmanager
def progress_bar(*columns: ProgressColumn, **fields: Any) -> Iterator[Callable[..., None]]:
    """Yield a function that updates a progress bar on standard error; the bar appears with its first call.

    Args:
        columns: of the bar.
        fields: texts of the columns before the first update, by name.
    """
    bar = Progress(*columns, console=Console(stderr=True))
    task = bar.add_task("", **fields)

    def update(**values: Any) -> None:
        bar.update(task, **values)
        bar.start()

    try:
        yield update
    finally:
        if bar.live.is_started:
            bar.stop()


def output_console() -> Console:
    """Return a console on standard output."""
    console = Console()
    return console if console.is_terminal else Console(width=_WIDTH)


def error_console() -> Console:
    """Return a console on standard error that prints text as it is."""
    return Console(stderr=True, soft_wrap=True, markup=False, emoji=False, highlight=False)


def print_line(console: Console, line: str) -> None:
    """Print a line as it is."""
    console.print(line, markup=False, emoji=False, highlight=False, soft_wrap=True)
