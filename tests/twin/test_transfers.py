# SPDX-License-Identifier: GPL-2.0-only
"""Transfers with an end: their completion, and crowds of short flows that the run's seed draws."""

import math
from typing import Any

import numpy as np
import pytest
from native_simulation import FLOW_STATS, FLOW_SUMMARY
from twin_harness import Mapping, Simulation, flow, life, scenario

import bbrgym


def finished(mapping: Mapping, seed: int = 1) -> list[dict[str, float]]:
    """The flows' summaries at the end."""
    simulation = Simulation(mapping, seed)
    try:
        while not simulation.done:
            simulation.advance(1.0)
        return [dict(zip(FLOW_SUMMARY, map(float, row), strict=True)) for row in simulation.summary().flows]
    finally:
        simulation.native.close()


def transfer(size_bytes: int | None, **changes: Any) -> Mapping:
    return flow(app={"kind": "bulk", "size_bytes": size_bytes}, **changes)


def quiet(*flows: Mapping, **changes: Any) -> Mapping:
    """20 Mbit/s, 40 ms, from the first packet on."""
    queue = {"size_packets": 1000}
    return {**scenario(*flows, rate_mbps=20.0, queue=queue, duration_s=10.0), "warmup_s": 0.0, **changes}


@pytest.mark.parametrize(("size_bytes", "rounds"), [(1, 1), (14_480, 1), (14_481, 2), (43_440, 2), (43_441, 3)])
def test_a_transfer_takes_the_rounds_of_slow_start(size_bytes: int, rounds: int) -> None:
    """Handshake, then 10, 20 and 40 packets a round trip."""
    (row,) = finished(quiet(transfer(size_bytes, cc="reno")))
    pkts = math.ceil(size_bytes / 1448)
    assert row["completed"] == 1
    assert row["sent_pkts"] == pkts
    assert (rounds + 0.5) * 0.04 < row["completion_s"] < (rounds + 1.2) * 0.04
    ideal_s = 1.5 * 0.04 + pkts * 1488 * 8 / 20e6
    assert row["slowdown"] == pytest.approx(row["completion_s"] / ideal_s)


def test_a_flow_is_over_when_its_transfer_is() -> None:
    simulation = Simulation(quiet(transfer(100_000, name="short"), transfer(None, name="long", cc="cubic")))
    simulation.advance(5.0)
    simulation.advance(1.0)
    active = simulation.flow_stats[:, FLOW_STATS.index("active")]
    assert active.tolist() == [0, 1]
    short, long = finished(quiet(transfer(100_000, name="short"), transfer(None, name="long", cc="cubic")))
    assert short["stop_s"] == pytest.approx(short["completion_s"])
    assert short["goodput_mbps"] == pytest.approx(math.ceil(100_000 / 1448) * 1448 * 8e-6 / short["completion_s"])
    assert long["stop_s"] == 10.0
    assert math.isnan(long["completed"])
    assert math.isnan(long["completion_s"])


def test_a_transfer_that_is_cut_off_is_not_complete() -> None:
    (row,) = finished(quiet(transfer(100_000_000, stop_s=3.0)))
    assert row["completed"] == 0
    assert math.isnan(row["completion_s"])
    assert math.isnan(row["slowdown"])


def test_lost_packets_are_sent_again_before_it_is_complete() -> None:
    lossy = quiet(transfer(500_000))
    lossy["link"]["loss"] = {"kind": "bernoulli", "rate": 0.05}
    (row,) = finished(lossy)
    assert row["retransmitted_pkts"] > 0
    assert row["completed"] == 1


# ---- many of them -----------------------------------------------------------------------------------------


def crowd(count: int = 200, **app: Any) -> Mapping:
    app = {"kind": "flows", "size_bytes": [14_480], **app}
    return flow("web", cc="cubic", count=count, app=app)


def test_the_seed_draws_times_and_sizes() -> None:
    busy = quiet(crowd(20, exponential=True))
    assert life(Simulation(busy, seed=1)) == life(Simulation(busy, seed=1))
    assert life(Simulation(busy, seed=1)) != life(Simulation(busy, seed=2))


def test_a_world_that_begins_again_draws_anew() -> None:
    busy = quiet(crowd(20))
    starts = [[row["start_s"] for row in finished(busy, seed)] for seed in (1, 2)]
    with bbrgym.make_world("twin", busy, seed=1) as world:
        for seed in (1, 2):
            world.reset(seed=seed)
            world.advance(10.0)
            flows, _ = world.summary()
            assert flows[:, world.flow_summary_fields.index("start_s")].tolist() == starts[seed - 1]


def test_arrivals_are_uniform_in_their_time() -> None:
    mapping = quiet({**crowd(1000, within_s=8.0), "start_s": 1.0})
    starts = np.sort([row["start_s"] for row in finished(mapping)])
    assert 1.0 <= starts[0] < starts[-1] < 9.0
    expected = 1.0 + 8.0 * np.arange(1, 1001) / 1001
    assert np.abs(starts - expected).max() < 8.0 * 1.63 / math.sqrt(1000)  # Kolmogorov and Smirnov, 1 %


def test_sizes_have_their_weights() -> None:
    mapping = quiet(crowd(1000, size_bytes=[1, 14_480], weights=[3, 1], within_s=8.0))
    sent = [row["sent_pkts"] for row in finished(mapping)]
    assert set(sent) == {1.0, 10.0}
    assert sent.count(1.0) == pytest.approx(750, abs=3 * math.sqrt(1000 * 0.75 * 0.25))


def test_exponential_sizes_have_their_mean() -> None:
    mapping = quiet(crowd(1000, size_bytes=[144_800], exponential=True, within_s=8.0))
    mapping["link"]["rate_mbps"] = 1000.0
    sent = [row["sent_pkts"] for row in finished(mapping)]
    assert np.mean(sent) == pytest.approx(100.5, abs=3 * 100 / math.sqrt(1000))


@pytest.mark.parametrize(
    ("app", "error"),
    [
        ({"size_bytes": []}, r"flows\[0\].app.size_bytes: is .*, expected at least 1"),
        ({"weights": [1, 2]}, r"flows\[0\].app.weights: has 2 entries, expected one for each of 1 size_bytes"),
        ({"within_s": 20.0}, r"flows\[0\].app.within_s: is 20.0, expected at most 10, the time until stop_s"),
        ({"weights": [0]}, r"flows\[0\].app.weights\[0\]: is 0"),
    ],
)
def test_a_wrong_crowd_is_named(app: Mapping, error: str) -> None:
    with pytest.raises(bbrgym.ScenarioError, match=error):
        bbrgym.load_scenario(quiet(crowd(2, **app)))
