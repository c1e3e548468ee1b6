# SPDX-License-Identifier: GPL-2.0-only
"""The draft's cases of ACKs that arrive in bursts."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from bbrgym.conformance.ack_history import CRUISE, AckHistory
from bbrgym.conformance.draft_case import DraftCase, DraftStatement, Known, statement
from bbrgym.conformance.moments import left_startup, moment_is_there
from bbrgym.conformance.paths import PATHS, is_long
from bbrgym.conformance.reasons import INTERRUPTED
from bbrgym.conformance.setup import MSS_BYTES, CaseSetup
from bbrgym.conformance.tolerances import BANDWIDTH_TOLERANCE, CRUISE_SHARE

_DOUBLING_ROUNDS = 4  # beside the binary logarithm of the BDP
DOUBLES = "the rate doubles, so that 90 % of it are found in log2(BDP / 10) + 4 rounds"


def aggregating(setup: CaseSetup) -> None:
    """Let ACKs leave in slots of half a round trip, as a radio's schedule would."""
    setup.link["acks"] = {"kind": "slots", "every_ms": max(1e-3, setup.condition.rtt_ms / 2)}


def _check_startup_aggregation(history: AckHistory, setup: CaseSetup) -> Iterator[DraftStatement]:
    row = left_startup(history, setup)
    yield moment_is_there("STARTUP ends", row, history)
    if row is None:
        return
    extra = int(history["extra_acked_pkts"][: row + 1].max())
    yield statement("extra_acked is above 0", extra > 0, f"{extra} packets", history.time_s(row))
    cwnd = int(history["cwnd_pkts"][: row + 1].max())
    bdp = setup.condition.bdp_pkts
    yield statement(
        "cwnd exceeds 2 BDP", cwnd > 2 * bdp, f"cwnd {cwnd}, 2 BDP {2 * bdp:.1f} packets", history.time_s(row)
    )
    off = history.mbps("bw_Bps")[row] / setup.condition.payload_mbps - 1
    yield statement(
        "max_bw reaches the bottleneck's rate, less 2 %",
        off >= -BANDWIDTH_TOLERANCE,
        f"max_bw {100 * off:+.2f} %",
        history.time_s(row),
    )
    found = history.first(history.mbps("bw_Bps") >= 0.9 * setup.condition.payload_mbps)
    rounds = int(history["round_count"][row if found is None else found])
    most = _DOUBLING_ROUNDS + math.ceil(math.log2(max(1.0, bdp / 10)))
    yield statement(
        DOUBLES,
        found is not None and rounds <= most,
        f"{rounds} rounds of {most}",
        history.time_s(row),
    )


STARTUP_AGGREGATION = DraftCase(
    number=12,
    name="startup-aggregation",
    title="Achieving Expected STARTUP Bandwidth on a Link With Aggregation",
    how="A bulk flow whose ACKs leave the receiver in slots of half a round trip.",
    conditions=tuple(one for one in PATHS if one.bdp_pkts >= 20),
    begin=aggregating,
    bursts_of_acks=True,
    end=left_startup,
    check=_check_startup_aggregation,
    known=(Known(DOUBLES, INTERRUPTED, applies=is_long),),
)

_CRUISE_ROUNDS = 6


def _long_cruise(history: AckHistory) -> tuple[int, int] | None:
    """Return the bounds of the first stay of some rounds in CRUISE, or for BBR v1 in PROBE_BW."""
    inside = history.is_in(CRUISE, 12, 13, 14, 15)
    edges = np.flatnonzero(np.diff(np.concatenate(([0], inside.astype(int), [0]))))
    for row, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        last = min(end, len(history) - 1)
        if int(history["round_count"][last] - history["round_count"][row]) >= _CRUISE_ROUNDS:
            return row, last
    return None


def _cruised(history: AckHistory, _: CaseSetup) -> int | None:
    found = _long_cruise(history)
    if found is None or found[1] == len(history) - 1:
        return None
    return found[1]


LONG_CRUISE = "CRUISE lasts for six rounds"


def _check_cruise_aggregation(history: AckHistory, setup: CaseSetup) -> Iterator[DraftStatement]:
    found = _long_cruise(history)
    yield moment_is_there(LONG_CRUISE, None if found is None else found[1], history)
    if found is None:
        return
    row, end = found
    extra = history["extra_acked_pkts"][row:end]
    yield statement(
        "extra_acked is above 0", bool((extra > 0).all()), f"{int(extra.max())} packets", history.time_s(row)
    )
    starts = np.flatnonzero(history.round_starts()[row:end])
    changes = np.flatnonzero(np.diff(extra.astype(float)) < 0)
    is_windowed = bool(np.isin(changes + 1, starts).all())
    yield statement(
        "extra_acked falls at the starts of rounds only, as a maximum over rounds does",
        is_windowed,
        f"it fell {len(changes)} times",
        history.time_s(row),
    )
    bdp = history["bw_Bps"][row:end] * history["min_rtt_us"][row:end] / (1e6 * MSS_BYTES)
    least = float((history["cwnd_pkts"][row:end] - 2 * bdp).min())
    at = row + int((history["cwnd_pkts"][row:end] - 2 * bdp).argmin())
    bounded = (history["inflight_hi_pkts"][at] >= 0) or (history["inflight_lo_pkts"][at] >= 0)
    yield statement(
        "cwnd is 2 BDP and extra_acked",
        bounded or least >= min(1, int(extra.min())),
        f"at least {least:.1f} packets above 2 BDP",
        history.time_s(at),
    )
    delivered = int(history["delivered_pkts"][end] - history["delivered_pkts"][row])
    span_s = history.time_s(end) - history.time_s(row)
    share = delivered * MSS_BYTES * 8e-6 / span_s / setup.condition.payload_mbps
    yield statement(
        "the bottleneck is used to 95 %", share >= CRUISE_SHARE, f"{100 * share:.1f} %", history.time_s(end)
    )


CRUISE_AGGREGATION = DraftCase(
    number=13,
    name="cruise-aggregation",
    title="Achieving Expected Cruise Bandwidth on a Link With Aggregation",
    how=(
        "A bulk flow whose ACKs leave the receiver in slots of half a round trip, over the first stay of six rounds in "
        "CRUISE."
    ),
    conditions=tuple(one for one in PATHS if one.bdp_pkts >= 20),
    begin=aggregating,
    bursts_of_acks=True,
    end=_cruised,
    check=_check_cruise_aggregation,
    not_for={"bbr": "BBR v1 has no CRUISE: it is in a phase of its cycle for one round trip"},
    known=(Known(LONG_CRUISE, INTERRUPTED, applies=is_long),),
)
