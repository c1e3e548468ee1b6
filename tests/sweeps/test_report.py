# SPDX-License-Identifier: GPL-2.0-only
"""The page of a multirun, in a browser."""

from pathlib import Path

import polars as pl

from bbrgym.runs.run_folder import RunFolder
from bbrgym.sweeps.report import write_multirun_report
from bbrgym.sweeps.results import CURVE_SCHEMA, MultirunResults


def test_the_figures_of_a_multirun_draw(tmp_path: Path, browse) -> None:
    rates, agents, seeds = (1e-4, 1e-3, 1e-2), ("ppo", "sac"), (1, 2)
    rows = [(rate, agent, seed) for rate in rates for agent in agents for seed in seeds]
    summary = pl.DataFrame(
        {
            "job": [f"job-{number}" for number in range(len(rows))],
            "status": ["done"] * (len(rows) - 1) + ["failed"],
            "agent.learning_rate": [row[0] for row in rows],
            "agent": [row[1] for row in rows],
            "seed": [row[2] for row in rows],
            "best_score": [-0.1 * number for number in range(len(rows))],
            "wall_s": [1.0] * len(rows),
        }
    )
    points = [(job, step, step / 100) for job in summary["job"] for step in (0, 50, 100)]
    curves = pl.DataFrame(points, schema=CURVE_SCHEMA, orient="row")
    log = tmp_path / "job.log"
    log.write_text("it <broke>\n")
    parameters = ("agent.learning_rate", "agent", "seed")
    results = MultirunResults("mine", "train", parameters, "best_score", True, summary, curves)
    command = "bbrgym train -m agent=ppo,sac"
    write_multirun_report(RunFolder(tmp_path), results, {"job-11": log}, "hydra: {}\n", command)
    seen = browse(tmp_path / "report.html", "return document.body.innerText;")
    assert seen.problems == []
    assert [plot["svgs"] > 0 and plot["marks"] > 0 for plot in seen.plots] == [True, True]
    assert (seen.loads, seen.requests, seen.overflow) == (0, [], 0)
    for text in ("Multirun mine", "12 jobs", "11 done", command, "job-11: end of its log"):
        assert text in seen.result
