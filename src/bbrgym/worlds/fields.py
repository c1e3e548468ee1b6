# SPDX-License-Identifier: GPL-2.0-only
"""The columns of every world's arrays, read from the compiled tables.

Tables: world/fields.def, world/ack_record.def, world/packet_log.def, cc/tunables.def.
"""

from __future__ import annotations

from typing import NamedTuple

import bbrgym._cc as _cc


class Field(NamedTuple):
    """A measured field."""

    name: str  # unique in its table, with the unit where it has one
    unit: str  # of the values
    visibility: str  # ``sender``: a real sender knows it; ``omniscient``: privileged state
    meaning: str  # one line for people


def _declared(table: str) -> tuple[Field, ...]:
    return tuple(Field(*row) for row in _cc.fields()[table])


FLOW_FIELDS = _declared("flow_stats")
"""The measurements of each flow, every interval."""

LINK_FIELDS = _declared("link_stats")
"""The measurements of the bottleneck, every interval."""

FLOW_SUMMARY_FIELDS = _declared("flow_summary")
"""The measurements of each flow over a whole run."""

LINK_SUMMARY_FIELDS = _declared("link_summary")
"""The measurements of the bottleneck over a whole run."""

ACK_FIELDS = _declared("ack_trace")
"""The columns of an ACK trace: the sample of an ACK and the controller's state after it."""


class PacketCode(NamedTuple):
    """An event of a log of packets, or a flag."""

    name: str  # unique among them
    meaning: str  # one line for people


PACKET_EVENTS = tuple(PacketCode(*row) for row in _cc.packet_codes()[0])
"""The events of a log of packets, by their code."""

PACKET_FLAGS = tuple(PacketCode(*row) for row in _cc.packet_codes()[1])
"""The flags of a log of packets, from the lowest bit on."""


def names_of(fields: tuple[Field, ...]) -> tuple[str, ...]:
    """Return the names of fields."""
    return tuple(field.name for field in fields)
