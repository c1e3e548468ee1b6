# SPDX-License-Identifier: GPL-2.0-only
"""Reports of evaluations: complete, and drawn by a browser without errors."""

import re
from pathlib import Path

import polars as pl
import pytest
from short_scenarios import MIX, SHORT

from bbrgym.evaluate.evaluation import run_evaluation
from bbrgym.report.output_settings import FigureSettings, OutputSettings, RecordSettings
from bbrgym.report.report import write_report


@pytest.mark.usefixtures("undrawn")
def test_a_scenario_in_two_worlds(browse, tmp_path: Path) -> None:
    settings = {"variants": ["bbr", "cubic"], "world": ["twin", "ns3"], "seeds": [1, 2]}
    write_report(tmp_path, run_evaluation(SHORT, settings, output_dir=tmp_path))
    seen = browse(
        tmp_path / "report.html", "return Array.from(document.querySelectorAll('h1, h2'), (h) => h.innerText);"
    )
    assert seen.problems == []
    assert (seen.loads, seen.requests, seen.overflow) == (0, [], 0)
    assert seen.result == ["short on twin and ns3", "Results", "Flows over time", "Worlds", "Configuration"]
    summary, goodput, queue, *spreads = seen.plots[:7]
    flows = seen.plots[7:]
    assert summary["traces"] == 2 * (1 + 2 + 1)  # of each world: score, goodput of two flows, queueing delay
    assert goodput["traces"] == 2 * 2 * 2  # entrants, flows, worlds
    assert queue["traces"] == 2 * 2
    assert [plot["traces"] for plot in spreads] == [2 * 2, 2 * 2] * 2  # distributions and scatter of each world
    assert len(flows) == 2 * 2 * 2  # worlds, entrants, flows
    for plot in seen.plots:
        assert plot["svgs"] > 0
        assert plot["marks"] >= plot["traces"]
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert len(text) < 1.5e6
    for words in ("short on twin and ns3, mean and 95 % interval of 2 seeds", "ns3 minus twin", "2 entrants", "8 runs"):
        assert words in text
    assert (tmp_path / "config.yaml").read_text()[:200] in text.replace("&#39;", "'")


def test_draws_of_a_distribution(browse, tmp_path: Path) -> None:
    settings = {"variants": ["bbr", "bbq"], "world": "twin", "draws": 6, "series_draws": 2}
    results = run_evaluation(MIX, settings, agent="random", output_dir=tmp_path)
    write_report(tmp_path, results, command="bbrgym evaluate scenario=mix.yaml 'variants=[bbr,bbq]'")
    seen = browse(tmp_path / "report.html", "return document.querySelector('.command').innerText;")
    assert seen.problems == []
    assert (seen.loads, seen.requests, seen.overflow) == (0, [], 0)
    assert seen.result == "bbrgym evaluate scenario=mix.yaml 'variants=[bbr,bbq]'"
    ranking, pairs, profiles, distributions, delay, families, *draws, _, _ = seen.plots
    assert (ranking["traces"], pairs["traces"], profiles["traces"]) == (2 + 3, 1, 3)  # means, and draws of each entrant
    assert (distributions["traces"], delay["traces"]) == (2 * 3, 3 * 3)  # ellipse, draws and mean
    assert families["traces"] == 3 * (1 + len(results.rankings[0].by_family))
    assert len(draws) == 2
    for draw in draws:  # reference and random: goodput and queue of both, four tunables of random
        assert draw["traces"] == 2 * 2 + 4
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "mix, 6 test draws on twin: scores of 6 draws" in text
    assert len(re.findall(r"mix-429496729[67]: \d flows?, [\d.]+ Mbit/s", text)) == 2
    for name in ("ranking", "pairs", "families", "draw-1", "distributions", "delay"):
        assert (tmp_path / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.usefixtures("undrawn")
def test_agents_on_a_plain_scenario(browse, tmp_path: Path) -> None:
    settings = {"variants": ["bbr"], "oracle_budget": 3, "world": "twin"}
    write_report(tmp_path, run_evaluation(SHORT, settings, agent=["random", "oracle"], output_dir=tmp_path))
    seen = browse(tmp_path / "report.html")
    assert seen.problems == []
    over_time = seen.plots[5]
    assert over_time["traces"] == 4 * 2 + 4 * 3  # two oracles; what the preset has is not set


@pytest.mark.usefixtures("undrawn")
def test_one_draw_and_no_time_series(browse, tmp_path: Path) -> None:
    settings = {"variants": ["bbr"], "world": "twin", "draws": 1, "series_draws": 0}
    write_report(tmp_path, run_evaluation(MIX, settings, output_dir=tmp_path))
    seen = browse(tmp_path / "report.html")
    assert seen.problems == []
    assert all(plot["svgs"] > 0 for plot in seen.plots)


def test_records_as_csv_and_figures_as_pdf(tmp_path: Path) -> None:
    output = OutputSettings(figures=FigureSettings(format="pdf", style="paper"), records=RecordSettings(csv=True))
    write_report(
        tmp_path, run_evaluation(SHORT, {"variants": ["bbr"], "world": "twin"}, output_dir=tmp_path), None, output
    )
    parquets = sorted(tmp_path.glob("*.parquet"))
    assert [path.stem for path in parquets] == ["summary", "timeseries"]
    for path in parquets:
        table = pl.read_parquet(path)
        assert pl.read_csv(path.with_suffix(".csv"), schema=table.schema).equals(table)
    assert {path.suffix for path in (tmp_path / "figures").iterdir()} == {".pdf"}
