# SPDX-License-Identifier: GPL-2.0-only
"""The arrays of worlds, and the memory shared with worker processes.

The arrays of all worlds of a vector lie in one anonymous file, which each worker maps. It only grows, so an old view
never points behind an end. A worker's mailbox is another.
"""

from __future__ import annotations

import json
import mmap
import os
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Table = NDArray[np.float64]
Flags = NDArray[np.bool_]


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
    """The arrays of a vector of worlds, in given or new memory."""

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
        """Make an anonymous file: in no folder, gone with the last descriptor and mapping."""
        shared = cls(os.memfd_create("bbrgym-arrays", os.MFD_CLOEXEC))
        shared._free = weakref.finalize(shared, os.close, shared.fd)
        return shared

    def close(self) -> None:
        """Give the descriptor back (the owner's task); a second call does nothing."""
        if self._free is not None:
            self._free()

    def arrays(self, shape: Shape) -> Arrays:
        """Lay arrays out in place of the former ones, whose views show the new contents."""
        self.shape = shape
        if os.fstat(self.fd).st_size < shape.size_bytes:
            os.ftruncate(self.fd, shape.size_bytes)
        return Arrays(shape, mmap.mmap(self.fd, 0))


class Mailbox:
    """A file in memory that holds an owner's request or the worker's answer: a JSON array.

    A pipe would do, but for long texts: to write one waits, without a timeout, for the worker to read.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd

    @classmethod
    def create(cls) -> Mailbox:
        """Make a mailbox with a new anonymous file."""
        return cls(os.memfd_create("bbrgym-mailbox", os.MFD_CLOEXEC))

    def write(self, *message: Any) -> None:
        """Replace the message."""
        text = json.dumps(message).encode()
        os.pwrite(self.fd, text, 0)
        os.ftruncate(self.fd, len(text))

    def read(self) -> list[Any]:
        """Return the message as last written."""
        message: list[Any] = json.loads(os.pread(self.fd, os.fstat(self.fd).st_size, 0))
        return message
