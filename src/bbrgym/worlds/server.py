# SPDX-License-Identifier: GPL-2.0-only
"""The worker's side: carries out the owner's requests on an engine of one world."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from bbrgym.worlds.errors import ControllerFailure, LateRunFailure, reason_of
from bbrgym.worlds.layout import Arrays, Mailbox, Shape, SharedArrays


class Server:
    """An engine of one world, and where requests and arrays lie.

    Its public methods but `serve` are the requests, by name.

    Args:
        engine: class of the engine.
        options: of the engine.
        mailbox: shared with the owner.
        shared: memory of the arrays of all worlds.
        index: which rows of them are this world's.
    """

    def __init__(
        self, engine: Any, options: Mapping[str, Any], mailbox: Mailbox, shared: SharedArrays, index: int
    ) -> None:
        self._engine = engine(1, 1, math.inf, **options)
        self._mailbox = mailbox
        self._shared = shared
        self._index = index
        self._arrays: Arrays | None = None

    def serve(self) -> None:
        """Carry out the request in the mailbox and leave the outcome there: kind and text."""
        request, *arguments = self._mailbox.read()
        try:
            answer = getattr(self, request)(*arguments)
        except ValueError as error:  # the caller's mistake: nothing ran
            self._mailbox.write("invalid", str(error))
        except ControllerFailure as error:
            self._mailbox.write("controller", str(error), error.traceback_text)
        except Exception as error:  # noqa: BLE001 - the owner raises it
            self._mailbox.write("late" if isinstance(error, LateRunFailure) else "failed", reason_of(error))
        else:
            self._mailbox.write("ok", answer or "")

    def lay_out(self, *shape: int) -> None:
        """Use arrays of a `Shape`."""
        self._arrays = self._shared.arrays(Shape(*shape))
        self._engine.lay_out(self._arrays.shape.flows, *self._arrays.rows(slice(self._index, self._index + 1)))

    def reset(self, scenario_json: str | None, seed: int) -> None:
        """Begin a run."""
        self._engine.reset(0, scenario_json, seed)

    def advance(self, duration_s: float) -> None:
        """Run for so much simulated time."""
        self._engine.advance(np.array([duration_s], np.float64))

    def links(self) -> str:
        """Return the rows of the links as JSON."""
        return json.dumps(self._engine.links(0).tolist())

    def summary(self, flows: int) -> None:
        """Write the measurements of so many flows and of the link."""
        arrays: Any = self._arrays
        self._engine.summary(0, arrays.flow_summary[self._index, :flows], arrays.link_summary[self._index])
