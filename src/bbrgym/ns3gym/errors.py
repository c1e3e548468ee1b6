# SPDX-License-Identifier: GPL-2.0-only
"""What goes wrong between an agent and a simulation."""

from __future__ import annotations


class ProtocolError(RuntimeError):
    """The other end sent what the protocol does not allow here."""


class ProtocolTimeout(ProtocolError):
    """The other end did not answer in time."""


class PeerGone(ProtocolError):
    """The other end closed the connection, or its process has ended."""
