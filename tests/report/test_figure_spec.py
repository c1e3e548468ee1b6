# SPDX-License-Identifier: GPL-2.0-only
"""One specification, two renderers: both draw every kind of series, with the same values."""

import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

from bbrgym.errors import ConfigError
from bbrgym.evaluate.statistics import Estimate
from bbrgym.report import matplotlib_renderer
from bbrgym.report.figure_spec import Axis, Bars, FigureSpec, HeatMap, Line, Panel, Points, colour
from bbrgym.report.matplotlib_renderer import draw, write_figures
from bbrgym.report.output_settings import FigureSettings, taken_output_settings
from bbrgym.report.plotly_renderer import PlotlyFigure, render_figure

NAMES = ("first", "second")
ESTIMATES = (Estimate(1.0, 0.5, 2.0), Estimate(3.0))
LINE = Line([0.0, 1.0, 2.0], [1.0, math.nan, 3.0], "a", colour(0), band=([0, 1, 2], [2, 3, 4]))
POINTS = Points((0.1, 1.1), ESTIMATES, "x", "b", colour(1), "diamond")
BARS = Bars((0, 1), ESTIMATES, 0.4, "c", colour(2), opacity=0.5)
HEAT = HeatMap(np.array([[1.0, 10.0], [100.0, 1000.0]]), "ms")
NUMBERS, TWO = Axis("value (ms)"), Axis(names=NAMES, is_reversed=True)


def spec(*panels: Panel, **fields: Any) -> FigureSpec:
    return FigureSpec("name", "Title", panels, **fields)


def plotly(figure: FigureSpec) -> PlotlyFigure:
    rendered = render_figure(figure)
    go.Figure(data=rendered.data, layout=rendered.layout)  # refuses what Plotly does not know
    return rendered


FOUR = spec(
    Panel(NUMBERS, NUMBERS, [LINE], "line"),
    Panel(NUMBERS, TWO, [POINTS], "points"),
    Panel(NUMBERS, TWO, [BARS], "bars"),
    Panel(Axis("x", names=NAMES), Axis("y", names=NAMES), [HEAT], "map"),
    columns=2,
)


def test_matplotlib_draws_every_series() -> None:
    line, points, bars, heat, *_ = draw(FOUR).axes
    np.testing.assert_array_equal(line.lines[0].get_ydata(), LINE.y)
    assert len(line.collections) == 1  # the band
    assert points.lines[0].get_xdata() == pytest.approx([1.0, 3.0])
    assert [patch.get_width() for patch in bars.patches] == [1.0, 3.0]
    np.testing.assert_array_equal(heat.images[0].get_array(), HEAT.values)
    labels = [text.get_text() for text in points.texts]
    assert labels[-2:] == list(NAMES)
    assert set(labels[:-2]) >= {"1.0", "2.0", "3.0"}
    heights = [points.transAxes.inverted().transform((0, text.get_window_extent().y0))[1] for text in points.texts]
    assert max(heights[:-2]) < 0 < heights[-1] < heights[-2]  # numbers are below the panel, the first name is on top
    assert points.yaxis_inverted()


def test_plotly_draws_every_series() -> None:
    line, band, points, bars, heat = plotly(FOUR).data
    np.testing.assert_array_equal(line["y"], LINE.y)
    assert band["fill"] == "toself"
    assert (points["x"], points["y"]) == ([1.0, 3.0], [0.1, 1.1])
    assert points["error_x"]["arrayminus"][0] == 0.5
    assert points["text"] == ["first: 1.000 [0.500, 2.000]", "second: 3.000"]
    assert (bars["x"], bars["width"]) == ([1.0, 3.0], 0.4)
    assert bars["marker"]["color"].endswith(",0.5)")  # as the legend shows it
    np.testing.assert_allclose(heat["z"], HEAT.values)
    assert [trace["xaxis"] for trace in (line, points, bars, heat)] == ["x", "x2", "x3", "x4"]


def test_a_name_is_once_in_the_legend() -> None:
    two = spec(*(Panel(NUMBERS, NUMBERS, [LINE, Line([0], [1], "z", colour(3))]) for _ in range(3)))
    (legend,) = draw(two).legends
    assert [text.get_text() for text in legend.get_texts()] == ["a", "z"]
    rendered = plotly(two)
    assert rendered.layout["showlegend"]
    assert [trace["name"] for trace in rendered.data if trace["showlegend"]] == ["a", "z"]
    alone = spec(Panel(NUMBERS, NUMBERS, [LINE]))
    assert draw(alone).legends == []
    assert not plotly(alone).layout["showlegend"]


@pytest.mark.parametrize("label", ["short", "agent.learning_rate=0.0001, agent=recurrent_ppo, gamma=0.99"])
def test_a_legend_is_no_wider_than_its_figure(label: str) -> None:
    lines = [Line([0, 1], [0, at], f"{label}, {at}", colour(at)) for at in range(6)]
    figure = draw(spec(Panel(NUMBERS, NUMBERS, lines)))
    figure.canvas.draw()
    (legend,) = figure.legends
    box = legend.get_window_extent()
    assert box.x0 >= 0
    assert box.x1 <= figure.bbox.width


