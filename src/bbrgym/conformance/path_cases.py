# SPDX-License-Identifier: GPL-2.0-only
"""The draft's cases of paths with aggregated ACKs, with a BDP below a packet, and with a policer."""

from __future__ import annotations

import math

import numpy as np

from bbrgym.conformance.ack_history import CRUISE, NO_RATE, AckHistory
from bbrgym.conformance.draft_case import Known, draft_case, interrupted
from bbrgym.conformance.setup import HEADER_BYTES, MSS_BYTES, CaseSetup, conditions, paths
from bbrgym.conformance.statements import BANDWIDTH_TOLERANCE, CRUISE_SHARE, FLOOR_PKTS, MARGIN, Statements, Stay

# ---- ACKs that arrive in bursts -----------------------------------------------------------------------

_DOUBLING_ROUNDS = 4  # beside the binary logarithm of the BDP
DOUBLES = "the rate doubles, so that 90 % of it are found in log2(BDP / 10) + 4 rounds"


def _aggregating(setup: CaseSetup) -> None:
    """Let ACKs leave in slots of half a round trip, as a radio's schedule would."""
    setup.link["acks"] = {"kind": "slots", "every_ms": max(1e-3, setup.condition.rtt_ms / 2)}


@draft_case(
    12,
    conditions=paths(least_pkts=20),
    begin=_aggregating,
    end=lambda history, _: history.left_startup(),
    known=tuple(interrupted(DOUBLES)),
)
def startup_aggregation(run: Statements) -> None:
    """Achieving Expected STARTUP Bandwidth on a Link With Aggregation"""
    history, path = run.history, run.setup.condition
    row = run.needs("STARTUP ends", history.left_startup())
    extra, cwnd = (int(history[name][: row + 1].max()) for name in ("extra_acked_pkts", "cwnd_pkts"))
    run.states("extra_acked is above 0", extra > 0, f"{extra} packets", row)
    measured = f"cwnd {cwnd}, 2 BDP {2 * path.bdp_pkts:.1f} packets"
    run.states("cwnd exceeds 2 BDP", cwnd > 2 * path.bdp_pkts, measured, row)
    off = history.mbps("bw_Bps")[row] / path.payload_mbps - 1
    text = "max_bw reaches the bottleneck's rate, less 2 %"
    run.states(text, off >= -BANDWIDTH_TOLERANCE, f"max_bw {100 * off:+.2f} %", row)
    found = history.first(history.mbps("bw_Bps") >= 0.9 * path.payload_mbps)
    rounds = history.at("round_count", row if found is None else found)
    most = _DOUBLING_ROUNDS + math.ceil(math.log2(max(1.0, path.bdp_pkts / 10)))
    run.states(DOUBLES, found is not None and rounds <= most, f"{rounds} rounds of {most}", row)


_CRUISE_ROUNDS = 6
LONG_CRUISE = "CRUISE lasts for six rounds"


def _long_cruise(history: AckHistory) -> Stay | None:
    """Return the bounds of the first stay of some rounds in CRUISE, or for BBR v1 in PROBE_BW."""
    inside = history.is_in(CRUISE, 12, 13, 14, 15)
    edges = np.flatnonzero(np.diff(np.concatenate(([0], inside.astype(int), [0]))))
    for row, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        last = min(end, len(history) - 1)
        if history.rounds(row, last) >= _CRUISE_ROUNDS:
            return row, last
    return None


def _cruised(history: AckHistory, _: CaseSetup) -> int | None:
    found = _long_cruise(history)
    return None if found is None or found[1] == len(history) - 1 else found[1]


@draft_case(
    13,
    conditions=paths(least_pkts=20),
    begin=_aggregating,
    end=_cruised,
    not_for={"bbr": "BBR v1 has no CRUISE: it is in a phase of its cycle for one round trip"},
    known=tuple(interrupted(LONG_CRUISE)),
)
def cruise_aggregation(run: Statements) -> None:
    """Achieving Expected Cruise Bandwidth on a Link With Aggregation"""
    history, found = run.history, _long_cruise(run.history)
    end = run.needs(LONG_CRUISE, None if found is None else found[1])
    row = 0 if found is None else found[0]
    extra = history["extra_acked_pkts"][row:end]
    run.states("extra_acked is above 0", bool((extra > 0).all()), f"{int(extra.max())} packets", row)
    starts = np.flatnonzero(history.round_starts()[row:end])
    changes = np.flatnonzero(np.diff(extra.astype(float)) < 0)
    is_windowed = bool(np.isin(changes + 1, starts).all())
    text = "extra_acked falls at the starts of rounds only, as a maximum over rounds does"
    run.states(text, is_windowed, f"it fell {len(changes)} times", row)
    bdp = history["bw_Bps"][row:end] * history["min_rtt_us"][row:end] / (1e6 * MSS_BYTES)
    above = history["cwnd_pkts"][row:end] - 2 * bdp
    least, at = float(above.min()), row + int(above.argmin())
    is_bounded = (history["inflight_hi_pkts"][at] >= 0) or (history["inflight_lo_pkts"][at] >= 0)
    is_wide = is_bounded or least >= min(1, int(extra.min()))
    run.states("cwnd is 2 BDP and extra_acked", is_wide, f"at least {least:.1f} packets above 2 BDP", at)
    share = run.used_share(row, end)
    run.states("the bottleneck is used to 95 %", share >= CRUISE_SHARE, f"{100 * share:.1f} %", end)


