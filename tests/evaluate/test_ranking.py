# SPDX-License-Identifier: GPL-2.0-only
"""Rankings: entrants, their reference, and the draws that count."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import bbrgym
from bbrgym.evaluate.agent_entrants import Learned, Random
from bbrgym.evaluate.entrants import preset
from bbrgym.evaluate.evaluation import run_evaluation
from bbrgym.evaluate.ranking import ALL, Ranking, find_reference
from bbrgym.evaluate.records import SUMMARY_SCHEMA
from bbrgym.report.report import write_report
from bbrgym.report.tables import families_table, plain_text, ranking_table, summary_table

MIX: dict[str, Any] = {
    "name": "mix",
    "variables": {"rtt_ms": {"uniform": [10, 50]}},
    "duration_s": 1.5,
    "link": {
        "rate_mbps": {"log_uniform": [2, 20]},
        "queue": {"size_bdp": {"choice": [0.5, 5.0]}},
        "loss": {"choice": [{"kind": "none"}, {"kind": "bernoulli", "rate": 0.01}]},
    },
    "flows": [{"name": "flow", "number": {"integer": [1, 3]}, "rtt_ms": {"value": "rtt_ms"}}],
}


class Oracle(Random):
    """As far as rankings go."""

    kind = "oracle"


class Nobody:
    name = "nobody"

    def make_policy(self, seeds: Any) -> Any:
        raise AssertionError("rankings run nothing")


def learned(agent: str, group: str) -> Learned:
    return Learned(agent, "bbr-mix", group, {}, Nobody(), agent)


BBR, BBQ = preset("bbr"), preset("bbq")
ORACLE = Oracle("oracle", "bbr-mix", "oracle bbr-mix", {})
FIRST, SECOND = learned("ppo-1", "ppo bbr-mix"), learned("ppo-2", "ppo bbr-mix")
SCORES = {
    BBR: [-1.0, -2.0, -3.0, -4.0],
    BBQ: [-1.5, -1.0, -2.0, -2.5],
    FIRST: [-1.0, -0.5, -1.5, -2.0],
    SECOND: [-1.0, -1.5, -1.5, -2.0],
    ORACLE: [-0.5, -0.5, -1.0, -1.0],
}
TWELVE = {one: 3 * scores for one, scores in SCORES.items()}  # enough draws for intervals
EVERYONE = list(SCORES)


def ranking(scores: dict[Any, list[float]] | None = None, reference: str | None = None) -> Ranking:
    scores = scores or SCORES
    distribution = bbrgym.load_distribution(MIX)
    draws = {seed: distribution(seed) for seed in range(len(next(iter(scores.values()))))}
    return Ranking(summary_of(scores), "w", list(scores), draws, reference)


def summary_of(scores: dict[Any, list[float]]) -> pl.DataFrame:
    blank = {name: "x" if kind == pl.String else 1 for name, kind in SUMMARY_SCHEMA.items()}
    rows = [
        {**blank, "world": "w", "agent": one.agent, "variant": one.variant, "seed": seed, "score": score}
        for one, of_draws in scores.items()
        for seed, score in enumerate(of_draws)
    ]
    return pl.DataFrame(rows, schema=SUMMARY_SCHEMA)


def test_training_runs_are_shown_one_by_one_and_together() -> None:
    names = [(row.entrant, row.runs) for row in ranking().rows]
    assert names == [
        *(("bbr", 1), ("bbq", 1), ("ppo-1 bbr-mix", 1), ("ppo-2 bbr-mix", 1)),
        *(("ppo bbr-mix", 2), ("oracle bbr-mix", 1)),
    ]
    by_name = {row.entrant: row for row in ranking().rows}
    assert by_name["ppo bbr-mix"].mean.value == pytest.approx(-1.375)


def test_others_are_compared_with_the_best_fixed_setting_unless_told() -> None:
    by_name = {row.entrant: row for row in ranking().rows}
    assert ranking().best_fixed == ranking().reference == "bbq"
    assert by_name["bbr"].difference.value == pytest.approx(-0.75)
    assert by_name["ppo-1 bbr-mix"].improvement.value == 1.0
    assert by_name["bbr"].improvement.value == 0.25
    with_bbr = {row.entrant: row for row in ranking(reference="bbr").rows}
    assert with_bbr["ppo-1 bbr-mix"].improvement.value == 0.875  # one tie of four


@pytest.mark.parametrize(
    ("asked", "found"), [("bbr", "bbr"), ("oracle", "oracle bbr-mix"), ("ppo bbr-mix", "ppo bbr-mix"), (None, None)]
)
def test_a_reference_has_a_name(asked: str | None, found: str | None) -> None:
    assert find_reference(asked, EVERYONE) == found


def test_the_gap_is_from_the_best_fixed_setting_to_the_oracle() -> None:
    by_name = {row.entrant: row.gap_closed.value for row in ranking(TWELVE).rows}
    assert by_name["bbq"] == 0.0
    assert by_name["oracle bbr-mix"] == 1.0
    assert by_name["ppo-1 bbr-mix"] == pytest.approx((1.75 - 1.25) / (1.75 - 0.75))
    without = ranking({one: scores for one, scores in SCORES.items() if one is not ORACLE})
    assert all(np.isnan(row.gap_closed.value) for row in without.rows)
    assert "gap" not in plain_text([ranking_table(without, "mix")])


def test_a_gap_that_may_be_0_is_undefined() -> None:
    none = ranking({**TWELVE, ORACLE: [score + 0.01 * (-1) ** at for at, score in enumerate(TWELVE[BBQ])]})
    assert all(np.isnan(row.gap_closed.value) for row in none.rows)
    text = plain_text([ranking_table(none, "mix")])
    assert text.count("undefined") == len(none.rows)
    assert "undefined" not in plain_text([ranking_table(ranking(TWELVE), "mix")])


def test_few_draws_show_no_interval() -> None:
    text = plain_text([ranking_table(ranking(), "mix"), families_table(ranking(), "mix")])
    assert "scores of 4 draws (10 or more have intervals)" in text
    assert "[" not in text
    assert "±" not in text
    assert "12 draws, with 95 % intervals by bootstrap" in plain_text([ranking_table(ranking(TWELVE), "mix")])


def test_a_page_has_one_interval_for_the_mean_score() -> None:
    result = ranking(TWELVE)
    summary = summary_of(TWELVE).with_columns(scenario=pl.format("mix-{}", "seed"))
    text = plain_text([summary_table(summary, "mix")])
    assert "mean and 95 % interval of 12 draws by bootstrap" in text
    assert "score" not in text
    assert result.rows[0].mean.text(3) in plain_text([ranking_table(result, "mix")])


def test_a_draw_without_a_score_counts_for_nobody() -> None:
    rows = ranking({**SCORES, BBR: [-1.0, np.nan, -3.0, -4.0]}).rows
    assert {row.draws for row in rows} == {3}
    assert rows[1].mean.value == pytest.approx(-2.0)


def test_families_are_of_the_draws() -> None:
    result = ranking()
    for family, rows in result.by_family.items():
        indices = result.families[family]
        assert {row.draws for row in rows} == {len(indices)}
        assert rows[0].mean.value == pytest.approx(np.mean([SCORES[BBR][index] for index in indices]))
    assert sum(len(result.families[family]) for family in ("shallow", "deep")) == 4
    assert "with CUBIC" not in result.by_family


def test_the_table_has_all_of_it_and_is_shown() -> None:
    result = ranking(TWELVE)
    table = result.table()
    assert table.height == 6 * (1 + len(result.by_family))
    overall = table.filter(pl.col("family") == ALL)
    assert overall["entrant"].to_list() == [row.entrant for row in result.rows]
    assert (overall["mean_low"] <= overall["mean"]).all()
    text = plain_text([ranking_table(result, "mix"), families_table(result, "mix")])
    for word in ("bbq", "ppo bbr-mix, all 2", "scores of 12 draws", "+0.500", "oracle", "shallow"):
        assert word in text


@pytest.mark.usefixtures("undrawn")
def test_an_evaluation_leaves_its_ranking(tmp_path: Path) -> None:
    settings = {"variants": ["bbr", "bbq"], "world": ["twin", "ns3"], "draws": 3, "reference": "bbr"}
    write_report(tmp_path, run_evaluation(MIX, settings, agent="random", output_dir=tmp_path))
    table = pl.read_parquet(tmp_path / "ranking.parquet")
    assert table["world"].unique(maintain_order=True).to_list() == ["twin", "ns3"]
    overall = table.filter((pl.col("family") == ALL) & (pl.col("world") == "twin"))
    assert overall["entrant"].to_list() == ["bbr", "bbq", "random bbr-mix"]
    assert overall["draws"].to_list() == [3, 3, 3]
    summary = pl.read_parquet(tmp_path / "summary.parquet").filter(pl.col("world") == "twin")
    runs = summary.unique(["variant", "seed"])
    for variant, mean in zip(("bbr", "bbq", "bbr-mix"), overall["mean"], strict=True):
        assert mean == pytest.approx(runs.filter(pl.col("variant") == variant)["score"].mean())
    text = " ".join((tmp_path / "summary.txt").read_text().split())  # a title may take two lines
    assert "mix, 3 test draws on twin and ns3, mean of 3 draws (10 or more have intervals)" in text
    assert "mix, 3 test draws on ns3: scores of 3 draws" in text


def test_an_unknown_reference_is_refused_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(bbrgym.ConfigError, match="reference: is 'bbr2'; did you mean bbr"):
        bbrgym.evaluate(MIX, ["bbr"], world="twin", reference="bbr2", output_dir=tmp_path)
    assert list(tmp_path.iterdir()) == []
