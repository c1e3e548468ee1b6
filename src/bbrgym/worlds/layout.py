# SPDX-License-Identifier: GPL-2.0-only
"""The arrays of worlds, and the memory that worlds and their worker processes share.

The arrays of all worlds of a vector lie in one anonymous file, which each worker maps. A worker's mailbox is another::

    0      control words (below)
    4096   text (UTF-8)

Both files only grow, so an old view never points behind an end. Numbers are native 64-bit integers and doubles.
"""

from __future__ import annotations

import enum
import mmap
import os
import weakref
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

Table = NDArray[np.float64]
Flags = NDArray[np.bool_]

_PAGE_BYTES = 4096
_WORD_BYTES = 8
_REALS_AT_WORD = 64
_MIN_TEXT_BYTES = 64 * 1024


class Request(enum.IntEnum):
    """Requests of the owner."""

    LAY_OUT = 1
    RESET = 2  # text: the resolved scenario as JSON, unless TEXT_BYTES is NO_TEXT
    ADVANCE = 3
    SUMMARISE = 4


class Status(enum.IntEnum):
    """Outcomes of a request; text: the message, unless OK."""

    OK = 0
    INVALID = 1  # a ValueError of the engine: the caller's mistake, nothing ran
    FAILED = 2  # any other exception
    LATE = 3  # a run in real time that was late


class Word(enum.IntEnum):
    """Integer control words."""

    REQUEST = 0
    STATUS = 1
    SEED = 2
    FLOWS = 3  # of the scenario to summarise
    TEXT_BYTES = 4  # length of the text in use
    TEXT_CAPACITY_BYTES = 5
    SHAPE = 8  # and the words after it: Shape, field by field


class Real(enum.IntEnum):
    """Control words that are doubles."""

    DURATION_S = 0


NO_TEXT = -1


@dataclass(frozen=True)
class Shape:
    """Numbers of worlds, of flows in each, and of the arrays' columns."""

    worlds: int
    flows: int
    tunables: int
    flow_fields: int
    link_fields: int
    flow_summary_fields: int
    link_summary_fields: int

    @property
    def arrays(self) -> dict[str, tuple[type[np.generic], tuple[int, ...]]]:
        """Type and shape of each array, in the order in memory."""
        rows = (self.worlds, self.flows)
        return {
            "tunables": (np.float64, (*rows, self.tunables)),
            "flow_stats": (np.float64, (*rows, self.flow_fields)),
            "link_stats": (np.float64, (self.worlds, self.link_fields)),
            "flow_summary": (np.float64, (*rows, self.flow_summary_fields)),
            "link_summary": (np.float64, (self.worlds, self.link_summary_fields)),
            "now_s": (np.float64, (self.worlds,)),
            "done": (np.bool_, (self.worlds,)),
        }

    @property
    def size_bytes(self) -> int:
        """Size of all arrays together."""
        return sum(int(np.prod(dims)) * np.dtype(kind).itemsize for kind, dims in self.arrays.values())


class Arrays:
    """The arrays of a vector of worlds, in given memory or their own."""

    tunables: Table
    flow_stats: Table
    link_stats: Table
    flow_summary: Table
    link_summary: Table
    now_s: Table
    done: Flags

    def __init__(self, shape: Shape, buffer: mmap.mmap | None = None) -> None:
        self.shape = shape
        at_byte = 0
        for name, (kind, dims) in shape.arrays.items():
            array: Any = np.zeros(dims, kind) if buffer is None else np.ndarray(dims, kind, buffer, at_byte)
            setattr(self, name, array)
            at_byte += array.nbytes

    def rows(self, worlds: slice) -> tuple[Table, Table, Table, Table, Flags]:
        """Return the arrays of `Engine.lay_out`, of some worlds."""
        return (
            self.tunables[worlds],
            self.flow_stats[worlds],
            self.link_stats[worlds],
            self.now_s[worlds],
            self.done[worlds],
        )

    def fill(self, former: Sequence[NDArray[Any]]) -> None:
        """Take over the contents of `rows` with room for fewer flows, if there are any; the rest is NaN."""
        for table in (self.tunables, self.flow_stats, self.link_stats):
            table[:] = np.nan
        self.now_s[:], self.done[:] = 0.0, False
        array: NDArray[Any]
        for array, old in zip(self.rows(slice(None)), former, strict=False):
            array[tuple(slice(length) for length in old.shape)] = old