# ---- a path that holds less than the least window -----------------------------------------------------

KEEPS_FLOOR = "cwnd is MinPipeCwnd (4 packets) at least"
PACES = "where the gain is 1, pacing is the bottleneck's rate less its margin, within 2 %"


def _rounds_of_probe_bw(history: AckHistory, setup: CaseSetup) -> int | None:
    """Return the row after four seconds and forty rounds of PROBE_BW."""
    row = history.first(history.in_probe_bw())
    if row is None:
        return None
    return history.first(history["time_us"] > history["time_us"][row] + 4e6 + 40e6 * setup.condition.turn_s)


@draft_case(
    14,
    conditions=conditions(
        *((1.0, 0.064), (10.0, 0.064), (100.0, 0.064), (1.0, 1.0), (10.0, 1.0), (1.0, 10.0), (0.1, 100.0))
    ),
    end=_rounds_of_probe_bw,
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
def sub_packet_bdp(run: Statements) -> None:
    """Correctly Managing Sub-Packet BDPs"""
    history, payload_mbps = run.history, run.setup.condition.payload_mbps
    row = run.needs("PROBE_BW begins", history.first(history.in_probe_bw()))
    cwnd = history["cwnd_pkts"][row:]
    least = int(cwnd.min())
    measured = f"from {least} to {int(cwnd.max())} packets"
    run.states(KEEPS_FLOOR, least >= FLOOR_PKTS, measured, row + int(cwnd.argmin()))
    inside = history.in_probe_bw()
    bw = np.minimum(history["bw_Bps"], history["bw_lo_Bps"]).astype(float)
    gains = history["pacing_Bps"][inside] / (MARGIN * bw[inside])
    steady = history.is_in(CRUISE) if run.setup.sender.cc != "bbr" else history.is_in(10, 11, 12, 13, 14, 15)
    own = history["pacing_Bps"][steady].astype(float) * 8e-6 / payload_mbps
    off = float(np.abs(own - MARGIN).max()) if len(own) else math.nan
    measured = f"{100 * off:.2f} % off; gains {float(gains.min()):.3f} to {float(gains.max()):.3f}"
    run.states(PACES, not off > 0.02, measured, row)
    share = run.used_share(row, -1)
    text = "delayed ACKs do not stall the bottleneck: it is used to 95 %"
    run.states(text, share >= CRUISE_SHARE, f"{100 * share:.1f} %")


# ---- a policer ----------------------------------------------------------------------------------------

_STABLE_LOSS = 0.05
_STABLE_SHARE = 0.8
LITTLE_LOSS = "in the second half at most 5 % are lost"


def _police(setup: CaseSetup) -> None:
    burst_bytes = max(20, round(2 * setup.condition.bdp_pkts)) * (MSS_BYTES + HEADER_BYTES)
    setup.link["policer"] = {"rate_mbps": setup.condition.rate_mbps / 4, "burst_bytes": burst_bytes}


# The draft leaves open what is excessive loss: 5 % here, and 80 % of the token rate to be used.
@draft_case(
    17,
    conditions=conditions((1.0, 400.0), (10.0, 400.0), (40.0, 40.0), (100.0, 100.0), (200.0, 4.0), (1000.0, 10.0)),
    begin=_police,
    end=lambda history, setup: history.first(history["time_us"] > 10e6 + 100e6 * setup.condition.turn_s),
    lasts=lambda condition: 11.0 + 110 * condition.turn_s,
    not_for={"bbr": "BBR v1 has no bounds that losses set; it detects policers by its own rule"},
    known=(
        Known(
            LITTLE_LOSS,
            "What is excessive the draft does not say. REFILL and UP pass on the tokens of the bucket, so that max_bw "
            "is above the token rate, and what follows loses until bw_shortterm has come down. Of google/bbr's losses "
            "at 1 ms, 3779 of 49593 packets, 1091 are DOWN's, a third of what it sends, and 2526 CRUISE's, 8 %.",
        ),
    ),
)
def policer(run: Statements) -> None:
    """Handling Token Bucket Policers"""
    history = run.history
    row = run.needs("PROBE_BW begins", history.first(history.in_probe_bw()))
    run.needs("the policer drops packets", history.first(history["lost_pkts"] > 0, row))
    is_bounded = (history["bw_lo_Bps"] != NO_RATE) & (history["inflight_lo_pkts"] >= 0)
    run.moment("losses set bw_shortterm and inflight_shortterm", history.first(is_bounded, row))
    middle = history.first(history["time_us"] > history["time_us"][-1] / 2) or row
    delivered = int(history["delivered_pkts"][-1] - history["delivered_pkts"][middle])
    lost_pkts = int(history["lost_pkts"][middle:].sum())
    share = lost_pkts / max(1, lost_pkts + delivered)
    run.states(LITTLE_LOSS, share <= _STABLE_LOSS, f"{100 * share:.2f} %")
    used = run.used_share(middle, -1, 1 / 4)
    run.states("and 80 % of the token rate are used", used >= _STABLE_SHARE, f"{100 * used:.1f} %")
