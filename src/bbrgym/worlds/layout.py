# SPDX-License-Identifier: GPL-2.0-only
"""The memory that a world and its worker share.

::

    0      control words (below)
    4096   tunables [flows, tunables]   flow_stats [flows, fields]     link_stats [fields]
           flow_summary [flows, fields] link_summary [fields]          text (UTF-8)

The file only grows, so an old view never points behind its end. Numbers are native 64-bit integers and doubles.
"""

from __future__ import annotations

import enum
import mmap
import os
from dataclasses import astuple, dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

Table = NDArray[np.float64]

FIELD_LISTS = ("flow_fields", "link_fields", "flow_summary_fields", "link_summary_fields")
"""Functions of an engine's module: a table's columns as tuples (name, unit, visibility, meaning)."""

MIN_TEXT_BYTES = 64 * 1024

_PAGE_BYTES = 4096
_WORD_BYTES = 8
_REALS_AT_WORD = 64


class Command(enum.IntEnum):
    """What the owner asks for."""

    DESCRIBE = 1  # answer in text: the engine's FIELD_LISTS as JSON
    RESET = 2  # text: the resolved scenario as JSON
    ADVANCE = 3
    SUMMARISE = 4


class Status(enum.IntEnum):
    """How it went; text: the message, unless OK."""

    OK = 0
    INVALID = 1  # a ValueError of the engine: the caller's mistake, nothing ran
    FAILED = 2  # any other exception


class Word(enum.IntEnum):
    """Integer control words."""

    COMMAND = 0
    STATUS = 1
    DONE = 2
    SEED = 3
    TEXT_BYTES = 4  # length of the text in use
    SHAPE = 8  # and the words after it: Shape, field by field


class Real(enum.IntEnum):
    """Control words that are doubles."""

    NOW_S = 0
    DURATION_S = 1


@dataclass(frozen=True)
class Shape:
    """Rows and columns of the tables, and room for text. The default: no scenario yet."""

    flows: int = 0
    tunables: int = 0
    flow_fields: int = 0
    link_fields: int = 0
    flow_summary_fields: int = 0
    link_summary_fields: int = 0
    text_capacity_bytes: int = MIN_TEXT_BYTES

    @property
    def tables(self) -> dict[str, tuple[int, ...]]:
        """Shape of each table, in the order in which they lie."""
        return {
            "tunables": (self.flows, self.tunables),
            "flow_stats": (self.flows, self.flow_fields),
            "link_stats": (self.link_fields,),
            "flow_summary": (self.flows, self.flow_summary_fields),
            "link_summary": (self.link_summary_fields,),
        }

    @property
    def text_at_byte(self) -> int:
        """Where the text begins."""
        return _PAGE_BYTES + _WORD_BYTES * sum(int(np.prod(shape)) for shape in self.tables.values())

    @property
    def size_bytes(self) -> int:
        """All of it."""
        return self.text_at_byte + self.text_capacity_bytes


class Tables:
    """The arrays a simulation reads and writes, over a given buffer or memory of their own."""

    tunables: Table
    flow_stats: Table
    link_stats: Table
    flow_summary: Table
    link_summary: Table

    def __init__(self, shape: Shape, buffer: mmap.mmap | None = None) -> None:
        at_byte = _PAGE_BYTES
        for name, dims in shape.tables.items():
            table: Table = np.zeros(dims) if buffer is None else np.ndarray(dims, np.float64, buffer, at_byte)
            setattr(self, name, table)
            at_byte += table.nbytes


class SharedMemory:
    """One side's mapping of the shared file."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._map()

    @classmethod
    def create(cls) -> SharedMemory:
        """An anonymous file: in no folder, gone with its last descriptor and mapping."""
        fd = os.memfd_create("bbrgym-world", os.MFD_CLOEXEC)
        os.ftruncate(fd, _PAGE_BYTES)
        memory = cls(fd)
        memory.reshape(Shape())
        return memory

    def _map(self) -> None:
        self._buffer = mmap.mmap(self._fd, 0)
        words = memoryview(self._buffer)[:_PAGE_BYTES]
        self.words: memoryview[Any] = words.cast("q")
        self.reals: memoryview[Any] = words[_REALS_AT_WORD * _WORD_BYTES :].cast("d")
        self.shape = Shape(*(self.words[Word.SHAPE + i] for i in range(len(fields(Shape)))))
        self.tables = Tables(self.shape, self._buffer)

    @property
    def fd(self) -> int:
        """The file's descriptor."""
        return self._fd

    def reshape(self, shape: Shape) -> None:
        """Owner only: lays the tables out anew. Views of the old ones show what comes to lie there."""
        for i, number in enumerate(astuple(shape)):
            self.words[Word.SHAPE + i] = number
        if os.fstat(self._fd).st_size < shape.size_bytes:
            os.ftruncate(self._fd, shape.size_bytes)
        self._map()

    def follow(self) -> None:
        """Worker only: maps what the owner has laid out."""
        self._map()

    def write_text(self, text: bytes) -> None:
        """Replaces the text, cut to the room there is."""
        text = text[: self.shape.text_capacity_bytes]
        at_byte = self.shape.text_at_byte
        self._buffer[at_byte : at_byte + len(text)] = text
        self.words[Word.TEXT_BYTES] = len(text)

    def read_text(self) -> str:
        """The text as last written."""
        at_byte = self.shape.text_at_byte
        text = self._buffer[at_byte : at_byte + self.words[Word.TEXT_BYTES]]
        return text.decode("utf-8", "replace")
