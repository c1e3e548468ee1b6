# SPDX-License-Identifier: GPL-2.0-only
"""Verdicts by closed cases, the rows that show them, and agreement with a testbed on three of its cells."""

import math
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bbrgym.evaluate.runner import run_each
from bbrgym.papers.experiment import Claim, Experiment, Published, Quantity
from bbrgym.papers.metrics import MeasuredRun, measure
from bbrgym.papers.reproduction import NUMBERS, parse_reproduction, prepare_reproduction
from bbrgym.papers.tables import TESTBEDS, experiment_rows, rows_of_testbeds, unmeasured
from bbrgym.papers.verdicts import (
    Compared,
    Verdict,
    agrees,
    verdict_of_all,
    verdict_of_claim,
    verdict_of_readings,
    verdict_on_testbed,
    verdicts_of,
)

POSITIVE = st.floats(0.01, 1000)


def number(
    value: float, variant: str = "bbr", at: float | None = None, flow: str | None = None, **more: Any
) -> Published:
    about = {"variant": variant, "metric": "goodput_mbps", "at": at, "flow": flow}
    return Published(value=value, unit="Mbit/s", source="text", **about, **more)


@pytest.mark.parametrize(
    ("published", "measured", "expected"),
    [
        (number(10.0), 10.99, True),
        (number(10.0), 11.01, False),
        (number(10.0), 9.01, True),
        (number(10.0), 8.99, False),
        (number(-10.0), -10.5, True),
        (number(0.0), 0.0, True),
        (number(0.0), 0.1, False),
        (number(10.0, spread=(5.0, 12.0)), 5.1, True),
        (number(10.0, spread=(5.0, 12.0)), 12.5, False),  # the spread takes the place of the 10 %
        (number(10.0, spread=(9.9, 10.1)), 10.5, False),
        (number(0.02, rounding=0.005), 0.025, True),  # as precisely as 0.02 is known
        (number(0.02, rounding=0.005), 0.026, False),
    ],
)
def test_a_number_agrees_within_its_spread_or_ten_percent(
    published: Published, measured: float, expected: bool
) -> None:
    assert agrees(published, measured) is expected


def of_testbed(metric: str, low: float, high: float) -> Published:
    runs = {"lowest": low, "highest": high, "value": (low + high) / 2}
    return Published(variant="bbr", metric=metric, unit="ratio", source="file", **runs)


@pytest.mark.parametrize(
    ("number", "measured", "expected"),
    [
        (of_testbed("share", 0.2, 0.3), 0.151, "inside"),
        (of_testbed("share", 0.2, 0.3), 0.349, "inside"),
        (of_testbed("share", 0.2, 0.3), 0.351, "near"),
        (of_testbed("share", 0.2, 0.3), 0.101, "near"),
        (of_testbed("share", 0.2, 0.3), 0.401, "no"),
        (of_testbed("goodput_mbps", 10, 10), 10.9, "inside"),
        (of_testbed("goodput_mbps", 10, 10), 12.4, "near"),
        (of_testbed("goodput_mbps", 10, 10), 12.6, "no"),
    ],
)
def test_a_number_of_a_testbed_is_inside_its_range_or_near_it(
    number: Published, measured: float, expected: str
) -> None:
    assert verdict_on_testbed(number, measured) == expected
    assert verdicts_of([Compared(number, measured)]) == [expected]


def verdicts(*pairs: tuple[Published, float]) -> list[Verdict]:
    return verdicts_of([Compared(published, measured) for published, measured in pairs])


def ratio(value: float, at: float | None = None, **more: Any) -> Published:
    about = {"variant": "bbq", "metric": "queue_delay_ms", "over": "bbr", "at": at}
    return Published(value=value, unit="ratio", source="text", **about, **more)


