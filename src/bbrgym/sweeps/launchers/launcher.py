# SPDX-License-Identifier: GPL-2.0-only
"""The interface of launchers."""

from __future__ import annotations

import importlib
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import ClassVar

from bbrgym.errors import MissingExtraError
from bbrgym.sweeps.task import JobEnd, Task
from bbrgym.targets import Target


class Launcher(Target):
    """Runs jobs in processes, here or on other machines.

    Attributes:
        library: module that it needs, and the extra of bbrgym that brings it. Default: none.
    """

    library: ClassVar[tuple[str, str] | None] = None

    @property
    @abstractmethod
    def threads(self) -> int:
        """Return the number of threads that a job may use."""

    @abstractmethod
    def run(self, tasks: Sequence[Task]) -> Iterator[JobEnd]:
        """Run all tasks and yield the end of each, as they end; if the iterator is closed, all that run are ended.

        Raises:
            SweepError: the jobs did not end in time.
        """

    def require_library(self) -> None:
        """Import its library.

        Raises:
            MissingExtraError: the library is not installed.
        """
        if self.library is not None:
            module, extra = self.library
            try:
                importlib.import_module(module)
            except ModuleNotFoundError as error:
                raise MissingExtraError(f"launcher={self.name or type(self).__name__}", extra, error) from error
