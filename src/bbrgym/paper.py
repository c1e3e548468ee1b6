# SPDX-License-Identifier: GPL-2.0-only
"""All figures of a run folder by the names of their files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from bbrgym import contest_plots, plots
from bbrgym.figure_data import draws_over_time, scenario_over_time
from bbrgym.outcome import Outcome
from bbrgym.records import write_atomically
from bbrgym.tables import worlds_of


def write_figures(folder: Path, outcome: Outcome) -> None:
    """Writes each as PNG."""
    for name, figure in figures_of(outcome):
        write_atomically(folder / f"{name}.png", FigureCanvasAgg(figure).print_png)


def figures_of(outcome: Outcome) -> Iterator[tuple[str, Figure]]:
    """Names, without ending, and figures."""
    if outcome.contests:
        yield from _of_draws(outcome)
    else:
        yield "goodput", plots.goodput_over_time(outcome.timeseries)  # of the first seed, as the next one
        yield "queue_delay", plots.queue_delay_over_time(outcome.timeseries)
        yield "summary", plots.summary_bars(outcome.summary)
        for world, draw in zip(worlds_of(outcome.summary), scenario_over_time(outcome), strict=False):
            yield f"tunables-{world}", contest_plots.draw_over_time(draw)
    for label, cells in outcome.policy_maps.items():
        figure = contest_plots.policy(label, cells)
        if figure is not None:
            yield f"policy-{label.replace(' ', '-')}", figure


def _of_draws(outcome: Outcome) -> Iterator[tuple[str, Figure]]:
    for contest in outcome.contests:
        where = f"-{contest.world}" if len(outcome.contests) > 1 else ""
        yield f"standings{where}", contest_plots.standings(contest, outcome.title)
        if contest.by_family:
            yield f"families{where}", contest_plots.families(contest, outcome.title)
        for number, draw in enumerate(draws_over_time(outcome, contest), start=1):
            yield f"draw{where}-{number}", contest_plots.draw_over_time(draw)