RISING = [(number(10, at=1), 15.0), (number(20, at=2), 30.0), (number(40, at=3), 70.0)]
SHAPES: dict[str, tuple[list[tuple[Published, float]], list[Verdict]]] = {
    "order of variants": ([(number(10), 15), (number(20, "bbq"), 30)], ["shape", "shape"]),
    "another order": ([(number(10), 15), (number(20, "bbq"), 14)], ["no", "no"]),
    "order of flows": ([(number(10, flow="a"), 15), (number(20, flow="b"), 20)], ["shape", "agrees"]),
    "not a companion": ([(number(10, flow="a"), 15), (number(20, "bbq", flow="b"), 20)], ["no", "agrees"]),
    "trend": (RISING, ["shape"] * 3),
    # the first one's next point is as published
    "bent trend": ([*RISING[:2], (number(40, at=3), 29.0)], ["shape", "no", "no"]),
    "published as equal": ([(number(10), 15), (number(10.5, "bbq"), 16)], ["no", "no"]),
    "imprecise": ([(number(10, rounding=5), 16), (number(14, "bbq", rounding=5), 25)], ["no", "no"]),
    "alone": ([(number(10), 15)], ["no"]),
    "far": ([(number(10), 20.1), (number(100, "bbq"), 100)], ["no", "agrees"]),
    "not run": ([(number(10), 15), (number(20, "bbq"), math.nan)], ["no", "not run"]),
    "ratio": ([(ratio(0.35), 0.31)], ["shape"]),
    "near, but the other variant is ahead": ([(ratio(0.8), 1.1)], ["no"]),
    "ratio published as equal": ([(ratio(1.05), 1.3)], ["no"]),
    "imprecise ratio": ([(ratio(1.3, rounding=0.4), 1.9)], ["no"]),
    # the trend alone does not make the first one's shape
    "trend of ratios": ([(ratio(1.2, at=1), 0.9), (ratio(2.0, at=2), 1.5)], ["no", "shape"]),
}


@pytest.mark.parametrize("case", SHAPES)
def test_a_shape_is_an_order_or_a_trend_within_a_factor_of_two(case: str) -> None:
    pairs, expected = SHAPES[case]
    assert verdicts(*pairs) == expected


@pytest.mark.parametrize(
    ("all_of_them", "expected"),
    [
        (["agrees"] * 4 + ["no"], "agrees"),
        (["agrees"] * 3 + ["shape"] + ["no"], "shape"),
        (["agrees"] * 3 + ["no"] * 2, "no"),
        (["not run", "agrees"], "agrees"),
        (["not run"], "not run"),
        ([], "not run"),
        (["inside"] * 4 + ["no"], "inside"),
        (["inside"] * 3 + ["near"] + ["no"], "near"),
    ],
)
def test_an_experiment_has_the_verdict_of_four_fifths(all_of_them: list[Verdict], expected: Verdict) -> None:
    assert verdict_of_all(all_of_them) == expected


def test_of_readings_the_best_one_has_the_verdict() -> None:
    verdicts: list[Verdict] = ["no", "shape", "shape", "no", "agrees"]
    assert verdict_of_readings(verdicts, ["paced", "unpaced", "unpaced", "paced", None]) == ("shape", "unpaced")
    assert verdict_of_readings(verdicts, [None] * 5) == (verdict_of_all(verdicts), None)
    # Of two with the same verdict the one with more.
    assert verdict_of_readings(["no", "no", "no", "shape"], ["a", "a", "b", "b"]) == ("no", "b")


def test_a_claim_holds_or_does_not() -> None:
    less, than = (Quantity(variant=name, metric="goodput_mbps") for name in ("bbr", "cubic"))
    claim = Claim(text="BBR below CUBIC", less=less, than=than, source="text")
    assert verdict_of_claim(claim, 1.0, 2.0) == "shape"
    assert verdict_of_claim(claim, 2.0, 1.0) == "no"
    assert verdict_of_claim(claim, math.nan, 1.0) == "not run"
    assert verdict_of_claim(claim.model_copy(update={"times": 0.4}), 1.0, 2.0) == "no"
    assert verdict_of_claim(Claim(text="below 25 %", less=less, than=0.25, source="text"), 0.2, 0.25) == "agrees"


@given(POSITIVE)
def test_a_number_agrees_with_itself(value: float) -> None:
    assert verdicts((number(value), value)) == ["agrees"]


# ---- rows of experiments ------------------------------------------------------------------------------


def experiment(name: str, **fields: Any) -> Experiment:
    return Experiment(
        paper="mine", id=name, figure="figure 1", title="Jain's index, 0.1 % loss", no_run="a test", **fields
    )


