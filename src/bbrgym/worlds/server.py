# SPDX-License-Identifier: GPL-2.0-only
"""The worker's side: carries out the owner's requests on an engine of one world."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from bbrgym.worlds.errors import LateRunFailure, reason_of
from bbrgym.worlds.layout import NO_TEXT, Arrays, Mailbox, Real, Request, SharedArrays, Status, Word

_ALL = np.ones(1, np.bool_)


class Server:
    """An engine of one world, and where requests and arrays lie.

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
        self._actions = {
            Request.LAY_OUT: self._lay_out,
            Request.RESET: self._reset,
            Request.ADVANCE: self._advance,
            Request.SUMMARISE: self._summarise,
        }

    def serve(self) -> None:
        """Carry out the request in the mailbox and leave the outcome there."""
        mailbox = self._mailbox
        try:
            self._actions[mailbox.words[Word.REQUEST]]()
        except ValueError as error:
            mailbox.write_text(str(error).encode())
            mailbox.words[Word.STATUS] = Status.INVALID
        except Exception as error:  # noqa: BLE001 - the owner raises it
            mailbox.write_text(reason_of(error).encode())
            mailbox.words[Word.STATUS] = Status.LATE if isinstance(error, LateRunFailure) else Status.FAILED
        else:
            mailbox.words[Word.STATUS] = Status.OK

    def _lay_out(self) -> None:
        shape = self._mailbox.read_shape()
        self._arrays = self._shared.arrays(shape)
        self._engine.lay_out(shape.flows, *self._arrays.rows(slice(self._index, self._index + 1)))

    def _reset(self) -> None:
        words = self._mailbox.words
        text = None if words[Word.TEXT_BYTES] == NO_TEXT else self._mailbox.read_text()
        self._engine.reset(0, text, words[Word.SEED])

    def _advance(self) -> None:
        self._engine.advance(self._mailbox.reals[Real.DURATION_S], _ALL)

    def _summarise(self) -> None:
        arrays: Any = self._arrays
        flows = self._mailbox.words[Word.FLOWS]
        self._engine.summary(0, arrays.flow_summary[self._index, :flows], arrays.link_summary[self._index])
