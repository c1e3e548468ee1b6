# SPDX-License-Identifier: GPL-2.0-only
"""Traces of a run: every packet and every ACK's decision, as qlog, pcapng or CSV."""

from __future__ import annotations

from bbrgym.trace.tracing import FORMATS, Format, TracedFlowCounts, TraceResult, write_trace

__all__ = ["FORMATS", "Format", "TraceResult", "TracedFlowCounts", "write_trace"]
