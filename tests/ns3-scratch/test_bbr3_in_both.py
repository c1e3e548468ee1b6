# SPDX-License-Identifier: GPL-2.0-only
"""BBRv3 and v2 in the ns-3 world and the twin: equal ACK by ACK, in every column of the trace."""

from typing import Any

import numpy as np
import pytest

import bbrgym

DRAFT = {
    "bbr3_drain_rounds": True,
    "bbr3_plateau": "round_start",
    "bbr3_in_flight": "now",
    "bbr3_excess": "loss",
    "bbr3_undo": "state",
    "bbr3_restore": "after_recovery",
    "bbr3_burst": "rate",
    "bbr3_first_growth": "delivered",
}
MECHANISMS = {"use_probe_cap": 1, "use_cwnd_cap": 1, "use_random_probe_rtt": 1}
SHALLOW = {"queue": {"kind": "droptail", "size_packets": 12}}
LOSSY = {"queue": {"kind": "droptail", "size_packets": 100}, "loss": {"kind": "bernoulli", "rate": 0.01}}
MARKING = {"queue": {"kind": "droptail", "size_packets": 100, "ecn_threshold_packets": 8}}


def trace(world: str, link: dict[str, Any], flow: dict[str, Any]) -> np.ndarray:
    scenario = bbrgym.load_scenario(
        {
            "name": "one",
            "link": {"rate_mbps": 10.0, "delay_ms": 1.0, **link},
            "flows": [{"name": "a", "rtt_ms": 40.0, "role": "tuned", **flow}],
            "duration_s": 6.0,
        }
    )
    with bbrgym.make_world(world, scenario, 1, isolation="none") as run:
        run.trace_acks(0, 100_000)
        run.advance(scenario.duration_s)
        rows: np.ndarray = run.ack_trace(0)
        return rows.copy()


@pytest.mark.parametrize(
    "flow",
    [
        {"cc": "bbr3"},
        {"cc": "bbr2"},
        {"cc": "bbr3", "stack": DRAFT},
        {"cc": "bbr3-mix", "tunables": MECHANISMS},
    ],
    ids=["bbr3", "bbr2", "draft", "mix"],
)
@pytest.mark.parametrize("link", [SHALLOW, LOSSY], ids=["shallow", "lossy"])
def test_every_ack_is_equal(link: dict[str, Any], flow: dict[str, Any]) -> None:
    twin, ns3 = trace("twin", link, flow), trace("ns3", link, flow)
    assert len(twin) > 1000
    assert np.array_equal(twin, ns3)
    assert twin["lost_pkts"].sum() > 0
    assert {0, 1, 9, 10, 11} <= set(twin["phase"].tolist())


def test_marks_of_each_packet_hold_the_queue_below_what_an_echo_does() -> None:
    queues = {}
    for precise in (True, False):
        flow = {"cc": "bbr3", "rtt_ms": 4.0, "stack": {"ecn": True, "ecn_precise": precise}}
        twin, ns3 = trace("twin", MARKING, flow), trace("ns3", MARKING, flow)
        assert np.array_equal(twin, ns3)
        queues[precise] = twin["rtt_us"][twin["rtt_us"] >= 0].mean()
    assert queues[True] < queues[False]
