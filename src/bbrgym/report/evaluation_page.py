# SPDX-License-Identifier: GPL-2.0-only
"""The page of an evaluation: report.html of its run folder."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path

from bbrgym.evaluate.ranking import Ranking
from bbrgym.evaluate.records import worlds_of
from bbrgym.evaluate.results import Results
from bbrgym.report import interactive, tables
from bbrgym.report.figure_data import draws_over_time, scenario_over_time
from bbrgym.report.page import Code, Item, Page, Section, write_page
from bbrgym.scenario.families import FAMILIES

_SCORE = (
    "The score of a flow is log2(goodput / fair share) - 0.5 log2(mean RTT / base RTT), unless another weight of the "
    "RTT was asked for; a run's is the mean over its learner flows. 0 is a fair share without a queue."
)


def write_page_of(path: Path, results: Results, command: str | None = None) -> None:
    """Writes the page.

    Args:
        path: of the page.
        results: what it shows.
        command: that asked.
    """
    sections = [*_results(results), _worlds(results), _question(results.config)]
    page = Page(
        title=tables.title_of(results.summary, results.title),
        sections=[section for section in sections if section.items],
        facts=_facts(results),
        command=command,
    )
    write_page(path, page)


def _facts(results: Results) -> list[str]:
    """In short."""
    runs = len(results.timing)
    simulated_s, wall_s = results.timing["simulated_s"].sum(), results.timing["wall_s"].sum()
    return [
        f"{datetime.date.today():%d %B %Y}",
        _count(len(results.entrants), "entrant"),
        _count(runs, "run"),
        f"{simulated_s:,.0f} s simulated in {wall_s:,.1f} s",
    ]


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number != 1 else ''}"


def _results(results: Results) -> Iterator[Section]:
    if not results.rankings:
        yield Section("Results", _of_scenario(results), _SCORE)
        yield Section("Policies", _policies(results))
        return
    for ranking in results.rankings:
        yield Section(f"Ranking on {ranking.world}", _of_draws(results, ranking), _SCORE)
        yield Section(
            f"Families of scenarios on {ranking.world}", _of_families(results, ranking), text=_families_text()
        )
        yield Section(f"Single draws on {ranking.world}", _over_time(results, ranking))
    yield Section("Policies", _policies(results))
    yield Section("What was measured", [tables.summary_table(results.summary, results.title)])


def _of_scenario(results: Results) -> list[Item]:
    return [
        interactive.summary_figure(results.summary),
        tables.summary_table(results.summary, results.title),
        interactive.goodput_figure(results.timeseries),
        interactive.queue_figure(results.timeseries),
        *(interactive.draw_figure(draw) for draw in scenario_over_time(results)),
    ]


def _of_draws(results: Results, ranking: Ranking) -> list[Item]:
    return [
        interactive.ranking_figure(ranking),
        tables.ranking_table(ranking, results.title),
        interactive.pairs_figure(ranking),
        interactive.profiles_figure(ranking),
    ]


def _of_families(results: Results, ranking: Ranking) -> list[Item]:
    if not ranking.by_family:
        return []
    return [interactive.families_figure(ranking), tables.families_table(ranking, results.title)]


def _families_text() -> str:
    meanings = "; ".join(f"{name}: {family.meaning}" for name, family in FAMILIES.items())
    return f"A draw can be in several. {meanings}."


def _over_time(results: Results, ranking: Ranking) -> list[Item]:
    return [interactive.draw_figure(draw) for draw in draws_over_time(results, ranking)]


def _policies(results: Results) -> list[Item]:
    """What trained agents do."""
    figures = (interactive.policy_figure(label, cells) for label, cells in results.policy_maps.items())
    return [figure for figure in figures if figure is not None]


def _worlds(results: Results) -> Section:
    """Several worlds side by side, and what they cost."""
    reference, *others = worlds_of(results.summary)
    differences = [tables.difference_table(results.summary, reference, other) for other in others]
    return Section("Worlds", [*differences, tables.speed_table(results.timing)])


def _question(config: str) -> Section:
    return Section("What was asked", [Code("Configuration, every default written out", config)])
