# SPDX-License-Identifier: GPL-2.0-only
"""The worker's side of the shared memory: carries out the owner's commands."""

from __future__ import annotations

import json
from typing import Any

from bbrgym.worlds.layout import FIELD_LISTS, Command, Real, SharedMemory, Status, Word


class Server:
    """Carries out the owner's commands on one simulation after the other."""

    def __init__(self, engine: Any, memory: SharedMemory) -> None:
        self._engine = engine
        self._memory = memory
        self._simulation: Any = None
        self._actions = {
            Command.DESCRIBE: self._describe,
            Command.RESET: self._reset,
            Command.ADVANCE: self._advance,
            Command.SUMMARISE: self._summarise,
        }

    def serve(self) -> None:
        """Carries out the command in the memory and leaves the outcome there."""
        words = self._memory.words
        try:
            self._actions[words[Word.COMMAND]]()
        except ValueError as error:
            self._memory.write_text(str(error).encode())
            self._memory.words[Word.STATUS] = Status.INVALID
        except Exception as error:  # noqa: BLE001 - the owner raises it
            self._memory.write_text(f"{type(error).__name__}: {error}".encode())
            self._memory.words[Word.STATUS] = Status.FAILED
        else:
            self._memory.words[Word.STATUS] = Status.OK

    def _describe(self) -> None:
        fields = [getattr(self._engine, name)() for name in FIELD_LISTS]
        self._memory.write_text(json.dumps(fields).encode())

    def _reset(self) -> None:
        if self._simulation is not None:
            self._simulation.close()
            self._simulation = None
        self._memory.follow()
        tables = self._memory.tables
        self._simulation = self._engine.Simulation(
            self._memory.read_text(),
            self._memory.words[Word.SEED],
            tables.tunables,
            tables.flow_stats,
            tables.link_stats,
        )
        self._tell_time()

    def _advance(self) -> None:
        self._simulation.advance(self._memory.reals[Real.DURATION_S])
        self._tell_time()

    def _summarise(self) -> None:
        self._simulation.summary(self._memory.tables.flow_summary, self._memory.tables.link_summary)

    def _tell_time(self) -> None:
        self._memory.reals[Real.NOW_S] = self._simulation.now_s
        self._memory.words[Word.DONE] = self._simulation.done
