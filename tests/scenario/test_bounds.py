# SPDX-License-Identifier: GPL-2.0-only
"""The bounds of world/bounds.def are those of the model, and what the model takes every world takes."""

from typing import Any

import pytest

import bbrgym
from bbrgym.scenario.bounds import BOUNDS


def fields(**changes: Any) -> dict[str, Any]:
    link = {"rate_mbps": 10.0, "queue": {"size_bytes": 30_000}, **changes.pop("link", {})}
    flow = {"name": "a", "rtt_ms": 20.0, **changes.pop("flow", {})}
    return {"duration_s": 1.0, "link": link, "flows": [flow], **changes}


def red(probability: float) -> dict[str, Any]:
    thresholds = {"min_bytes": 3000, "max_bytes": 9000, "max_probability": probability}
    return {"kind": "red", "size_bytes": 30_000, "red": thresholds}


def bounded(name: str, value: float) -> dict[str, Any]:
    """Return a scenario with a value in a place that has the bounds of that name."""
    onoff = {"kind": "onoff", "rate_mbps": 1.0, "on_s": value, "off_s": 1.0}
    codel = {"target_ms": 5e-7, "interval_ms": value} if value < 5 else {"interval_ms": value}
    places: dict[str, dict[str, Any]] = {
        "duration_s": fields(duration_s=value),
        "time_s": fields(flow={"start_s": value}),
        "burst_s": fields(flow={"app": onoff}),
        "rate_mbps": fields(link={"rate_mbps": value}),
        "rtt_ms": fields(flow={"rtt_ms": value}),
        "delay_ms": fields(link={"delay_ms": value}),
        "delay_step_ms": fields(link={"delay_trace": {"delays_ms": [1.0, 2.0], "step_ms": value}}),
        "codel_ms": fields(link={"queue": {"kind": "codel", "size_bytes": 30_000, "codel": codel}}),
        "trace_period_ms": fields(link={"rate_mbps": None, "trace": {"times_ms": [0.0], "period_ms": value}}),
        "hop_distance_m": fields(link={"last_hop": {"kind": "lte", "distance_m": value}}),
        "bytes": fields(link={"queue": {"size_bytes": value}}),
        "queue_packets": fields(link={"queue": {"size_packets": value}}),
        "queue_bdp": fields(link={"queue": {"size_bdp": value}}),
        "quantum_bytes": fields(link={"queue": {"kind": "fq_codel", "size_packets": 100, "quantum_bytes": value}}),
        "ack_hold_ms": fields(link={"acks": {"kind": "slots", "every_ms": value}}),
        "ack_burst": fields(link={"acks": {"kind": "bursts", "packets": value, "timeout_ms": 1.0}}),
        "mss_bytes": fields(mss_bytes=value),
        **{
            name: fields(flow={"app": {"kind": "frames", "rate_mbps": 1.0, name: value}})
            for name in ("fps", "key_every", "key_ratio")
        },
        "weight": fields(flow={"app": {"kind": "flows", "size_bytes": [1000], "weights": [value]}}),
        "flows": fields(flow={"count": value}),
        "probability": fields(link={"loss": {"kind": "bernoulli", "rate": value}}),
        "red_probability": fields(link={"queue": red(value)}),
    }
    return places[name]


@pytest.mark.parametrize("name", sorted(BOUNDS.keys() - {"changes", "delay_steps", "links"}))
def test_the_bounds_are_those_of_the_table(name: str) -> None:
    low, high, unit = BOUNDS[name]
    below = low - 1 if unit in ("count", "packets", "bytes") else low - abs(low) / 10 - 1e-13
    above = high + 1 if unit in ("count", "packets", "bytes") else high * 1.1
    with pytest.raises(bbrgym.ScenarioError, match=f"expected a number >= {low:g}"):
        bbrgym.load_scenario(bounded(name, below))
    with pytest.raises(bbrgym.ScenarioError, match=f"expected a number <= {high:g}".replace("+", r"\+")):
        bbrgym.load_scenario(bounded(name, above))


@pytest.mark.parametrize("world", ["ns3", "twin"])
@pytest.mark.parametrize(
    "fields",
    [
        fields(link={"rate_mbps": None, "trace": {"times_ms": [2 / 3, 2 / 3, 1.0], "period_ms": 1.0}}),
        fields(link={"rate_mbps": None, "trace": {"times_ms": [0, 2 / 3, 2 / 3], "period_ms": 2 / 3}}),
        fields(link={"delay_ms": 0.6666666}, flow={"rtt_ms": 2 * 0.6666666}),
        fields(link={"changes": [{"at_s": 2 / 3, "rate_mbps": 1.0}, {"at_s": 2 / 3, "rate_mbps": 2.0}]}),
    ],
    ids=["trace", "period", "rtt", "changes"],
)
def test_values_that_are_no_whole_nanoseconds_run_in_every_world(world: str, fields: dict[str, Any]) -> None:
    with bbrgym.make_world(world, bbrgym.load_scenario(fields), seed=1) as running:
        running.advance(0.1)
        assert running.now_s == 0.1
