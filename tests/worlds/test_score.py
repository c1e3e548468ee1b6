# SPDX-License-Identifier: GPL-2.0-only
"""The score's golden values and edges."""

import math

import numpy as np
import pytest

import bbrgym
from bbrgym.worlds.score import Objective, flow_scores, harm_of_run, run_score, score_of_run

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


def test_tuned_flows_count_else_fixed_else_all() -> None:
    scores = np.array([1.0, 2.0, 4.0])
    assert run_score(scores, ["tuned", "fixed", "background"]) == 1.0
    assert run_score(scores, ["fixed", "fixed", "background"]) == 1.5
    assert run_score(scores, ["background"] * 3) == pytest.approx(7 / 3)
    assert run_score(np.array([NAN, 2.0, 4.0]), ["tuned", "tuned", "background"]) == 2.0
    assert run_score(np.array([NAN, 2.0]), ["tuned", "fixed"]) == 2.0
    assert math.isnan(run_score(np.array([NAN]), ["tuned"]))


def test_an_objective_prices_what_other_flows_lose() -> None:
    flows = [
        {"name": "own", "rtt_ms": 20.0},
        {"name": "cubic", "rtt_ms": 20.0, "cc": "cubic"},
        {"name": "reno", "rtt_ms": 20.0, "cc": "reno"},
        {"name": "web", "rtt_ms": 20.0, "cc": "cubic", "role": "background"},
    ]
    link = {"rate_mbps": 16.0, "delay_ms": 5.0, "queue": {"size_bdp": 1.0}}
    scenario = bbrgym.load_scenario({"duration_s": 4.0, "warmup_s": 1.0, "link": link, "flows": flows})
    fields = ("goodput_mbps", "fair_share_mbps", "start_s", "stop_s", "rtt_mean_ms")
    rows = [
        [12.0, 4.0, 1.0, 4.0, 40.0],
        [1.0, 4.0, 1.0, 4.0, 40.0],
        [8.0, 4.0, 1.0, 4.0, 40.0],
        [0.1, 4.0, 1.0, 4.0, 40.0],
    ]
    table = np.array(rows)
    assert harm_of_run(scenario, fields, table) == pytest.approx(
        1.0
    )  # one is halved twice, one gains, the mean of both
    score = score_of_run(scenario, fields, table, delta=0.5)
    assert Objective(0.5, 0.3).of_run(scenario, fields, table) == pytest.approx(score - 0.3)
    assert Objective(0.5).of_run(scenario, fields, table) == score
    alone = bbrgym.load_scenario({"duration_s": 4.0, "warmup_s": 1.0, "link": link, "flows": flows[:1]})
    assert Objective(0.5, 0.3).of_run(alone, fields, table[:1]) == score_of_run(alone, fields, table[:1], delta=0.5)
