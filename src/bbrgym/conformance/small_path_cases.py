# SPDX-License-Identifier: GPL-2.0-only
"""The draft's case of a path that holds less than the least window."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from bbrgym.conformance.ack_history import CRUISE, AckHistory
from bbrgym.conformance.draft_case import DraftCase, DraftStatement, Known, statement
from bbrgym.conformance.moments import end_s, moment_is_there
from bbrgym.conformance.setup import MSS_BYTES, CaseSetup, Condition
from bbrgym.conformance.tolerances import CRUISE_SHARE, FLOOR_PKTS, MARGIN


def _three_seconds_of_probe_bw(history: AckHistory, setup: CaseSetup) -> int | None:
    row = history.first(history.in_probe_bw())
    if row is None:
        return None
    return history.first(history["time_us"] > history["time_us"][row] + 4e6 + 40e6 * setup.condition.turn_s)


KEEPS_FLOOR = "cwnd is MinPipeCwnd (4 packets) at least"
PACES = "where the gain is 1, pacing is the bottleneck's rate less its margin, within 2 %"


def _check_small(history: AckHistory, setup: CaseSetup) -> Iterator[DraftStatement]:
    row = history.first(history.in_probe_bw())
    yield moment_is_there("PROBE_BW begins", row, history)
    if row is None:
        return
    cwnd = history["cwnd_pkts"][row:]
    least = int(cwnd.min())
    yield statement(
        KEEPS_FLOOR,
        least >= FLOOR_PKTS,
        f"from {least} to {int(cwnd.max())} packets",
        history.time_s(row + int(cwnd.argmin())),
    )
    inside = history.in_probe_bw()
    bw = np.minimum(history["bw_Bps"], history["bw_lo_Bps"]).astype(float)
    gains = history["pacing_Bps"][inside] / (MARGIN * bw[inside])
    steady = history.is_in(CRUISE) if setup.sender.cc != "bbr" else history.is_in(10, 11, 12, 13, 14, 15)
    own = history["pacing_Bps"][steady].astype(float) * 8e-6 / setup.condition.payload_mbps
    off = float(np.abs(own - MARGIN).max()) if len(own) else math.nan
    yield statement(
        PACES,
        not off > 0.02,
        f"{100 * off:.2f} % off; gains {float(gains.min()):.3f} to {float(gains.max()):.3f}",
        history.time_s(row),
    )
    delivered = int(history["delivered_pkts"][-1] - history["delivered_pkts"][row])
    span_s = end_s(history) - history.time_s(row)
    share = delivered * MSS_BYTES * 8e-6 / span_s / setup.condition.payload_mbps
    yield statement(
        "delayed ACKs do not stall the bottleneck: it is used to 95 %",
        share >= CRUISE_SHARE,
        f"{100 * share:.1f} %",
        end_s(history),
    )


SMALL = (
    Condition(1.0, 0.064),
    Condition(10.0, 0.064),
    Condition(100.0, 0.064),
    Condition(1.0, 1.0),
    Condition(10.0, 1.0),
    Condition(1.0, 10.0),
    Condition(0.1, 100.0),
)

SMALL_BDP = DraftCase(
    number=14,
    name="sub-packet-bdp",
    title="Correctly Managing Sub-Packet BDPs",
    how="A bulk flow over paths with a BDP below a packet, for four seconds and forty rounds of PROBE_BW.",
    conditions=SMALL,
    end=_three_seconds_of_probe_bw,
    check=_check_small,
    known=(
        Known(
            PACES,
            "Four packets take 744 ms here. Where the ACK that a sample begins with was delayed by 40 ms and the "
            "one that ends it was not, they seem to take 706 ms, and max_bw keeps that sample: 5 % above the rate.",
            applies=lambda one: one.rate_mbps == 0.064,
        ),
        Known(
            KEEPS_FLOOR,
            "A packet takes 186 ms here, the SYN 17 ms, so the loss probe leaves early, and the timer of the next, "
            "while one is out, starts the retransmission timeout of a packet that was sent long before: spurious "
            "timeouts at about 0.3 s and 3.7 s. In the recovery that follows BBR v1's window is what is in flight and "
            "what an ACK has delivered: 2 and 1 packets in Linux, which counts the SYN as delivered, and 3 and 1 in "
            "the twin.",
            applies=lambda one: one.rate_mbps == 0.064,
        ),
    ),
    lasts=lambda condition: 30.0 + 120 * condition.turn_s,
)
