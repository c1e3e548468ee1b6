# SPDX-License-Identifier: GPL-2.0-only
"""Sentences on what a paper's experiments do not meet."""

from typing import Any

import polars as pl

from bbrgym.papers.experiment import CsvNumbers, Experiment, ParameterSweep
from bbrgym.papers.numbers_table import SHARE_COLUMNS, numbers_table
from bbrgym.papers.summary import summary_of

FILE = CsvNumbers(file="a.csv", variant="v", metric="jain", unit="ratio", value="y", at="x")


def experiment(name: str, **fields: Any) -> Experiment:
    return Experiment(
        paper="mine", id=name, figure="figure 1", title="Jain's index, 0.1 % loss", no_run="a test", **fields
    )


def rows(*ratios: float, name: str = "mine/a", verdict: str = "agrees") -> pl.DataFrame:
    fields = {"experiment": name, "world": "twin", "published": 10.0, "verdict": verdict, "variant": "bbr"}
    shares = dict.fromkeys(SHARE_COLUMNS, 0.5)
    measured = [{**fields, **shares, "measured": 10 * ratio, "at": float(at)} for at, ratio in enumerate(ratios)]
    return pl.DataFrame(measured, schema=numbers_table([]).schema)


def in_file(name: str = "a") -> Experiment:
    return experiment(name, reference=FILE, sweep=ParameterSweep(title="loss (%)", at=[0, 1], set={}))


def test_an_unmet_experiment_is_named_with_a_link_to_its_section() -> None:
    numbers = pl.concat([rows(1, 3, name="mine/b", verdict="no"), rows(1, 1)])
    assert summary_of([experiment("a"), experiment("b")], numbers) == (
        "Verdict no, with the numbers and claims that are not met; each section tells the cause: "
        "[b](#mineb-jains-index-01--loss) (2 of 2)."
    )
    assert summary_of([experiment("a")], rows(1, 1)) == ""


def test_the_aims_are_told_as_reached_or_missed() -> None:
    text = summary_of([in_file()], rows(*[1.0] * 16, 1.3, 1.5, 1.55, 0.1))
    assert "The authors' files hold 20 numbers above 0 (a)." in text
    assert "80.0 % are within a factor of 1.25: the aim of 80 % is reached." in text
    assert "95.0 % are within a factor of 1.6: the aim of 95 % is reached." in text
    assert "The 1 outside 1.6, by place: loss (%) of 19: 1 (a bbr)." in text
    assert "Single runs of ours are within 1.25 and 1.6 of the mean of the others in 50.0 and 50.0 %" in text
    text = summary_of([in_file()], rows(*[1.0] * 15, 1.3, 1.5, 1.5, 0.1, 9))
    assert "75.0 % are within a factor of 1.25: the aim of 80 % is missed by 1 number." in text
    assert "90.0 % are within a factor of 1.6: the aim of 95 % is missed by 1 number." in text


def test_what_was_not_measured_is_outside() -> None:
    numbers = rows(1, 1).with_columns(measured=pl.lit(None, pl.Float64))
    assert "0.0 % are within a factor of 1.6: the aim of 95 % is missed by 2 numbers." in summary_of(
        [in_file()], numbers
    )
