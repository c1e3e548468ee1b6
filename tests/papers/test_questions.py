# SPDX-License-Identifier: GPL-2.0-only
"""Open questions: choices beside the first one, and what is said of them."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml
from small_experiment import FIELDS

from bbrgym.cli.main import main
from bbrgym.evaluate.runner import run_each
from bbrgym.papers.catalogue import select_experiments
from bbrgym.papers.experiment import Experiment, FlowMetric
from bbrgym.papers.questions import Question, questions_of
from bbrgym.papers.reproduction import NUMBERS, parse_reproduction, prepare_reproduction

COMPARED = [{"metric": "goodput_mbps"}, {"metric": "rtt_mean_ms"}]


def question(**cells: tuple[float, float, float]) -> Question:
    """The question of a scenario whose other choice has these ratios: mean, low and high end."""
    scenario = Experiment(
        paper="mine",
        id="a",
        figure="Issue 1",
        title="idle",
        variants=["off", "on"],
        compared=[FlowMetric(metric=metric) for metric in cells],
        no_run="a test",
    )
    of_all = {"experiment": "mine/a", "world": "twin", "variant": "on", "over": "off"}
    rows = [
        {**of_all, "metric": metric, **dict(zip(("measured", "low", "high"), cell, strict=True))}
        for metric, cell in cells.items()
    ]
    (found,) = questions_of([scenario], pl.DataFrame(rows, schema=NUMBERS))
    return found


@pytest.mark.parametrize(
    ("metric", "cell", "says"),
    [
        ("goodput_mbps", (1.2, 1.1, 1.3), "better in goodput_mbps (idle); within chance or 1 % in 0 of 1 cells"),
        ("rtt_mean_ms", (1.2, 1.1, 1.3), "worse in rtt_mean_ms (idle); within chance or 1 % in 0 of 1 cells"),
        ("rtt_mean_ms", (0.8, 0.7, 0.9), "better in rtt_mean_ms (idle); within chance or 1 % in 0 of 1 cells"),
        ("jain", (0.8, 0.5, 1.1), "within chance or 1 % in 1 of 1 cells"),
        ("jain", (1.004, 1.003, 1.005), "within chance or 1 % in 1 of 1 cells"),
        ("retransmit_rate", (float("nan"),) * 3, "within chance or 1 % in 0 of 0 cells"),
    ],
    ids=["more goodput", "more delay", "less delay", "chance", "slight", "none"],
)
def test_a_difference_beyond_chance_is_better_or_worse(metric: str, cell: Any, says: str) -> None:
    assert list(question(**{metric: cell}).conclusions()) == [f"`on` is {says}."]


def test_a_row_has_the_ratios_with_their_intervals() -> None:
    found = question(goodput_mbps=(1.2, 1.1, 1.3), jain=(1.0, 0.9, 1.1), rtt_mean_ms=(float("nan"),) * 3)
    assert found.headings == ["scenario", "beside `off`", "goodput_mbps", "jain", "rtt_mean_ms"]
    assert list(found.rows()) == [["idle", "`on`", "**1.20 [1.10, 1.30]**", "1.00 [0.90, 1.10]", "-"]]


def test_a_question_without_a_run_is_left_out() -> None:
    shipped = select_experiments("draft", [])
    assert len({one.figure for one in shipped}) == 4
    assert list(questions_of(shipped, pl.DataFrame(schema=NUMBERS))) == []


def experiment_file(folder: Path, **fields: Any) -> str:
    kept = {name: copy.deepcopy(FIELDS[name]) for name in ("figure", "title", "scenario", "variants", "seeds")}
    (folder / "mine").mkdir()
    path = folder / "mine" / "idle.yaml"
    path.write_text(yaml.safe_dump({**kept, "compared": COMPARED, **fields}))
    return str(path)


def test_seeds_are_compared_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    source = experiment_file(tmp_path)
    assert main(["reproduce", f"experiment={source}", "output_dir=out", "docs=docs"]) == 0, capsys.readouterr().err
    assert "figure 1, in world twin: ratio to `bbr` [95 %]" in capsys.readouterr().out
    numbers = pl.read_parquet(tmp_path / "out" / "numbers.parquet")
    (prepared,) = prepare_reproduction(parse_reproduction({"experiment": source})).experiments
    records = run_each([case.job for case in prepared.cases], 1)
    goodputs = [record.summary["goodput_mbps"].sum() for record in records if not isinstance(record, Exception)]
    bbr, small = np.reshape(goodputs, (2, -1))
    ratio = numbers.filter((pl.col("over") == "bbr") & (pl.col("metric") == "goodput_mbps"))["measured"]
    assert ratio.to_list() == pytest.approx([(small / bbr).mean()])
    page = (tmp_path / "docs" / "papers.md").read_text()
    assert "### figure 1\n\n- `small` is " in page
    assert "| two flows | `small` | " in page
    assert "| mine |" not in page, "it has no verdicts to count"
