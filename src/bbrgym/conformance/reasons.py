# SPDX-License-Identifier: GPL-2.0-only
"""Reasons why a statement of several cases may fail, or a case is not for an algorithm."""

from __future__ import annotations

RENEWED = (
    "In BBRv2 an RTT equal to the smallest renews its age, so that a flow which sees no queue does not enter PROBE_RTT."
)

INTERRUPTED = (
    "PROBE_RTT is due five seconds after the last smaller RTT in every state. With a round trip of a second those are "
    "five rounds, fewer than STARTUP or a probe takes; with 0.2 s what the queue adds may suffice."
)

SHORT_PATH = (
    "On a short path the bursts that Inflight(1.0) provides for are larger than what was in flight, so that the ACK "
    "that begins the phase ends it."
)

V1_CYCLES = "BBR v1 has no such phase: it cycles through eight gains"
