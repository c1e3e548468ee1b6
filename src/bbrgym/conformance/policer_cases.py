# SPDX-License-Identifier: GPL-2.0-only
"""The draft's case of a policer."""

from __future__ import annotations

from collections.abc import Iterator

from bbrgym.conformance.ack_history import NO_RATE, AckHistory
from bbrgym.conformance.draft_case import DraftCase, DraftStatement, Known, statement
from bbrgym.conformance.moments import end_s, moment_is_there
from bbrgym.conformance.setup import MSS_BYTES, CaseSetup, Condition

_V1_BOUNDS = "BBR v1 has no bounds that losses set"
_STABLE_LOSS = 0.05
_STABLE_SHARE = 0.8


def _police(setup: CaseSetup) -> None:
    burst_pkts = max(20, round(2 * setup.condition.bdp_pkts))
    setup.link["policer"] = {
        "rate_mbps": setup.condition.rate_mbps / 4,
        "burst_bytes": burst_pkts * (MSS_BYTES + 40),
    }


def _policed_long(history: AckHistory, setup: CaseSetup) -> int | None:
    return history.first(history["time_us"] > 10e6 + 100e6 * setup.condition.turn_s)


LITTLE_LOSS = "in the second half at most 5 % are lost"


def _check_policer(history: AckHistory, setup: CaseSetup) -> Iterator[DraftStatement]:
    row = history.first(history.in_probe_bw())
    yield moment_is_there("PROBE_BW begins", row, history)
    if row is None:
        return
    lost = history.first(history["lost_pkts"] > 0, row)
    yield moment_is_there("the policer drops packets", lost, history)
    if lost is None:
        return
    low = history.first((history["bw_lo_Bps"] != NO_RATE) & (history["inflight_lo_pkts"] >= 0), row)
    yield moment_is_there("losses set bw_shortterm and inflight_shortterm", low, history)
    middle = history.first(history["time_us"] > history["time_us"][-1] / 2) or row
    delivered = int(history["delivered_pkts"][-1] - history["delivered_pkts"][middle])
    lost_pkts = int(history["lost_pkts"][middle:].sum())
    share = lost_pkts / max(1, lost_pkts + delivered)
    yield statement(LITTLE_LOSS, share <= _STABLE_LOSS, f"{100 * share:.2f} %", end_s(history))
    span_s = end_s(history) - history.time_s(middle)
    used = delivered * MSS_BYTES * 8e-6 / span_s / (setup.condition.payload_mbps / 4)
    yield statement("and 80 % of the token rate are used", used >= _STABLE_SHARE, f"{100 * used:.1f} %", end_s(history))


POLICER = DraftCase(
    number=17,
    name="policer",
    title="Handling Token Bucket Policers",
    how=(
        "A bulk flow through a policer of a quarter of the bottleneck's rate with a bucket of two BDP (20 packets at "
        "least), for ten seconds and a hundred rounds. The draft leaves open what is excessive loss: 5 % here, and 80 "
        "% of the token rate to be used."
    ),
    conditions=(
        Condition(1.0, 400.0),
        Condition(10.0, 400.0),
        Condition(40.0, 40.0),
        Condition(100.0, 100.0),
        Condition(200.0, 4.0),
        Condition(1000.0, 10.0),
    ),
    begin=_police,
    end=_policed_long,
    check=_check_policer,
    lasts=lambda condition: 11.0 + 110 * condition.turn_s,
    not_for={"bbr": f"{_V1_BOUNDS}; it detects policers by its own rule"},
    known=(
        Known(
            LITTLE_LOSS,
            "What is excessive the draft does not say. REFILL and UP pass on the tokens of the bucket, so that max_bw "
            "is above the token rate, and what follows loses until bw_shortterm has come down. Of google/bbr's losses "
            "at 1 ms, 3779 of 49593 packets, 1091 are DOWN's, a third of what it sends, and 2526 CRUISE's, 8 %.",
        ),
    ),
)
