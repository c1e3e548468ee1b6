# SPDX-License-Identifier: GPL-2.0-only
"""Errors of ns3-gym's protocol."""

from __future__ import annotations


class ProtocolError(RuntimeError):
    """The peer sent something that the protocol does not allow here."""


class ProtocolTimeout(ProtocolError):
    """The peer did not answer in time."""


class PeerGone(ProtocolError):
    """The peer closed the connection, or the peer's process has ended."""
