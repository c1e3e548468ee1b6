# SPDX-License-Identifier: GPL-2.0-only
"""Errors of worlds that break."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import TypeVar

from bbrgym.errors import WorldError, one_line

LATE_RUN_ATTEMPTS = 3
_Result = TypeVar("_Result")


class LateRunError(WorldError):
    """A refused run in real time: too many packets left late. On a machine less busy the same run succeeds."""


class EngineFailure(Exception):
    """The failure of an engine, which must be made again. The text is a `WorldError`'s whole reason.

    Args:
        reason: cause of the failure.
        place: which of the engine's worlds failed. Default: not known.
    """

    def __init__(self, reason: str, place: int | None = None) -> None:
        super().__init__(reason)
        self.place = place


class ControllerFailure(EngineFailure):
    """The failure of an engine whose controller, a Python class, raised an exception, the cause of this one.

    Args:
        reason: the exception, in a sentence.
        traceback_text: its traceback, which is the user's to read.
    """

    def __init__(self, reason: str, traceback_text: str) -> None:
        super().__init__(reason)
        self.traceback_text = traceback_text


def failure_of(controller: str, error: Exception) -> ControllerFailure:
    """Return the failure that an exception of a controller is."""
    text = "".join(traceback.format_exception(error)).rstrip()
    failure = ControllerFailure(f"{controller}: {type(error).__name__}: {one_line(error)}", text)
    failure.__cause__ = error
    return failure


class LateRunFailure(EngineFailure):
    """The failure of an engine in real time that was too busy: a `LateRunError`'s reason."""


def reason_of(error: Exception) -> str:
    """Return the reason of a `WorldError` that an engine's error causes."""
    is_sentence = isinstance(error, EngineFailure) or type(error) is RuntimeError  # of native code
    return str(error) if is_sentence else f"{type(error).__name__}: {error}"


def repeat_late(run: Callable[[], _Result], on_late: Callable[[LateRunError], None]) -> _Result:
    """Return the result of a run; repeat a late run, `LATE_RUN_ATTEMPTS` runs at most.

    Args:
        run: makes the run.
        on_late: called before each repetition with the error of the run before.

    Raises:
        LateRunError: each run was late.
    """
    for _ in range(LATE_RUN_ATTEMPTS - 1):
        try:
            return run()
        except LateRunError as error:
            on_late(error)
    return run()
