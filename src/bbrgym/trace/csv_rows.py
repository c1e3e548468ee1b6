# SPDX-License-Identifier: GPL-2.0-only
"""A trace as CSV: the raw rows, one per event of a packet and one per decision."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import BinaryIO

from bbrgym.trace.rows import FLAG_BITS, DecisionRow, Rows, TracedRun, UNPACED_Bps
from bbrgym.worlds import PACKET_EVENTS

DECISION = "decision"
"""The event of a row that holds an ACK's decision."""

_PACKET_COLUMNS = ("offset_bytes", "payload_bytes", "flags", "acked_bytes", "window_bytes", "sack", "queue_bytes")
_DECISION_COLUMNS = DecisionRow._fields[3:]
COLUMNS = ("time_ns", "flow", "event", *_PACKET_COLUMNS, *_DECISION_COLUMNS)


class CsvWriter:
    """Writes rows in order of arrival."""

    def __init__(self, file: BinaryIO, run: TracedRun) -> None:
        self._file = file
        self._names = [flow.name for flow in run.flows]
        self._flags = {0: ""}
        self._now_ns = 0
        self._put([COLUMNS])

    def write(self, rows: Rows) -> None:
        """Write rows that follow the earlier ones."""
        no_packet, no_decision = [""] * len(_PACKET_COLUMNS), [""] * len(_DECISION_COLUMNS)
        lines: list[list[object]] = []
        for row in rows.in_order():
            if isinstance(row, DecisionRow):
                values = ["" if value in (-1, UNPACED_Bps) else value for value in row[3:]]
                lines.append([self._now_ns, self._names[row.flow], DECISION, *no_packet, *values])
                continue
            self._now_ns = row.time_ns
            sack = " ".join(f"{begin}-{end}" for begin, end in row.blocks[: row.block_count])
            line = [row.time_ns, self._names[row.flow], PACKET_EVENTS[row.event].name, row.offset_bytes]
            line += [row.payload_bytes, self._words(row.flags), row.acked_bytes, row.window_bytes, sack]
            lines.append([*line, row.queue_bytes, *no_decision])
        self._put(lines)

    def _words(self, flags: int) -> str:
        if flags not in self._flags:
            self._flags[flags] = " ".join(name for name, bit in FLAG_BITS.items() if flags & bit)
        return self._flags[flags]

    def _put(self, lines: Sequence[Sequence[object]]) -> None:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(lines)
        self._file.write(text.getvalue().encode())