class SharedArrays:
    """The file in which arrays lie.

    Attributes:
        fd: its descriptor.
        shape: of the arrays that were laid out last.
    """

    shape: Shape

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._free: weakref.finalize[..., SharedArrays] | None = None

    @classmethod
    def create(cls) -> SharedArrays:
        """Make an anonymous file: in no folder, gone with its last descriptor and mapping."""
        shared = cls(os.memfd_create("bbrgym-arrays", os.MFD_CLOEXEC))
        shared._free = weakref.finalize(shared, os.close, shared.fd)
        return shared

    def close(self) -> None:
        """Give the descriptor back (the owner's task); called again, it does nothing."""
        if self._free is not None:
            self._free()

    def arrays(self, shape: Shape) -> Arrays:
        """Lay arrays out in place of the former ones, whose views show the new contents."""
        self.shape = shape
        if os.fstat(self.fd).st_size < shape.size_bytes:
            os.ftruncate(self.fd, shape.size_bytes)
        return Arrays(shape, mmap.mmap(self.fd, 0))


class Mailbox:
    """One side's mapping of the file that holds an owner's requests and its worker's answers."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._map()

    @classmethod
    def create(cls) -> Mailbox:
        """Make a mailbox with an anonymous file of its own."""
        fd = os.memfd_create("bbrgym-mailbox", os.MFD_CLOEXEC)
        os.ftruncate(fd, _PAGE_BYTES + _MIN_TEXT_BYTES)
        mailbox = cls(fd)
        mailbox.words[Word.TEXT_CAPACITY_BYTES] = _MIN_TEXT_BYTES
        return mailbox

    def _map(self) -> None:
        self._buffer = mmap.mmap(self.fd, 0)
        words = memoryview(self._buffer)[:_PAGE_BYTES]
        self.words: memoryview[Any] = words.cast("q")
        self.reals: memoryview[Any] = words[_REALS_AT_WORD * _WORD_BYTES :].cast("d")

    def write_shape(self, shape: Shape) -> None:
        """Write the layout of the arrays."""
        for i, number in enumerate(astuple(shape)):
            self.words[Word.SHAPE + i] = number

    def read_shape(self) -> Shape:
        """Return the layout of the arrays."""
        return Shape(*(self.words[Word.SHAPE + i] for i in range(len(fields(Shape)))))

    def make_room(self, text: bytes) -> None:
        """Grow for a text (the owner's task)."""
        if len(text) > self.words[Word.TEXT_CAPACITY_BYTES]:
            os.ftruncate(self.fd, _PAGE_BYTES + len(text))
            self._map()
            self.words[Word.TEXT_CAPACITY_BYTES] = len(text)

    def write_text(self, text: bytes) -> None:
        """Replace the text, cut to the room there is."""
        text = text[: self.words[Word.TEXT_CAPACITY_BYTES]]
        self._buffer[_PAGE_BYTES : _PAGE_BYTES + len(text)] = text
        self.words[Word.TEXT_BYTES] = len(text)

    def read_text(self) -> str:
        """Return the text as last written."""
        if len(self._buffer) < _PAGE_BYTES + self.words[Word.TEXT_CAPACITY_BYTES]:
            self._map()  # the owner has made room
        text = self._buffer[_PAGE_BYTES : _PAGE_BYTES + self.words[Word.TEXT_BYTES]]
        return text.decode("utf-8", "replace")
