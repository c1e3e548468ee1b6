# SPDX-License-Identifier: GPL-2.0-only
"""Reports of evaluations, complete and drawn by a browser without errors, and their tables."""

import math
import re
from html import unescape
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from short_scenarios import MIX, SHORT

from bbrgym.evaluate.evaluation import run_evaluation
from bbrgym.evaluate.records import SUMMARY_SCHEMA, TIMING_SCHEMA, flow_groups, per_run
from bbrgym.report.output_settings import FigureSettings, OutputSettings, RecordSettings
from bbrgym.report.ranking_figures import grid_figure
from bbrgym.report.report import write_report
from bbrgym.report.tables import goodput_columns, plain_text, speed_table, summary_table
from bbrgym.scenario.distribution import Distribution


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
    for words in ("short on twin and ns3, mean and 95 % interval of 2 seeds", "2 entrants", "8 runs"):
        assert words in text
    assert (tmp_path / "config.yaml").read_text()[:200] in unescape(text)


def test_draws_of_a_distribution(browse, tmp_path: Path) -> None:
    settings = {"variants": ["bbr", "bbq"], "world": "twin", "draws": 6, "series_draws": 2}
    results = run_evaluation(MIX, settings, agent="random", output_dir=tmp_path)
    output = OutputSettings(figures=FigureSettings(format="png"))
    write_report(tmp_path, results, "bbrgym evaluate scenario=mix.yaml 'variants=[bbr,bbq]'", output)
    seen = browse(tmp_path / "report.html", "return document.querySelector('.command').innerText;")
    assert seen.problems == []
    assert (seen.loads, seen.requests, seen.overflow) == (0, [], 0)
    assert seen.result == "bbrgym evaluate scenario=mix.yaml 'variants=[bbr,bbq]'"
    ranking, pairs, profiles, distributions, delay, families, *draws, others, _, _ = seen.plots
    assert (ranking["traces"], pairs["traces"], profiles["traces"]) == (2 + 3, 1, 3)  # means, and draws of each entrant
    assert (distributions["traces"], delay["traces"]) == (2 * 3, 3 * 3)  # ellipse, draws and mean
    assert families["traces"] == 3 * (1 + len(results.rankings[0].by_family))
    assert others["traces"] == 4 + 1  # draws of each entrant and of CUBIC in its place, and means
    assert len(draws) == 2
    for draw in draws:  # reference and random: goodput and queue of both, four tunables of random
        assert draw["traces"] == 2 * 2 + 4
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "mix, 6 test draws on twin: scores of 6 draws" in text
    assert len(re.findall(r"mix-429496729[67]: \d flows?, [\d.]+ Mbit/s", text)) == 2
    for name in ("ranking", "pairs", "families", "draw-1", "others", "distributions", "delay"):
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


# ---- tables -------------------------------------------------------------------------------------------


NAN = math.nan


def test_flows_of_one_count_are_a_group() -> None:
    assert flow_groups(["a-0", "a-1", "b", "c-x"]) == {"a": ["a-0", "a-1"], "b": ["b"], "c-x": ["c-x"]}


def summary(rows: list[dict[str, object]]) -> pl.DataFrame:
    blank: dict[str, object] = {
        name: "x" if kind == pl.String else 0 if kind == pl.Int64 else 1.0 for name, kind in SUMMARY_SCHEMA.items()
    }
    return pl.DataFrame([{**blank, "agent": "fixed", **row} for row in rows], schema=SUMMARY_SCHEMA)


def test_the_queueing_delay_is_the_mean_over_packets() -> None:
    runs = per_run(
        summary(
            [
                {"flow": "a", "throughput_mbps": 3.0, "start_s": 0.0, "stop_s": 10.0, "queue_delay_mean_ms": 10.0},
                {"flow": "b", "throughput_mbps": 1.0, "start_s": 0.0, "stop_s": 10.0, "queue_delay_mean_ms": 50.0},
                {"flow": "c", "throughput_mbps": NAN, "start_s": NAN, "stop_s": NAN, "queue_delay_mean_ms": NAN},
            ]
        )
    )
    assert runs["queue_delay_ms"].to_list() == [20.0]


