# SPDX-License-Identifier: GPL-2.0-only
"""All figures of a run folder by the names of their files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from bbrgym.evaluate.records import worlds_of
from bbrgym.evaluate.results import Results
from bbrgym.files import write_atomically
from bbrgym.report import plots, ranking_plots
from bbrgym.report.figure_data import draws_over_time, scenario_over_time


def write_figures(folder: Path, results: Results) -> None:
    """Writes each as PNG."""
    for name, figure in figures_of(results):
        write_atomically(folder / f"{name}.png", FigureCanvasAgg(figure).print_png)


def figures_of(results: Results) -> Iterator[tuple[str, Figure]]:
    """Names, without ending, and figures."""
    if results.rankings:
        yield from _of_draws(results)
    else:
        yield "goodput", plots.goodput_over_time(results.timeseries)  # of the first seed, as the next one
        yield "queue_delay", plots.queue_delay_over_time(results.timeseries)
        yield "summary", plots.summary_bars(results.summary)
        for world, draw in zip(worlds_of(results.summary), scenario_over_time(results), strict=False):
            yield f"tunables-{world}", ranking_plots.draw_over_time(draw)
    for label, cells in results.policy_maps.items():
        figure = ranking_plots.policy(label, cells)
        if figure is not None:
            yield f"policy-{label.replace(' ', '-')}", figure


def _of_draws(results: Results) -> Iterator[tuple[str, Figure]]:
    for ranking in results.rankings:
        where = f"-{ranking.world}" if len(results.rankings) > 1 else ""
        yield f"ranking{where}", ranking_plots.ranking_figure(ranking, results.title)
        if ranking.by_family:
            yield f"families{where}", ranking_plots.families(ranking, results.title)
        for number, draw in enumerate(draws_over_time(results, ranking), start=1):
            yield f"draw{where}-{number}", ranking_plots.draw_over_time(draw)
