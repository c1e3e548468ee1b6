# SPDX-License-Identifier: GPL-2.0-only
"""The report of an evaluation: tables as text, figures and a page in the run folder."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path

from bbrgym.evaluate.ranking import Ranking
from bbrgym.evaluate.results import Results
from bbrgym.report import flow_figures, ranking_figures, scenario_figures, spread_figures, tables, tunable_figures
from bbrgym.report.output_settings import OutputSettings
from bbrgym.report.page import Code, Item, Page, Section
from bbrgym.report.report_files import write_report_files
from bbrgym.scenario.families import FAMILIES

_SCORE = (
    "The score of a flow is log2(goodput / fair share) - 0.5 log2(mean RTT / base RTT), unless score_delta gives the "
    "RTT another weight; a run's score is the mean over its tuned and fixed flows, its own score over the tuned ones. "
    "0 is a fair share without a queue."
)

_OTHERS = (
    "What the flows that are not tuned get, means over those of a run. Harm is what a flow loses against the same run "
    "with its own control in place of the tuned flows: a part of its goodput and of its 95th percentile of the RTT, "
    "and packets lost; a gain counts as 0."
)

_CHECKS = (
    "The bounds are the scenario's. An entrant passes a check if the mean over its runs keeps to them; beside it is "
    "how many runs do on their own."
)

_TRANSFERS = (
    "The time of a transfer is from its flow's start, the handshake included, until all of it arrived. Its slowdown "
    "is that time over the one that 1.5 propagation RTTs and its packets at the link's rate take."
)

_FLOWS = (
    f"At most {flow_figures.MAX_FLOWS} flows of each entrant; of draws the first tuned flow on the first one. A "
    "click on a title shows its figure. Shaded is the phase of the congestion control."
)


def write_report(
    folder: Path, results: Results, command: str | None = None, output: OutputSettings | None = None
) -> None:
    """Write summary.txt, report.html and, if they are asked for, figures/, each file whole or not at all."""
    write_report_files(folder, tables.tables_of_results(results), evaluation_page(results, command), output)


def evaluation_page(results: Results, command: str | None = None) -> Page:
    """Return the page of an evaluation."""
    sections = [section for section in _sections(results) if section.items]
    return Page(tables.title_of(results.summary, results.title), sections, _facts(results), command)


def _facts(results: Results) -> list[str]:
    """Return the date, the size and the cost of the evaluation."""
    simulated_s, wall_s = results.timing["simulated_s"].sum(), results.timing["wall_s"].sum()
    counts = ((len(results.entrants), "entrant"), (len(results.timing), "run"))
    return [
        f"{datetime.date.today():%d %B %Y}",
        *(f"{number} {what}{'s' if number != 1 else ''}" for number, what in counts),
        f"{simulated_s:,.0f} s simulated in {wall_s:,.1f} s",
    ]


def _sections(results: Results) -> Iterator[Section]:
    summary, title = results.summary, results.title
    if not results.rankings:
        yield Section("Results", _of_scenario(results), _SCORE)
    for ranking in results.rankings:
        yield from _of_ranking(results, ranking, f"-{ranking.world}" if len(results.rankings) > 1 else "")
    yield Section("Other flows", [*ranking_figures.others_figures(results), *tables.others_tables(results)], _OTHERS)
    has_transfers = tables.has_transfers(summary)
    yield Section("Transfers", [tables.transfers_table(summary, title)] if has_transfers else [], _TRANSFERS)
    has_checks = not results.checks.is_empty()
    yield Section("Checks", [tables.checks_table(results.checks, title)] if has_checks else [], _CHECKS)
    if results.rankings:
        yield Section("Measurements", [tables.summary_table(summary, title)])
    yield Section("Flows over time", list(flow_figures.flow_figures(results)), _FLOWS)
    yield Section("Worlds", [tables.speed_table(results.timing)])
    yield Section("Configuration", [Code("All settings, defaults included", results.config)])


def _of_scenario(results: Results) -> list[Item]:
    return [
        scenario_figures.summary_figure(results.summary),
        tables.summary_table(results.summary, results.title),
        scenario_figures.goodput_figure(results.timeseries),
        scenario_figures.queue_delay_figure(results.timeseries),
        *spread_figures.scenario_spreads(results),
        *tunable_figures.agent_figures(results),
    ]


def _of_ranking(results: Results, ranking: Ranking, suffix: str) -> Iterator[Section]:
    """Yield the sections of the draws in a world; ``suffix`` tells worlds apart in the names of files."""
    about = (ranking, results.title, suffix)
    scores: list[Item] = [
        ranking_figures.ranking_figure(*about),
        tables.ranking_table(ranking, results.title),
        ranking_figures.pairs_figure(*about),
        ranking_figures.profiles_figure(*about),
        *spread_figures.draw_spreads(results, ranking, suffix),
    ]
    yield Section(f"Ranking on {ranking.world}", scores, _SCORE)
    grid = ranking_figures.grid_figure(results, ranking.world, suffix)
    yield Section(f"Grid on {ranking.world}", [] if grid is None else [grid])
    families: list[Item] = []
    if ranking.by_family:
        families = [ranking_figures.families_figure(*about), tables.families_table(ranking, results.title)]
    meanings = "; ".join(f"{name}: {family.meaning}" for name, family in FAMILIES.items())
    text = f"A draw can be in several. {meanings}."
    yield Section(f"Families of scenarios on {ranking.world}", families, text)
    draws = list(tunable_figures.draw_figures(results, ranking, suffix))
    yield Section(f"Single draws on {ranking.world}", draws)
