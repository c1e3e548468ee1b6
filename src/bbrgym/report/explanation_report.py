# SPDX-License-Identifier: GPL-2.0-only
"""An agent's explanation in words, a table and a figure of one episode, and the page that holds them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from rich.table import Table

from bbrgym.agents.explanation.explanation import Explanation
from bbrgym.evaluate.statistics import bootstrap_mean
from bbrgym.report.figure_spec import Axis, FigureSpec, Line, Panel, colour
from bbrgym.report.page import Page, Section
from bbrgym.report.report_files import write_report_files
from bbrgym.report.tables import draws_with_intervals, new_table

_SHOWN = 4  # tunables in the figure of an episode: those that move most
_TIME = Axis("time (s)", starts_at_zero=True)


def write_explanation(folder: Path, explanation: Explanation, command: str) -> None:
    """Write summary.txt, with Matplotlib figures/, and report.html, each file whole or not at all."""
    facts = [f"{explanation.variant} on {explanation.scenario}", f"{len(explanation.episodes)} episodes"]
    sections = [
        Section("In words", [shuffled_table(explanation)], sentences(explanation)),
        Section("One episode", [episode_figure(explanation)]),
    ]
    page = Page(f"What {explanation.agent} does", sections, facts, command)
    write_report_files(folder, [shuffled_table(explanation)], page)


def sentences(explanation: Explanation) -> str:
    """Return what the agent does, and how to read its table."""
    who = "Each tuned flow decides" if explanation.is_per_flow else "One controller decides for all tuned flows,"
    return (
        f"{who} every {explanation.interval_s:g} s. A feature's part is what changes if it is that of another episode: "
        "the action in the same situation, and the score of whole episodes."
    )


def shuffled_table(explanation: Explanation) -> Table:
    """Return a table with a row per feature."""
    title = f"What changes if a feature is that of another episode: {draws_with_intervals(len(explanation.episodes))}"
    table = new_table(title, ["feature\n"], ["change of the action\n% of its range", "drop in score\n"])
    for one in explanation.shuffled:
        change = bootstrap_mean(one.action_change).scaled(100)
        table.add_row(one.name, change.text(1), bootstrap_mean(one.score_drop).text(3, "+"))
    return table


def episode_figure(explanation: Explanation) -> FigureSpec:
    """Specify the first episode: actions, queueing delay, and goodput."""
    episode = explanation.episodes[0]
    delays = Line(episode.times_s, episode.queue_delay_ms, None, colour(6))
    goodputs = [
        Line(episode.times_s, episode.goodput_mbps[:, place], name, colour(place))
        for place, name in enumerate(episode.flows)
    ]
    return FigureSpec(
        name="episode",
        title=f"One episode of {explanation.scenario}, seed {episode.seed}: score {episode.score:.3f}",
        panels=[
            Panel(_TIME, Axis("action"), list(_actions(explanation))),
            Panel(_TIME, Axis("queueing delay (ms)", starts_at_zero=True), [delays]),
            Panel(_TIME, Axis("goodput (Mbit/s)", starts_at_zero=True), goodputs),
        ],
        shares_x=True,
        height_in=7.5,
    )


def _actions(explanation: Explanation) -> Iterator[Line]:
    """Yield the actions of the first policy: the tunables that move most, or the chosen number."""
    for one in explanation.episodes[0].decisions[:1]:
        ends = np.append(one.times_s, one.times_s[-1] + explanation.interval_s)
        columns = one.actions.reshape(len(one.actions), -1)
        is_each = columns.shape[1] == len(explanation.tunables)
        names = explanation.tunables if is_each else ("number of the action",)
        for place, column in enumerate(np.argsort(-columns.std(axis=0), kind="stable")[:_SHOWN].tolist()):
            values = columns[:, column]
            yield Line(ends, np.append(values[:1], values), names[column], colour(7 + place), is_stepped=True)