def test_many_flows_are_shown_as_their_total() -> None:
    runs = per_run(summary([{"flow": f"flow{letter}", "goodput_mbps": 2.0} for letter in "abcde"]))
    assert goodput_columns(runs) == {"goodput": "total"}
    assert runs["goodput"].to_list() == [10.0]


def summary_text(summary: pl.DataFrame) -> str:
    return plain_text([summary_table(summary)])


def test_the_table_says_what_it_shows() -> None:
    rows = [
        {"scenario": "s", "world": "w", "variant": v, "seed": seed, "flow": "f", "goodput_mbps": float(seed)}
        for v in ("bbr", "bbq")
        for seed in (1, 3)
    ]
    text = summary_text(summary(rows))
    assert "s on w, mean and 95 % interval of 2 seeds by Student's t" in text
    assert "2.00 ± 12.71" in text
    assert text.index("bbr") < text.index("bbq")


def two_worlds() -> pl.DataFrame:
    rows = [
        {"scenario": "s", "world": world, "variant": "bbr", "seed": seed, "flow": flow}
        for world in ("a", "b")
        for seed in (1, 2)
        for flow in ("short", "long")
    ]
    return summary(rows)


def test_worlds_have_rows_of_their_own() -> None:
    text = summary_text(two_worlds())
    assert "s on a and b, mean and 95 % interval of 2 seeds" in text
    assert [line.split()[:2] for line in text.splitlines()[6:9]] == [["bbr", "a"], ["b", "1.00"], []]
    assert "share" not in summary_text(two_worlds().filter(pl.col("world") == "a"))


def test_the_table_fits_a_terminal_of_80_columns() -> None:
    text = summary_text(two_worlds().filter(pl.col("seed") == 1).with_columns(pl.lit("bbr-pg-inv").alias("variant")))
    assert max(map(len, text.splitlines())) <= 80


def test_speed_is_in_simulated_seconds_per_second() -> None:
    rows = [
        ("s", "a", "bbr", "fixed", 1, 10.0, 4.0),
        ("s", "a", "bbq", "fixed", 1, 10.0, 6.0),
        ("s", "b", "bbr", "fixed", 1, 10.0, 0.01),
    ]
    table = speed_table(pl.DataFrame(rows, schema=TIMING_SCHEMA, orient="row"))
    cells = [list(column.cells) for column in table.columns]
    assert list(zip(*cells, strict=True)) == [
        ("a", "20", "10.00", "2.0", "1"),
        ("b", "10", "0.01", "1000.0", "500.0 times a"),
    ]


def test_a_grid_gives_maps_of_harm(tmp_path: Path) -> None:
    variables = {"queue_bdp": {"grid": [0.5, 4]}, "others": {"grid": [1, 2]}, "rtt_ms": {"grid": [20, 40]}}
    link = {"rate_mbps": 4.0, "queue": {"size_bdp": {"value": "queue_bdp"}}}
    flow = {"name": "flow", "rtt_ms": {"value": "rtt_ms"}}
    flows = [flow, {**flow, "name": "cubic", "number": {"value": "others"}, "cc": "cubic"}]
    grid = Distribution({"name": "grid", "variables": variables, "duration_s": 8.0, "link": link, "flows": flows})
    results = run_evaluation(grid, {"variants": ["bbr", "bbr3"], "world": "twin", "draws": 7}, output_dir=tmp_path)
    write_report(tmp_path, results)
    assert "Harm to others over the grid" in (tmp_path / "report.html").read_text(encoding="utf-8")
    figure = grid_figure(results, "twin", "")
    assert figure is not None
    assert [panel.title for panel in figure.panels] == ["bbr", "bbr", "bbr3", "bbr3"]
    harms = per_run(results.summary.filter(variant="bbr3")).select("seed", "harm").rows()
    for panel, (variable, values) in zip(figure.panels[2:], list(grid.grid.items())[1:], strict=True):
        (heat_map,) = panel.series
        for row, column in np.ndindex(2, 2):
            at = {"queue_bdp": [0.5, 4][row], variable: values[column]}
            cells = [100 * harm for seed, harm in harms if at.items() <= grid.cell(seed).items()]
            assert heat_map.values[row, column] == pytest.approx(np.mean(cells))  # type: ignore[union-attr]
    worst, harm = max(harms, key=lambda run: run[1])
    assert f"bbr3 {harm:.2f} at queue_bdp {grid.cell(worst)['queue_bdp']}" in figure.note
