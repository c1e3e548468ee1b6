# SPDX-License-Identifier: GPL-2.0-only
"""Parts that the commands share: run folders and printing."""

from __future__ import annotations

import datetime
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from bbrgym.errors import ConfigError, SweepError
from bbrgym.runs.drawing import chosen_by_environment, reason_not_to_draw

if TYPE_CHECKING:
    from bbrgym.evaluate.runner import EvaluationProgress
    from bbrgym.runs.run_folder import RunFolder

_WIDTH = 240  # columns of output that goes to a file or pipe: enough for any table


@contextmanager
def advice_on_interrupt(folder: RunFolder, *command: str) -> Iterator[None]:
    """Add the command that resumes to a KeyboardInterrupt out of a block, if the run folder can be resumed."""
    try:
        yield
    except KeyboardInterrupt as error:
        if not folder.has_config() or folder.owner() is not None:  # of another process, which goes on
            raise
        raise KeyboardInterrupt(f"what is finished is kept; {shlex.join(['bbrgym', *command])} goes on") from error


def new_run_dir(name: str) -> Path:
    """Return the path of a new folder in runs/, with a name and the time."""
    return Path("runs") / f"{name}-{datetime.datetime.now().astimezone():%Y%m%d-%H%M%S}"


def take_output_dir(config: dict[str, Any], run_dir: Path | None = None) -> Path | None:
    """Take the option output_dir out of a command's configuration; None for a new folder.

    Args:
        config: of the command.
        run_dir: folder that hydra.run.dir names, in place of the option. Default: none.

    Raises:
        ConfigError: both are given.
    """
    given = config.pop("output_dir")
    if given is not None and run_dir is not None:
        raise ConfigError(f"output_dir: is {given!r} with hydra.run.dir, expected one of them")
    return run_dir if given is None else Path(str(given))


def take_run_dir(config: dict[str, Any], run_dir: Path | None = None) -> tuple[Path | None, bool]:
    """Take the run folder out of a command's configuration (None: a new one), and whether to resume.

    Args, Raises:
        See `take_output_dir`; resume=DIR names the folder too.
    """
    given, resume = take_output_dir(config, run_dir), config.pop("resume")
    if isinstance(resume, str):
        if given is not None:
            raise ConfigError(f"resume: is {resume!r} with output_dir, expected true, or resume=DIR alone")
        return Path(resume), True
    if not isinstance(resume, bool):
        raise ConfigError(f"resume: is {resume!r}, expected true, false or a run folder")
    if resume and given is None:
        raise ConfigError("resume: is true without output_dir, expected both, or resume=DIR")
    return given, resume


class BarState(NamedTuple):
    """Contents of a progress bar."""

    completed: float
    total: float
    before: str  # the bar
    behind: str = ""


@contextmanager
def progress_bar(
    shown: Callable[[Any], BarState], has_line: Callable[[Any], bool] | None = None
) -> Iterator[Callable[[Any], None]]:
    """Yield a function that shows progress in a bar on standard error; the bar appears with its first call.

    Args:
        shown: what the bar shows of a progress.
        has_line: whether a progress is a line of its own where standard error is not a terminal. Default: the bar is
            shown there too, when it ends.
    """
    console = Console(stderr=True, emoji=False)
    if has_line is not None and not console.is_terminal:
        lines = error_console()
        yield (
            lambda progress: (
                lines.print("{0.before}  {0.behind}".format(shown(progress))) if has_line(progress) else None
            )
        )
        return
    texts = [TextColumn(f"{{task.fields[{name}]}}", markup=False) for name in ("before", "behind")]
    share = TaskProgressColumn("{task.percentage:>3.0f}%", style="progress.percentage", markup=False)
    time = TimeRemainingColumn(elapsed_when_finished=True)
    bar = Progress(texts[0], BarColumn(), share, texts[1], time, console=console)
    task = bar.add_task("")

    def show(progress: Any) -> None:
        bar.update(task, **shown(progress)._asdict())
        bar.start()

    try:
        yield show
    finally:
        if bar.live.is_started:
            bar.stop()


def runs_bar() -> AbstractContextManager[Callable[[EvaluationProgress], None]]:
    """Return `progress_bar` for the runs of an evaluation."""

    def shown(progress: EvaluationProgress) -> BarState:
        runs = f"{progress.done_runs}/{progress.total_runs} runs"
        time = f"{progress.done_s:.0f} of {progress.total_s:.0f} simulated s"
        return BarState(progress.done_s, progress.total_s, runs, time)

    return progress_bar(shown)


def check_finished(unfinished: Sequence[str], what: str, resume: Sequence[str]) -> None:
    """Check that all is done.

    Args:
        unfinished: names of what is not done, each with the reason.
        what: they are, and how many there are in all, such as ``of 12 jobs``.
        resume: arguments of the command bbrgym that tries them again.

    Raises:
        SweepError: names what is not done.
    """
    if unfinished:
        again = f"{shlex.join(['bbrgym', *resume])} tries them again"
        lines = [f"{len(unfinished)} {what} are not done; {again}", *(f"  {line}" for line in unfinished)]
        raise SweepError("\n".join(lines))


def named_table(title: str, *headings: str) -> Table:
    """Return an empty table that folds long cells."""
    table = Table(title=title, title_justify="left")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table


def print_results(*results: Table | str) -> None:
    """Print tables and plain texts on standard output."""
    console = Console(emoji=False)
    if not console.is_terminal:
        console = Console(width=_WIDTH, emoji=False)
    for one in results:
        if isinstance(one, str):
            console.print(one, markup=False, emoji=False, highlight=False, soft_wrap=True)
        else:
            console.print(one)


def print_run_folder(path: Path, what: str = "run folder", *, has_page: bool = True, has_figures: bool = False) -> None:
    """Print the places of a command's files and page, and why figures are missing if so."""
    missing = reason_not_to_draw() if has_figures or chosen_by_environment() == "all" else None
    offline = sorted(str(run) for run in path.glob("wandb/offline-run-*"))
    print_results(
        f"{what}: {path}",
        *([f"report: {path / 'report.html'}"] if has_page else []),
        *([missing] if missing is not None else []),
        *([f"kept offline: {shlex.join(['wandb', 'sync', *offline])} uploads it"] if offline else []),
    )


def error_console() -> Console:
    """Return a console on standard error that prints plain text."""
    return Console(stderr=True, soft_wrap=True, markup=False, emoji=False, highlight=False)
