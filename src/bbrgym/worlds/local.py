# SPDX-License-Identifier: GPL-2.0-only
"""A world in this process: nothing between caller and simulation, nothing that survives an abort of it."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bbrgym.worlds.errors import WorldError
from bbrgym.worlds.layout import FIELD_LISTS, Table, Tables
from bbrgym.worlds.world import World


class LocalWorld(World):
    """Runs the engine's Simulation itself."""

    def __init__(self, name: str, engine: str, scenario: Any, seed: int, timeout_s: float) -> None:
        super().__init__(name, scenario, seed, timeout_s)
        self._engine: Any = importlib.import_module(engine)
        self._simulation: Any = None
        self._take_fields(*(getattr(self._engine, fields)() for fields in FIELD_LISTS))
        self.reset()

    @property
    def now_s(self) -> float:
        self._refuse_unless_running()
        return float(self._simulation.now_s)

    @property
    def done(self) -> bool:
        self._refuse_unless_running()
        return bool(self._simulation.done)

    def _reset(self) -> None:
        self._close()
        self._tables = tables = Tables(self._shape())
        with self._world_errors(now_s=0.0):
            self._simulation = self._engine.Simulation(
                self._scenario_json, self._seed, tables.tunables, tables.flow_stats, tables.link_stats
            )
        self._show(tables)

    def _advance(self, seconds: float) -> None:
        with self._world_errors(now_s=self._simulation.now_s):
            self._simulation.advance(seconds)

    def _summary(self) -> tuple[Table, Table]:
        with self._world_errors(now_s=self._simulation.now_s):
            self._simulation.summary(self._tables.flow_summary, self._tables.link_summary)
        return self._tables.flow_summary.copy(), self._tables.link_summary.copy()

    def _can_save(self) -> bool:
        return hasattr(self._engine.Simulation, "save")

    def _save(self) -> Any:
        return self._simulation.save()

    def _restore(self, state: Any) -> None:
        self._reset()
        self._simulation.restore(state)

    def _close(self) -> None:
        if self._simulation is not None:
            self._simulation.close()
            self._simulation = None

    @contextmanager
    def _world_errors(self, now_s: float) -> Iterator[None]:
        try:
            yield
        except ValueError:  # the caller's mistake; nothing ran
            raise
        except Exception as error:
            self._is_running = False
            raise WorldError(self.scenario.name, self.seed, now_s, f"{type(error).__name__}: {error}") from error