def rows(*ratios: float, name: str = "mine/a", verdict: str = "agrees") -> pl.DataFrame:
    fields = {"experiment": name, "world": "twin", "published": 10.0, "verdict": verdict, "variant": "bbr"}
    measured = [{**fields, "measured": 10 * ratio, "at": float(at)} for at, ratio in enumerate(ratios)]
    return pl.DataFrame(measured, schema=NUMBERS)


def test_an_experiment_has_a_row_with_its_verdict_and_shares() -> None:
    numbers = pl.concat([rows(*[1.0] * 4, 1.5), rows(1, 3, name="mine/b", verdict="no")])
    title = "Jain's index, 0.1 % loss"
    assert list(experiment_rows([experiment("a"), experiment("b")], numbers)) == [
        ["`a`", title, "agrees", "5, 0, 0", "80 %, 100 %"],
        ["`b`", title, "no", "0, 0, 2", ""],  # too few numbers for a share
    ]


def test_each_world_has_a_row_of_its_own() -> None:
    numbers = pl.concat([rows(1), rows(3, verdict="no").with_columns(world=pl.lit("ns3"))])
    found = list(experiment_rows([experiment("a")], numbers))
    assert [row[0:3:2] for row in found] == [["`a` in `twin`", "agrees"], ["`a` in `ns3`", "no"]]


def test_an_experiment_without_a_run_says_why() -> None:
    assert next(experiment_rows([experiment("a")], rows(1, name="mine/b")))[2] == "not run"
    assert list(unmeasured([experiment("a")], rows(1))) == ["- `a`: a test"]


def on_testbed(model: float | None) -> Experiment:
    number = {"variant": "bbr 1", "metric": "share", "flow": "bbr", "unit": "ratio", "source": "file", "model": model}
    points = [
        {"at": 1, "value": 0.5, "lowest": 0.5, "highest": 0.5},
        {"at": 2, "value": 0.6, "lowest": 0.5, "highest": 0.7},
    ]
    return experiment("a", variants={"bbr 1": {"cc": "bbr"}}, published=[{**number, **point} for point in points])


def test_an_experiment_on_a_testbed_has_a_row_for_each_control_and_metric() -> None:
    number = {"experiment": "mine/a", "world": "twin", "variant": "bbr 1", "metric": "share", "flow": "bbr"}
    cells = [
        {**number, "at": 1.0, "published": 0.5, "unit": "ratio", "measured": 0.52, "verdict": "inside"},
        {**number, "at": 2.0, "published": 0.6, "unit": "ratio", "measured": 0.9, "verdict": "no"},
    ]
    numbers = pl.DataFrame(cells, schema=NUMBERS)
    title = "Jain's index, 0.1 % loss"
    row = ["`mine/a`", title, "bbr", "share", "2", "1", "0", "1", "16.0 points"]
    assert list(rows_of_testbeds([on_testbed(0.4)], numbers)) == [[*row, "15.0 points"]]
    assert list(rows_of_testbeds([on_testbed(None)], numbers)) == [[*row, ""]]
    ((_, _, verdict, *rest),) = rows_of_testbeds([on_testbed(None)], numbers.clear())
    assert (verdict, len(rest)) == ("not run", len(TESTBEDS) - 3)


# ---- a testbed ----------------------------------------------------------------------------------------


EXPERIMENT = "nyu/10mbps-cubic"


@pytest.mark.parametrize(("variant", "at"), [("bbr 4", 8.0), ("bbr2 8", 4.0), ("bbr3 4", 8.0)])
def test_a_share_is_inside_the_range_of_the_testbed(variant: str, at: float) -> None:
    (prepared,) = prepare_reproduction(parse_reproduction({"experiment": EXPERIMENT, "seeds": 1})).experiments
    (case,) = (case for case in prepared.cases if (case.variant, case.at) == (variant, at))
    (number,) = (
        one for one in prepared.experiment.published if (one.quantity.variant, one.quantity.at) == (variant, at)
    )
    (record,) = run_each([case.job], 1)
    assert not isinstance(record, Exception), record
    run = MeasuredRun(record.summary, record.timeseries, case.job.scenario.mss_bytes)
    share = measure(run, number.metric, number.flow)
    assert verdict_on_testbed(number, share) == "inside", f"{share} beside {number.bounds}"
