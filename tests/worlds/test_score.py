# SPDX-License-Identifier: GPL-2.0-only
"""The score's golden values and edges."""

import math

import numpy as np
import pytest

import bbrgym
from bbrgym.scenario.model import Scenario
from bbrgym.worlds.score import (
    HARMS,
    Objective,
    fair_shares_mbps,
    flow_scores,
    harm_of_flows,
    max_min_shares,
    run_score,
    score_of_run,
)

NAN = math.nan


def score(goodput: float, share: float, rtt: float, base: float, window_s: float = 10.0, delta: float = 0.5) -> float:
    columns = [np.array([value]) for value in (goodput, share, window_s, rtt, base)]
    return float(flow_scores(*columns, mss_bytes=1448, delta=delta)[0])


@pytest.mark.parametrize(
    ("goodput", "share", "rtt", "base", "expected"),
    [
        (5.0, 5.0, 40.0, 40.0, 0.0),  # fair share, empty queue
        (10.0, 5.0, 40.0, 40.0, 1.0),
        (2.5, 5.0, 40.0, 40.0, -1.0),
        (5.0, 5.0, 160.0, 40.0, -1.0),
        (2.5, 5.0, 80.0, 40.0, -1.5),
    ],
)
def test_golden(goodput: float, share: float, rtt: float, base: float, expected: float) -> None:
    assert score(goodput, share, rtt, base) == pytest.approx(expected)


def test_delta_weighs_the_rtt() -> None:
    assert score(5.0, 5.0, 80.0, 40.0, delta=0.0) == 0.0
    assert score(5.0, 5.0, 80.0, 40.0, delta=2.0) == pytest.approx(-2.0)


def test_a_starved_flow_scores_as_with_one_packet() -> None:
    one_packet_mbps = 1448 * 8 / 1e6 / 10.0
    assert score(0.0, 5.0, NAN, 40.0) == pytest.approx(math.log2(one_packet_mbps / 5.0))


def test_a_flow_without_a_window_has_none() -> None:
    assert math.isnan(score(NAN, NAN, NAN, 40.0, window_s=0.0))
    assert math.isnan(score(NAN, NAN, NAN, 40.0, window_s=NAN))


def test_the_own_score_counts_tuned_flows_else_fixed_else_all() -> None:
    scores = np.array([1.0, 2.0, 4.0])
    assert run_score(scores, ["tuned", "fixed", "background"], "own") == 1.0
    assert run_score(scores, ["fixed", "fixed", "background"], "own") == 1.5
    assert run_score(scores, ["background"] * 3, "own") == pytest.approx(7 / 3)
    assert run_score(np.array([NAN, 2.0, 4.0]), ["tuned", "tuned", "background"], "own") == 2.0
    assert run_score(np.array([NAN, 2.0]), ["tuned", "fixed"], "own") == 2.0
    assert math.isnan(run_score(np.array([NAN]), ["tuned"], "own"))


def test_the_score_counts_tuned_and_fixed_flows_else_all() -> None:
    scores = np.array([1.0, 2.0, 4.0])
    assert run_score(scores, ["tuned", "fixed", "background"]) == 1.5
    assert run_score(scores, ["tuned", "background", "background"]) == 1.0
    assert run_score(scores, ["background"] * 3) == pytest.approx(7 / 3)
    assert run_score(np.array([NAN, 2.0, 4.0]), ["tuned", "fixed", "background"]) == 2.0
    assert math.isnan(run_score(np.array([NAN]), ["tuned"]))


# ---- small scenarios, by hand ------------------------------------------------------------------------------

FIELDS = ("goodput_mbps", "fair_share_mbps", "start_s", "stop_s", "rtt_mean_ms")
RATE_MBPS = 16.0 * 1488 / 1448  # 16 Mbit/s of payload
LINK = {"rate_mbps": RATE_MBPS, "queue": {"kind": "droptail", "size_bdp": 1.0}}
TUNED, CUBIC = {"name": "tuned"}, {"name": "cubic", "cc": "cubic"}


def scenario_of(*flows: dict[str, object]) -> Scenario:
    flows = tuple({"rtt_ms": 20.0, **flow} for flow in flows)
    return bbrgym.load_scenario({"duration_s": 40.0, "warmup_s": 0.0, "link": LINK, "flows": flows})


def both_scores(scenario: Scenario, rows: list[list[float]]) -> list[float]:
    return [score_of_run(scenario, FIELDS, np.array(rows), score=kind) for kind in ("network", "own")]


def test_two_flows() -> None:
    # 12 and 4 of 16 Mbit/s are 3/2 and 1/2 of the fair share, an RTT of 80 ms is two doublings
    rows = [[12.0, 8.0, 0.0, 40.0, 80.0], [4.0, 8.0, 0.0, 40.0, 80.0]]
    taking, losing = math.log2(1.5) - 1.0, -1.0 - 1.0
    assert both_scores(scenario_of(TUNED, CUBIC), rows) == pytest.approx([(taking + losing) / 2, taking])
    # giving way is charged as much as taking
    assert both_scores(scenario_of(TUNED, CUBIC), rows[::-1]) == pytest.approx([(taking + losing) / 2, losing])


