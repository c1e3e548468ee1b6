# SPDX-License-Identifier: GPL-2.0-only
"""Contents of an evaluation's page: sections of figures and tables."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from bbrgym.evaluate.ranking import Ranking
from bbrgym.evaluate.records import worlds_of
from bbrgym.evaluate.results import Results
from bbrgym.report import flow_figures, ranking_figures, scenario_figures, spread_figures, tables, tunable_figures
from bbrgym.report.page import Code, Item, Page, Section
from bbrgym.scenario.families import FAMILIES

_SCORE = (
    "The score of a flow is log2(goodput / fair share) - 0.5 log2(mean RTT / base RTT), unless score_delta gives the "
    "RTT another weight; a run's score is the mean over its tuned flows. 0 is a fair share without a queue."
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


def evaluation_page(results: Results, command: str | None = None) -> Page:
    """Return the page of an evaluation.

    Args:
        results: of the evaluation.
        command: command line that made them. Default: none is shown.
    """
    sections = [*_results(results), _flows(results), _worlds(results), _configuration(results.config)]
    return Page(
        title=tables.title_of(results.summary, results.title),
        sections=[section for section in sections if section.items],
        facts=_facts(results),
        command=command,
    )


def _facts(results: Results) -> list[str]:
    """Return the date, the size and the cost of the evaluation."""
    simulated_s, wall_s = results.timing["simulated_s"].sum(), results.timing["wall_s"].sum()
    return [
        f"{datetime.date.today():%d %B %Y}",
        _count(len(results.entrants), "entrant"),
        _count(len(results.timing), "run"),
        f"{simulated_s:,.0f} s simulated in {wall_s:,.1f} s",
    ]


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number != 1 else ''}"


def _results(results: Results) -> Iterator[Section]:
    if not results.rankings:
        yield Section("Results", _of_scenario(results), _SCORE)
    for ranking in results.rankings:
        suffix = f"-{ranking.world}" if len(results.rankings) > 1 else ""
        draws = list(tunable_figures.draw_figures(results, ranking, suffix))
        yield Section(f"Ranking on {ranking.world}", _of_draws(results, ranking, suffix), _SCORE)
        yield Section(
            f"Families of scenarios on {ranking.world}", _of_families(results, ranking, suffix), _families_text()
        )
        yield Section(f"Single draws on {ranking.world}", draws)
    yield Section("Transfers", _transfers(results), _TRANSFERS)
    yield Section("Checks", _checks(results), _CHECKS)
    yield Section("Policies", _policies(results))
    if results.rankings:
        yield Section("Measurements", [tables.summary_table(results.summary, results.title)])


def _transfers(results: Results) -> list[Item]:
    return [tables.transfers_table(results.summary, results.title)] if tables.has_transfers(results.summary) else []


def _checks(results: Results) -> list[Item]:
    return [] if results.checks.is_empty() else [tables.checks_table(results.checks, results.title)]


def _of_scenario(results: Results) -> list[Item]:
    return [
        scenario_figures.summary_figure(results.summary),
        tables.summary_table(results.summary, results.title),
        scenario_figures.goodput_figure(results.timeseries),
        scenario_figures.queue_delay_figure(results.timeseries),
        *spread_figures.scenario_spreads(results),
        *tunable_figures.agent_figures(results),
    ]


def _of_draws(results: Results, ranking: Ranking, suffix: str) -> list[Item]:
    return [
        ranking_figures.ranking_figure(ranking, results.title, suffix),
        tables.ranking_table(ranking, results.title),
        ranking_figures.pairs_figure(ranking, results.title, suffix),
        ranking_figures.profiles_figure(ranking, results.title, suffix),
        *spread_figures.draw_spreads(results, ranking, suffix),
    ]


def _flows(results: Results) -> Section:
    return Section("Flows over time", list(flow_figures.flow_figures(results)), _FLOWS)


def _of_families(results: Results, ranking: Ranking, suffix: str) -> list[Item]:
    if not ranking.by_family:
        return []
    return [
        ranking_figures.families_figure(ranking, results.title, suffix),
        tables.families_table(ranking, results.title),
    ]


def _families_text() -> str:
    meanings = "; ".join(f"{name}: {family.meaning}" for name, family in FAMILIES.items())
    return f"A draw can be in several. {meanings}."


def _policies(results: Results) -> list[Item]:
    """Return a figure of each trained agent that varies a tunable."""
    figures = (tunable_figures.policy_figure(label, cells) for label, cells in results.policy_maps.items())
    return [figure for figure in figures if figure is not None]


def _worlds(results: Results) -> Section:
    """Return the differences between worlds, and their speeds."""
    reference, *others = worlds_of(results.summary)
    differences = [tables.difference_table(results.summary, reference, other) for other in others]
    return Section("Worlds", [*differences, tables.speed_table(results.timing)])


def _configuration(config: str) -> Section:
    return Section("Configuration", [Code("All settings, defaults included", config)])
