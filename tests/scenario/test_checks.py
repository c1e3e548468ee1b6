# SPDX-License-Identifier: GPL-2.0-only
"""Checks of a scenario: what they cover, what they compute, and the errors of wrong ones."""

import json
import math
from typing import Any

import pytest

import bbrgym
from bbrgym.evaluate.records import SUMMARY_SCHEMA
from bbrgym.scenario.checks import FLOW_METRICS, RUN_METRICS, ScenarioCheck

NAN = math.nan
SUMMARY = {
    "flow": ["web-0", "web-1", "web-2", "bulk"],
    "goodput_mbps": [1.0, 3.0, NAN, 10.0],
    "utilisation": [0.5] * 4,
}


def scenario(*checks: dict[str, Any]) -> dict[str, Any]:
    return {
        "duration_s": 1.0,
        "link": {"rate_mbps": 10.0, "queue": {"size_bdp": 1.0}},
        "flows": [{"name": "web", "count": 3, "rtt_ms": 20.0}, {"name": "bulk", "rtt_ms": 20.0}],
        "checks": checks,
    }


def test_the_metrics_are_columns_of_the_summary() -> None:
    assert {*RUN_METRICS, *FLOW_METRICS} <= set(SUMMARY_SCHEMA)


@pytest.mark.parametrize(
    ("check", "measured"),
    [
        ({"metric": "utilisation"}, 0.5),
        ({"metric": "goodput_mbps"}, 14 / 3),
        ({"metric": "goodput_mbps", "flow": "web"}, 2.0),
        ({"metric": "goodput_mbps", "flow": "web-1"}, 3.0),
        ({"metric": "goodput_mbps", "flow": "web", "across": "sum"}, 4.0),
        ({"metric": "goodput_mbps", "across": "lowest"}, 1.0),
        ({"metric": "goodput_mbps", "across": "highest"}, 10.0),
        ({"metric": "goodput_mbps", "flow": "web", "across": "p95"}, 2.9),
    ],
)
def test_a_check_measures(check: dict[str, Any], measured: float) -> None:
    assert ScenarioCheck(**check, at_least=0.0).measured(SUMMARY) == pytest.approx(measured)


def test_flows_without_a_measurement_alone_give_none() -> None:
    check = ScenarioCheck(metric="goodput_mbps", flow="web-2", at_most=1.0)
    assert math.isnan(check.measured(SUMMARY))
    assert not check.holds(check.measured(SUMMARY))


def test_both_bounds_are_allowed() -> None:
    check = ScenarioCheck(metric="utilisation", at_least=0.5, at_most=0.9)
    assert [check.holds(value) for value in (0.49, 0.5, 0.9, 0.91)] == [False, True, True, False]


def test_no_world_reads_them() -> None:
    with_checks = bbrgym.load_scenario(scenario({"metric": "jain", "at_least": 0.9}))
    assert with_checks.resolved_json() == bbrgym.load_scenario(scenario()).resolved_json()
    assert "checks" not in json.loads(with_checks.resolved_json())


def test_a_distribution_may_draw_the_bounds() -> None:
    fields = {**scenario(), "name": "drawn", "variables": {"least": {"uniform": [1, 2]}}}
    fields["checks"] = [{"metric": "goodput_mbps", "at_least": {"value": "least", "times": 0.5}}]
    bounds = {bbrgym.load_distribution(fields)(seed).checks[0].at_least for seed in range(3)}
    assert len(bounds) == 3
    assert all(bound is not None and 0.5 <= bound <= 1 for bound in bounds)


@pytest.mark.parametrize(
    ("check", "error"),
    [
        ({"metric": "utilization", "at_least": 0.9}, r"checks\[0\].metric: is 'utilization'; .*utilisation"),
        ({"metric": "jain"}, r"checks\[0\]: has no bound, expected at_least, at_most or both"),
        ({"metric": "jain", "at_least": 2, "at_most": 1}, r"checks\[0\].at_least: is 2, expected at most at_most = 1"),
        ({"metric": "jain", "flow": "web", "at_least": 1}, r"checks\[0\].flow: is 'web', expected none"),
        ({"metric": "jain", "across": "sum", "at_least": 1}, r"checks\[0\].across: is 'sum', expected none"),
        ({"metric": "share", "flow": "wbe", "at_least": 1}, r"checks\[0\].flow: is 'wbe'; .*web"),
        ({"metric": "share", "across": "p96", "at_least": 1}, r"checks\[0\].across: is 'p96', expected one of"),
        ({"metric": "share", "at_lest": 1}, r"checks\[0\].at_lest: is not a field; .*at_least"),
    ],
)
def test_a_wrong_check_is_named(check: dict[str, Any], error: str) -> None:
    with pytest.raises(bbrgym.ScenarioError, match=error):
        bbrgym.load_scenario(scenario(check))
