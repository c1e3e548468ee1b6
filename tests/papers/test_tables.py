# SPDX-License-Identifier: GPL-2.0-only
"""The row of each experiment, and what was not measured."""

from typing import Any

import polars as pl

from bbrgym.papers.experiment import Experiment
from bbrgym.papers.reproduction import NUMBERS
from bbrgym.papers.tables import TESTBEDS, experiment_rows, rows_of_testbeds, unmeasured


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
