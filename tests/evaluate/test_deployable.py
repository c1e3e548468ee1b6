# SPDX-License-Identifier: GPL-2.0-only
"""Deployability of entrants: its measures on tables made by hand, its conditions and its table."""

import math
from typing import Any

import polars as pl
import pytest

from bbrgym.evaluate.bench.deployable import CONDITIONS, deployment_measures, held
from bbrgym.evaluate.bench.entries import BenchEntry, Mean, TaskScores
from bbrgym.evaluate.bench.results import BenchResults
from bbrgym.evaluate.bench.tasks import Alone
from bbrgym.evaluate.statistics import Estimate
from bbrgym.report.bench_table import bench_tables

DRAWS = 20
#: Share, p95 of the RTT (ms), loss rate and own score of flows
USUAL = (1.0, 40.0, 0.01, -1.0)
GOOD = {  # an estimate of each measure that keeps to all conditions, just
    **dict.fromkeys((one.measure for one in CONDITIONS), Estimate(0.0, -0.1, 0.1)),
    "loss_based_share": Estimate(0.72, 0.6, 0.8),
    "loss_based_below_half": Estimate(0.05, 0.0, 0.1),
    **dict.fromkeys(("bbr_share_50", "bbr_share_deep"), Estimate(1.25, 1.2, 1.3)),
    **dict.fromkeys(("own_share_50", "own_share_deep"), Estimate(0.8, 0.7, 0.9)),
    "lead_commons": Estimate(0.1, 0.01, 0.2),
    "alone": Estimate(0.8, 0.7, 0.9),
}


def table(
    variant: str, *, tuned: tuple[float, ...] = USUAL, other: tuple[float, ...] | None = USUAL, starved: int = 0
) -> pl.DataFrame:
    """Return rows of draws, each with a tuned flow and two others; in the first ``starved`` ones these have 0.4."""
    flows = [("tuned", tuned), *([] if other is None else [("fixed", other), ("fixed", (other[0] + 0.2, *other[1:]))])]
    rows = [
        {
            "seed": seed,
            "variant": variant,
            "role": role,
            "share_of_fair": 0.4 if role == "fixed" and seed < starved else values[0],
            "rtt_p95_ms": values[1],
            "loss_rate": values[2],
            "own_score": values[3],
        }
        for seed in range(DRAWS)
        for role, values in flows
    ]
    return pl.DataFrame(rows)


def test_measures_are_those_computed_by_hand() -> None:
    own = table("mine", tuned=(0.9, 80.0, 0.03, -0.75), other=(0.6, 80.0, 0.03, -2.0), starved=5)
    both = pl.concat([table("cubic", starved=2), table("bbr")])
    summaries = dict.fromkeys(("beside_loss_based", "deployed_10", "deployed_50", "deployed_90", "two_beside_bbr"), own)
    alone = Alone(commit="0", fixed=(-1.0,) * DRAWS, gain=0.5)
    references = dict.fromkeys(summaries, both)
    lone = table("mine", tuned=(1.0, 40.0, 0.0, -0.6), other=None)
    found = deployment_measures({**summaries, "alone": lone}, references, alone)
    share = 0.75 * 0.7 + 0.25 * 0.4
    expected = {
        "loss_based_share": share,
        "loss_based_below_half": 0.15,  # 5 draws of 20 against 2
        "loss_based_rtt": 1.0,
        "loss_based_loss": 2.0,
        "bbr_share_50": share,
        "own_share_50": 0.9,
        "bbr_share_deep": share,
        "own_share_deep": 0.9,
        **dict.fromkeys(("gain_10", "gain_50", "gain_90"), 0.25),
        "alone": 0.8,
    }
    assert {measure: one.value for measure, one in found.items()} == pytest.approx(expected)
    assert found["loss_based_share"].low < share < found["loss_based_share"].high
    assert held(found) == "c e"


