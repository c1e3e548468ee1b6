# SPDX-License-Identifier: GPL-2.0-only
"""Which families a scenario is in."""

from typing import Any

import pytest

import bbrgym
from bbrgym.scenario.families import buffer_bdp, families_of


def scenario(flows: list[dict[str, Any]] | None = None, **link: Any) -> bbrgym.Scenario:
    return bbrgym.load_scenario(
        {
            "duration_s": 10.0,
            "link": {"rate_mbps": 10.0, "queue": {"size_bdp": 2.0}, **link},
            "flows": flows or [{"name": "a", "rtt_ms": 40.0}],
        }
    )


CUBIC = {"name": "c", "cc": "cubic", "role": "fixed", "rtt_ms": 40.0}


@pytest.mark.parametrize(
    ("drawn", "families"),
    [
        (scenario(), {"alone"}),
        (scenario([{"name": "a", "rtt_ms": 40.0}, CUBIC]), {"with CUBIC"}),
        (scenario([{"name": "a", "rtt_ms": 40.0, "count": 2}]), {"several"}),
        (scenario([{"name": "a", "cc": "cubic", "role": "tuned", "rtt_ms": 40.0, "count": 2}]), {"several"}),
        (scenario([{"name": "a", "rtt_ms": 10.0}, {**CUBIC, "rtt_ms": 30.1}]), {"with CUBIC", "uneven RTTs"}),
        (scenario([{"name": "a", "rtt_ms": 10.0}, {**CUBIC, "rtt_ms": 30.0}]), {"with CUBIC"}),
        (scenario(queue={"size_bdp": 0.9}), {"alone", "shallow"}),
        (scenario(queue={"size_bdp": 3.1}), {"alone", "deep"}),
        (scenario(queue={"size_packets": 200}), {"alone", "deep"}),  # of 1488 bytes: 6 BDP
        (scenario(loss={"kind": "bernoulli", "rate": 0.01}), {"alone", "lossy"}),
        (scenario(changes=[{"at_s": 2.0, "loss_rate": 0.01}]), {"alone", "lossy"}),
        (scenario(changes=[{"at_s": 2.0, "rate_mbps": 5.0}]), {"alone", "capacity steps"}),
        (scenario(changes=[{"at_s": 2.0, "delay_ms": 5.0}]), {"alone"}),
    ],
)
def test_families(drawn: bbrgym.Scenario, families: set[str]) -> None:
    assert set(families_of(drawn)) == families


@pytest.mark.parametrize("size_bdp", [0.5, 2.0, 7.5])
def test_the_buffer_is_measured_as_it_is_written(size_bdp: float) -> None:
    uneven = [{"name": "a", "rtt_ms": 40.0}, {"name": "b", "rtt_ms": 90.0}]
    assert buffer_bdp(scenario(uneven, queue={"size_bdp": size_bdp})) == pytest.approx(size_bdp, rel=1e-4)


def test_a_trace_changes_capacity_and_has_its_mean_rate() -> None:
    trace = {"times_ms": [0.0, 1.0, 5.0, 9.0], "period_ms": 10.0}  # 4 * 1500 bytes in 10 ms: 4.8 Mbit/s
    drawn = scenario(rate_mbps=None, trace=trace, queue={"size_bytes": 24_000})
    assert buffer_bdp(drawn) == pytest.approx(1.0)
    assert set(families_of(drawn)) == {"alone", "capacity steps"}
