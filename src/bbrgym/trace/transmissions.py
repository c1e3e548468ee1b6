# SPDX-License-Identifier: GPL-2.0-only
"""A number for each transmission of a flow, like QUIC's packet numbers, and the ones that an ACK reports first."""

from __future__ import annotations

import bisect
from collections.abc import Iterator

from bbrgym.trace.rows import PacketRow

_TRIM = 4096  # acknowledged segments that are kept until they are removed at once


class Transmissions:
    """The segments of a flow that are not yet acknowledged, and the latest transmission of each."""

    def __init__(self) -> None:
        self.count = 0
        self._starts: list[int] = []  # of segments in order; those before _first are acknowledged
        self._first = 0
        self._latest: dict[int, int] = {}
        self._sacked: set[int] = set()
        self._blocks: list[list[int]] = []  # of the ACK before

    def sent(self, offset_bytes: int) -> int:
        """Return the number of a transmission that begins with this byte."""
        number = self.count
        self.count += 1
        if offset_bytes not in self._latest:
            if self._starts and offset_bytes < self._starts[-1]:
                bisect.insort(self._starts, offset_bytes, lo=self._first)
            else:
                self._starts.append(offset_bytes)
        self._latest[offset_bytes] = number
        return number

    def latest(self, offset_bytes: int) -> int | None:
        """Return the number of the latest transmission of a segment; None: there is none that waits for an ACK."""
        return self._latest.get(offset_bytes)

    def acknowledged(self, ack: PacketRow) -> list[tuple[int, int]]:
        """Return the numbers of the segments that an ACK is the first to report: ranges, both ends included."""
        numbers = [*self._newly_acked(ack.acked_bytes), *self._newly_sacked(ack.blocks[: ack.block_count])]
        return _ranges(sorted(numbers))

    def _newly_acked(self, acked_bytes: int) -> Iterator[int]:
        end = bisect.bisect_left(self._starts, acked_bytes, lo=self._first)
        for start in self._starts[self._first : end]:
            number = self._latest.pop(start)
            if start in self._sacked:
                self._sacked.remove(start)
            else:
                yield number
        self._first = end
        if self._first > _TRIM:
            del self._starts[: self._first]
            self._first = 0

    def _newly_sacked(self, blocks: list[list[int]]) -> Iterator[int]:
        for begin, end in blocks:
            at = bisect.bisect_left(self._starts, begin, lo=self._first)
            while at < len(self._starts) and self._starts[at] < end:
                start = self._starts[at]
                known = next((known for known in self._blocks if known[0] <= start < known[1]), None)
                if known is not None:  # reported before
                    at = bisect.bisect_left(self._starts, known[1], lo=at)
                    continue
                if start not in self._sacked:
                    self._sacked.add(start)
                    yield self._latest[start]
                at += 1
        self._blocks = blocks


def _ranges(numbers: list[int]) -> list[tuple[int, int]]:
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ranges
