# SPDX-License-Identifier: GPL-2.0-only
"""Agreement of two worlds."""

import math

import polars as pl
import pytest

from bbrgym.evaluate.records import SUMMARY_SCHEMA
from bbrgym.evaluate.world_gap import METRICS, SHARE, Difference, differences

NAN = math.nan
METRIC = {metric.column: metric for metric in METRICS}


@pytest.mark.parametrize(
    ("column", "reference", "other", "agrees"),
    [
        ("share", 0.50, 0.55, True),
        ("share", 0.50, 0.551, False),
        ("utilisation", 0.98, 0.96, True),
        ("utilisation", 0.98, 0.959, False),
        ("queue_delay_ms", 5.0, 7.0, True),  # 2 ms
        ("queue_delay_ms", 5.0, 7.01, False),
        ("queue_delay_ms", 100.0, 115.0, True),  # 15 %
        ("queue_delay_ms", 100.0, 115.1, False),
        ("retransmit_rate", 0.001, 0.004, True),  # 0.003
        ("retransmit_rate", 0.1, 0.125, True),  # 25 %
        ("retransmit_rate", 0.1, 0.0749, False),
        ("jain", 1.0, 0.95, True),
        ("jain", 1.0, 0.949, False),
        ("jain", NAN, NAN, True),
        ("jain", NAN, 1.0, False),
        ("jain", 1.0, NAN, False),
    ],
)
def test_tolerances(column: str, reference: float, other: float, agrees: bool) -> None:
    assert Difference(METRIC[column], None, reference, other).agrees is agrees


def rows(**columns: list[object]) -> pl.DataFrame:
    count = len(next(iter(columns.values())))
    blank = {name: ["x" if kind == pl.String else 1] * count for name, kind in SUMMARY_SCHEMA.items()}
    return pl.DataFrame({**blank, "agent": ["fixed"] * count, **columns}, schema=SUMMARY_SCHEMA)


def test_means_over_seeds_are_compared() -> None:
    table = rows(world=["a", "a", "b", "b"], seed=[1, 2, 1, 2], jain=[0.5, 0.9, 0.72, 0.72])
    ((variant, cells),) = differences(table, "a", "b")
    assert variant == "x"
    assert [cell.metric for cell in cells] == list(METRICS)
    assert cells[-1].difference == pytest.approx(0.02)
    assert all(cell.agrees for cell in cells)


def test_the_share_is_that_of_the_flow_that_differs_most() -> None:
    table = rows(world=["a", "a", "a", "b", "b", "b"], flow=list("xyz") * 2, share=[0.5, 0.3, NAN, 0.48, 0.37, NAN])
    ((_, cells),) = differences(table, "a", "b")
    assert cells[0].metric is SHARE
    assert cells[0].flow == "y"
    assert cells[0].difference == pytest.approx(0.07)
    assert not cells[0].agrees


def test_a_share_that_one_world_lacks_is_no_agreement() -> None:
    table = rows(world=["a", "a", "b", "b"], flow=list("xy") * 2, share=[0.5, 0.5, 0.52, NAN])
    ((_, cells),) = differences(table, "a", "b")
    assert cells[0].flow == "y"
    assert not cells[0].agrees


def test_a_difference_too_small_to_show_has_no_minus() -> None:
    assert METRIC["utilisation"].text(-1e-6, "+") == "+0.0"
    assert METRIC["utilisation"].text(-0.02, "+") == "-2.0"
    assert METRIC["utilisation"].text(NAN, "+") == "-"