def test_one_limited_flow() -> None:
    # a call of 1 Mbit/s leaves 15 to the other flow; less than 1 costs, more is worth nothing, and so does a queue
    scenario = scenario_of(TUNED, {"name": "call", "cc": "reno", "app": {"kind": "cbr", "rate_mbps": 1.0}})
    assert fair_shares_mbps(scenario, np.zeros(2), np.full(2, 40.0)) == pytest.approx([15.0, 1.0])
    for call_mbps, rtt_ms, expected in ((1.0, 20.0, 0.0), (0.5, 20.0, -1.0), (2.0, 20.0, 0.0), (1.0, 80.0, -1.0)):
        rows = [[15.0, 8.0, 0.0, 40.0, 20.0], [call_mbps, 8.0, 0.0, 40.0, rtt_ms]]
        assert both_scores(scenario, rows) == pytest.approx([expected / 2, math.log2(15 / 8)])


def test_a_flow_that_starts_late() -> None:
    # 16 Mbit/s alone for 30 s and 8 for 10 s are 14 in the mean; the late one's is 8
    scenario = scenario_of(TUNED, {**CUBIC, "start_s": 30.0})
    assert fair_shares_mbps(scenario, np.array([0.0, 30.0]), np.full(2, 40.0)) == pytest.approx([14.0, 8.0])
    rows = [[14.0, 14.0, 0.0, 40.0, 20.0], [4.0, 8.0, 30.0, 40.0, 40.0]]
    assert both_scores(scenario, rows) == pytest.approx([-1.5 / 2, 0.0])


def test_harm_is_what_a_flow_loses_against_its_own_control_in_place_of_the_tuned_flows() -> None:
    names = ("goodput_mbps", "rtt_p95_ms", "loss_rate")
    run = dict(zip(names, np.array([[2.0, 9.0], [80.0, 30.0], [0.03, 0.0]]), strict=True))
    reference = dict(zip(names, np.array([[8.0, 8.0], [40.0, 40.0], [0.01, 0.01]]), strict=True))
    found = harm_of_flows(run, reference)
    np.testing.assert_allclose([found[name] for name in HARMS], [[0.75, 0.0], [0.5, 0.0], [0.02, 0.0]])


def run_of(scenario: Scenario) -> tuple[tuple[str, ...], np.ndarray]:
    with bbrgym.make_world("twin", scenario, seed=1) as world:
        world.advance(scenario.duration_s)
        return world.flow_summary_fields, world.summary()[0]


@pytest.mark.parametrize(("name", "seed"), [("wan_mix", 2**32 + 2), ("rtt_pairs", 2**32)])
def test_without_other_flows_both_scores_are_the_same_number(name: str, seed: int) -> None:
    scenario = bbrgym.load_distribution(name)(seed)
    assert {flow.role for flow in scenario.flows} == {"tuned"}
    of_run = run_of(scenario)
    assert score_of_run(scenario, *of_run) == score_of_run(scenario, *of_run, score="own")
    assert score_of_run(scenario, *of_run) == Objective(0.5, "own").of_run(scenario, *of_run)


def test_fair_shares_are_max_min() -> None:
    shares = max_min_shares(np.array([10.0, 10.0, 1.0]), np.array([[math.inf, 2, 3], [3, 1, math.inf], [1, 0, 2]]))
    np.testing.assert_allclose(shares, [[6, 2, 1 / 3], [3, 1, 1 / 3], [1, 0, 1 / 3]])


@pytest.mark.parametrize("name", ["congested", "cellular", "wan_mix"])
def test_fair_shares_without_limited_flows_are_the_worlds(name: str) -> None:
    scenario = bbrgym.load_distribution(name)(2**32 + 1) if name == "wan_mix" else bbrgym.load_scenario(name)
    fields, summary = run_of(scenario)
    column = dict(zip(fields, summary.T, strict=True))
    shares = fair_shares_mbps(scenario, column["start_s"], column["stop_s"])
    np.testing.assert_allclose(shares, column["fair_share_mbps"], rtol=1e-4)


@pytest.mark.parametrize(
    ("app", "demand_mbps"),
    [
        ({"kind": "bulk"}, math.inf),
        ({"kind": "bulk", "size_bytes": 5_000_000}, 1.0),  # in 40 s
        ({"kind": "onoff", "rate_mbps": 8.0, "on_s": 1.0, "off_s": 3.0}, 2.0),
        ({"kind": "flows", "size_bytes": [10_000_000, 20_000_000]}, 3.0),
    ],
)
def test_a_transfer_and_pauses_ask_for_their_mean(app: dict[str, object], demand_mbps: float) -> None:
    assert scenario_of({**TUNED, "app": app}).flows[0].demand_mbps(40.0) == pytest.approx(demand_mbps)
