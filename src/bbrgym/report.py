# SPDX-License-Identifier: GPL-2.0-only
"""The page of an evaluation: report.html of its run folder."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from pathlib import Path

from bbrgym import interactive, tables
from bbrgym.contest import Contest
from bbrgym.families import FAMILIES
from bbrgym.figure_data import draws_over_time, scenario_over_time
from bbrgym.outcome import Outcome
from bbrgym.page import Code, Item, Page, Section, write_page

_SCORE = (
    "The score of a flow is log2(goodput / fair share) - 0.5 log2(mean RTT / base RTT), unless another weight of the "
    "RTT was asked for; a run's is the mean over its learner flows. 0 is a fair share without a queue."
)


def write_report(path: Path, outcome: Outcome, config: str, command: str | None = None) -> None:
    """Writes the page.

    Args:
        path: of the page.
        outcome: what it shows.
        config: what was asked for, in YAML.
        command: that asked.
    """
    sections = [*_results(outcome), _worlds(outcome), _question(config)]
    page = Page(
        title=tables.title_of(outcome.summary, outcome.title),
        sections=[section for section in sections if section.items],
        facts=_facts(outcome),
        command=command,
    )
    write_page(path, page)


def _facts(outcome: Outcome) -> list[str]:
    """In short."""
    runs = len(outcome.timing)
    simulated_s, wall_s = outcome.timing["simulated_s"].sum(), outcome.timing["wall_s"].sum()
    return [
        f"{datetime.date.today():%d %B %Y}",
        _count(len(outcome.contestants), "contestant"),
        _count(runs, "run"),
        f"{simulated_s:,.0f} s simulated in {wall_s:,.1f} s",
    ]


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number != 1 else ''}"


def _results(outcome: Outcome) -> Iterator[Section]:
    if not outcome.contests:
        yield Section("Results", _of_scenario(outcome), _SCORE)
        yield Section("Policies", _policies(outcome))
        return
    for contest in outcome.contests:
        yield Section(f"Standings on {contest.world}", _of_draws(outcome, contest), _SCORE)
        yield Section(
            f"Families of scenarios on {contest.world}", _of_families(outcome, contest), text=_families_text()
        )
        yield Section(f"Single draws on {contest.world}", _over_time(outcome, contest))
    yield Section("Policies", _policies(outcome))
    yield Section("What was measured", [tables.summary_table(outcome.summary, outcome.title)])


def _of_scenario(outcome: Outcome) -> list[Item]:
    return [
        interactive.summary_figure(outcome.summary),
        tables.summary_table(outcome.summary, outcome.title),
        interactive.goodput_figure(outcome.timeseries),
        interactive.queue_figure(outcome.timeseries),
        *(interactive.draw_figure(draw) for draw in scenario_over_time(outcome)),
    ]


def _of_draws(outcome: Outcome, contest: Contest) -> list[Item]:
    return [
        interactive.standings_figure(contest),
        tables.standings_table(contest, outcome.title),
        interactive.pairs_figure(contest),
        interactive.profiles_figure(contest),
    ]


def _of_families(outcome: Outcome, contest: Contest) -> list[Item]:
    if not contest.by_family:
        return []
    return [interactive.families_figure(contest), tables.families_table(contest, outcome.title)]


def _families_text() -> str:
    meanings = "; ".join(f"{name}: {family.meaning}" for name, family in FAMILIES.items())
    return f"A draw can be in several. {meanings}."


def _over_time(outcome: Outcome, contest: Contest) -> list[Item]:
    return [interactive.draw_figure(draw) for draw in draws_over_time(outcome, contest)]


def _policies(outcome: Outcome) -> list[Item]:
    """What trained agents do."""
    figures = (interactive.policy_figure(label, cells) for label, cells in outcome.policy_maps.items())
    return [figure for figure in figures if figure is not None]


def _worlds(outcome: Outcome) -> Section:
    """Several worlds side by side, and what they cost."""
    reference, *others = tables.worlds_of(outcome.summary)
    differences = [tables.difference_table(outcome.summary, reference, other) for other in others]
    return Section("Worlds", [*differences, tables.speed_table(outcome.timing)])


def _question(config: str) -> Section:
    return Section("What was asked", [Code("Configuration, every default written out", config)])
