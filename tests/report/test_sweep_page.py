# SPDX-License-Identifier: GPL-2.0-only
"""The page of a sweep, in a browser."""

from pathlib import Path

import polars as pl

from bbrgym.sweeps.results import CURVE_SCHEMA, SweepResults
from bbrgym.sweeps.sweep_folder import SweepFolder
from bbrgym.sweeps.sweep_report import write_sweep_report


def test_the_figures_of_a_sweep_draw(tmp_path: Path, browse) -> None:
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
    folder = SweepFolder(tmp_path)
    folder.open(resume=False)
    try:
        folder.write_text("logs/job-11.log", "it <broke>\n")
        parameters = ("agent.learning_rate", "agent", "seed")
        results = SweepResults("mine", "train", parameters, "best_score", True, summary, curves)
        folder.write_config({"command": "train"})
        write_sweep_report(folder, results, "bbrgym sweep agent=ppo,sac")
    finally:
        folder.close()
    seen = browse(tmp_path / "report.html", "return document.body.innerText;")
    assert seen.problems == []
    assert [plot["svgs"] > 0 and plot["marks"] > 0 for plot in seen.plots] == [True, True]
    assert (seen.loads, seen.requests, seen.overflow) == (0, [], 0)
    for text in ("Sweep mine", "12 jobs", "11 done", "bbrgym sweep agent=ppo,sac", "job-11: end of its log"):
        assert text in seen.result