@pytest.mark.parametrize(
    ("measure", "estimate", "letters"),
    [
        ("loss_based_share", Estimate(0.71, 0.6, 0.8), "b c d e"),
        ("loss_based_below_half", Estimate(0.06, -0.1, 0.2), "b c d e"),
        ("loss_based_rtt", Estimate(0.1, 0.01, 0.2), "b c d e"),
        ("loss_based_rtt", Estimate(0.1, -0.01, 0.2), "a b c d e"),
        ("loss_based_loss", Estimate(0.1, 0.01, 0.2), "b c d e"),
        ("bbr_share_50", Estimate(1.26, 1.2, 1.3), "a c d e"),
        ("own_share_deep", Estimate(0.79, 0.7, 0.9), "a c d e"),
        ("gain_50", Estimate(-0.1, -0.2, 0.01), "a b c d e"),
        ("gain_50", Estimate(-0.1, -0.2, -0.01), "a b d e"),
        ("lead_wan_mix", Estimate(-0.01, -0.1, 0.1), "a b c e"),
        ("lead_commons", Estimate(0.1, -0.01, 0.2), "a b c e"),
        ("alone", Estimate(0.79, 0.7, 0.9), "a b c d"),
        ("alone", Estimate(math.nan), "a b c d"),
    ],
)
def test_a_letter_holds_if_all_of_its_conditions_do(measure: str, estimate: Estimate, letters: str) -> None:
    assert held(GOOD) == "a b c d e"
    assert held({**GOOD, measure: estimate}) == letters
    assert held({}) == ""


def entry(name: str, **of_tasks: float) -> BenchEntry:
    """Return an entry with scores around a mean by task; its own measures all hold."""
    tasks = {
        task: TaskScores(mean=mean, low=None, high=None, scores=[mean + 0.01 * (at % 3) for at in range(12)])
        for task, mean in of_tasks.items()
    }
    measures = {measure: Mean(mean=one.value, low=one.low, high=one.high) for measure, one in GOOD.items()}
    own: dict[str, Any] = dict.fromkeys(("score", "own_score", "harm"), Mean(mean=0.0, low=None, high=None))
    deployment = {measure: one for measure, one in measures.items() if not measure.startswith("lead_")}
    kind = "reference" if name == "better" else "learned"
    return BenchEntry(
        entrant=name, label=name, kind=kind, **own, tasks=tasks, deployment=deployment, checks_passed=0, checks={}
    )


def test_a_lead_is_over_every_preset_and_the_shipped_fixed_setting() -> None:
    entries = (
        entry("bbr", wan_mix=-1.0, with_cubic=-1.0, commons=-1.0),
        entry("bbq", wan_mix=-0.9, with_cubic=-1.2, commons=-1.1),
        entry("shipped/fixed", wan_mix=-0.8, with_cubic=-1.1, commons=-0.95),
        entry("mine", wan_mix=-0.7, with_cubic=-0.95, commons=-0.9),
        entry("better", wan_mix=-0.6, with_cubic=-0.9, commons=-0.8),  # not a preset
    )
    origin = {"version": "1", "commit": "0", "is_dirty": False, "python": "3", "platform": "l", "cpu": "c", "cores": 1}
    of_file = BenchResults(benchmark="b", draws_sha256="0" * 64, **origin, entries=entries)
    ranking, deployability = ([line.split(" | ") for line in one.splitlines()] for one in bench_tables({"f": of_file}))
    assert [row[0].strip("| ") for row in ranking[2:]] == ["reference", "1", "2", "3", "4"]
    at = ranking[0].index("deployable")
    assert {row[1]: row[at] for row in ranking[2:]} == {
        "`better`": "a b c d e",
        "`mine`": "a b c d e",
        "`shipped/fixed`": "a b c e",
        "`bbr`": "a b c e",
        "`bbq`": "a b c e",
    }
    leads = {row[0].strip("| "): row[12:15] for row in deployability[2:]}
    assert leads["`mine`"] == ["0.10±0.00", "0.05±0.00", "0.05 [0.05, 0.05]"]
    assert leads["`shipped/fixed`"][1] == "**-0.10±0.00**"
