# SPDX-License-Identifier: GPL-2.0-only
"""Tables of the entries in files of the benchmark: their ranking by score, and how far they are deployable."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bbrgym.errors import ConfigError
from bbrgym.evaluate.bench.deployable import CONDITIONS, DeploymentCondition, held
from bbrgym.evaluate.bench.entries import BenchEntry
from bbrgym.evaluate.bench.results import BenchResults
from bbrgym.evaluate.entrants import Kind
from bbrgym.evaluate.statistics import Estimate, Scores
from bbrgym.report.markdown import markdown_table
from bbrgym.tunables import VARIANTS

_UNRANKED: tuple[Kind, ...] = ("oracle", "reference")  # they know what no agent can
_LEAD = "lead_"  # of a measure: the lead over the others in a task


def bench_tables(files: Mapping[str, BenchResults]) -> tuple[str, str]:
    """Return the table of all entries, the best first, and the one of their measures of deployability.

    An oracle or a reference has no rank. Two entries are within chance of each other if the 95 % interval of their
    difference on the same draws holds 0.

    Args:
        files: contents by name of the file; all are of the same draws, see `read_results`.

    Raises:
        ConfigError: an entrant has two entries.
    """
    entries = {entry.label: entry for results in files.values() for entry in results.entries}
    if len(entries) < sum(len(results.entries) for results in files.values()):
        raise ConfigError(f"bench: an entrant has two entries in {', '.join(files)}, expected one")
    if not entries:
        return "There are no entries yet.", ""
    by_task = {
        task: Scores({label: entry.tasks[task].scores for label, entry in entries.items()})
        for task in next(iter(entries.values())).tasks
    }
    whole = Scores(
        {label: [one for task in by_task for one in entry.tasks[task].scores] for label, entry in entries.items()}
    )
    ordered = sorted(entries, key=lambda label: -float(whole[label].mean()))
    ranked = {
        label: rank for rank, label in enumerate((one for one in ordered if entries[one].kind not in _UNRANKED), 1)
    }
    measures = {label: _measures(label, entries, by_task) for label in ordered}
    ranking = markdown_table(
        [
            *("rank", "entrant", "score", "own score", "harm", "deployable", "within chance of"),
            *by_task,
            "checks passed",
        ],
        (
            [
                str(ranked.get(label, entries[label].kind)),
                f"`{label}`",
                whole.mean(label).text(3),
                _short(entries[label].own_score.estimate, 3),
                _short(entries[label].harm.estimate, 3),
                held(measures[label]) or "none",
                ", ".join(
                    str(rank)
                    for other, rank in ranked.items()
                    if other != label and not whole.difference(label, other).excludes_zero
                )
                or "none",
                *(f"{scores.mean(label).value:.3f}" for scores in by_task.values()),
                f"{entries[label].checks_passed}/{sum(map(len, entries[label].checks.values()))}",
            ]
            for label in ordered
        ),
    )
    deployability = markdown_table(
        ["entrant", *(f"{one.letter}: {one.words}" for one in CONDITIONS)],
        ([f"`{label}`", *_cells(measures[label])] for label in ordered),
    )
    return ranking, deployability


def _measures(label: str, entries: Mapping[str, BenchEntry], by_task: Mapping[str, Scores]) -> dict[str, Estimate]:
    """Return all measures of an entrant that are known."""
    of_entry = {measure: one.estimate for measure, one in entries[label].deployment.items()}
    rivals = [
        other
        for other, entry in entries.items()
        if other != label and (entry.entrant in VARIANTS or entry.entrant == "shipped/fixed")
    ]
    leads = {
        one.measure: min(
            (by_task[task].difference(label, rival) for rival in rivals), key=lambda lead: getattr(lead, one.end)
        )
        for one in CONDITIONS
        if rivals and (task := one.measure.removeprefix(_LEAD)) in by_task
    }
    return of_entry | leads


def _cells(measures: Mapping[str, Estimate]) -> Iterable[str]:
    return (_cell(one, measures.get(one.measure)) for one in CONDITIONS)


def _cell(condition: DeploymentCondition, estimate: Estimate | None) -> str:
    """Return an estimate, in bold where it fails; with both ends where one of them decides."""
    if estimate is None:
        return "-"
    shown = _short(estimate, 2) if condition.end == "value" else estimate.text(2)
    return shown if condition.holds(estimate) else f"**{shown}**"


def _short(estimate: Estimate, digits: int) -> str:
    return estimate.short(digits).replace(" ± ", "±")