def test_shared_axes_are_one() -> None:
    panels = [Panel(Axis("time (s)"), Axis("delay (ms)", starts_at_zero=True), [LINE], name) for name in "abc"]
    shared = spec(*panels, columns=2, shares_x=True, shares_y=True, subject="of which run")
    figure = draw(shared)
    assert {axes.get_ylim() for axes in figure.axes} == {figure.axes[0].get_ylim()}
    assert figure.axes[0].get_ylim()[0] == 0
    assert [figure.get_suptitle(), figure.get_supylabel()] == ["of which run", "delay (ms)"]
    assert [axes.get_visible() for axes in figure.axes] == [True, True, True, False]
    assert [bool(axes.get_xlabel()) for axes in figure.axes[:3]] == [False, True, True]
    labels = [[text.get_text() for text in axes.texts] for axes in figure.axes[:3]]
    assert ["0.5" in texts for texts in labels] == [False, True, True]  # of the x axis
    assert ["4" in texts for texts in labels] == [True, False, True]  # of the y axis
    layout = plotly(shared).layout
    assert (layout["xaxis2"]["matches"], layout["yaxis3"]["matches"]) == ("x", "y")
    assert ["title" in layout[name] for name in ("xaxis", "xaxis2", "xaxis3")] == [False, True, True]
    assert ["title" in layout[name] for name in ("yaxis", "yaxis2", "yaxis3")] == [True, False, True]


def test_without_a_known_interval_there_is_no_error_bar() -> None:
    unknown = [Estimate(1.0), Estimate(2.0)]
    bars, points = Bars((0, 1), unknown, 0.4, "a", colour(0)), Points((0, 1), unknown, "x", "b", colour(1))
    for trace in plotly(spec(Panel(NUMBERS, TWO, [bars, points]))).data:
        assert "error_x" not in trace
    axes = draw(spec(Panel(NUMBERS, TWO, [points]))).axes[0]
    segments = [segment for lines in axes.collections for segment in lines.get_segments()]
    assert not any(np.isfinite(segment).all() and len(segment) > 1 for segment in segments)


def test_an_interval_that_rounding_put_beside_its_value_has_no_length() -> None:
    points = Points((0, 1), [Estimate(1.0, 1.0 + 1e-15, 1.0 + 1e-15), Estimate(2.0, 1.0, 3.0)], "y", "b", colour(1))
    axes = draw(spec(Panel(TWO, NUMBERS, [points]))).axes[0]
    lengths = [np.ptp(segment[:, 1]) for lines in axes.collections for segment in lines.get_segments()]
    assert lengths == pytest.approx([0.0, 2.0])


def test_panels_lie_side_by_side_and_do_not_overlap() -> None:
    layout = plotly(
        spec(*(Panel(NUMBERS, NUMBERS, [LINE]) for _ in range(5)), columns=3, column_widths=(2, 1, 1))
    ).layout
    ends = [layout[f"xaxis{number}"]["domain"] for number in ("", 2, 3)]
    assert ends[0][1] < ends[1][0] < ends[1][1] < ends[2][0] < ends[2][1] <= 1
    assert ends[0][1] - ends[0][0] == pytest.approx(2 * (ends[1][1] - ends[1][0]))
    assert layout["yaxis4"]["domain"][1] < layout["yaxis"]["domain"][0]


@pytest.mark.parametrize(("ending", "begins"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")])
def test_each_format_is_written_with_the_same_bytes_each_time(ending: str, begins: bytes, tmp_path: Path) -> None:
    settings = FigureSettings(format=ending, style="paper")  # type: ignore[arg-type]
    written = []
    for name in ("once", "again"):
        write_figures(tmp_path / name, [FOUR], settings)
        (path,) = (tmp_path / name).iterdir()
        written.append(path.read_bytes())
    assert path.name == f"name.{ending}"
    assert written[0] == written[1]
    assert written[0].startswith(begins)


def test_many_figures_are_drawn_side_by_side_with_the_same_bytes(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(matplotlib_renderer, "_SHARE", 2)
    specs = [replace(FOUR, name=f"figure-{number}") for number in range(4)]
    for cores in (1, 2):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, cores=cores: set(range(cores)))
        write_figures(tmp_path / f"{cores}", specs)
    alone, together = ([(path.name, path.read_bytes()) for path in sorted(tmp_path.glob(f"{n}/*"))] for n in (1, 2))
    assert len(alone) == 4
    assert alone == together


def test_a_paper_s_figure_fits_its_columns() -> None:
    assert draw(FOUR, "paper").get_size_inches()[0] == 7.0
    alone = draw(spec(Panel(NUMBERS, NUMBERS, [LINE, Line([0], [1], "z", colour(3))])), "paper")
    assert alone.get_size_inches()[0] == 3.35
    assert alone.get_suptitle() == ""
    assert alone.axes[0].lines[0].get_linewidth() < LINE.width


def test_a_figure_s_settings_are_checked() -> None:
    options = {"figures": {"format": "gif"}, "records": {"csv": False}, "jobs": 2}
    with pytest.raises(ConfigError, match=r"^figures\.format: is 'gif', expected one of 'png', 'pdf' or 'svg'$"):
        taken_output_settings(options)
    assert options == {"jobs": 2}
