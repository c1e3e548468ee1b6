# SPDX-License-Identifier: GPL-2.0-only
"""Table of the entries in files of the benchmark, ranked by mean score."""

from __future__ import annotations

from collections.abc import Mapping

from bbrgym.errors import ConfigError
from bbrgym.evaluate.bench.results import BenchResults
from bbrgym.evaluate.bench.tasks import load_benchmark
from bbrgym.evaluate.entrants import Kind
from bbrgym.evaluate.statistics import Scores
from bbrgym.report.markdown import markdown_table

_UNRANKED: tuple[Kind, ...] = ("oracle", "reference")  # they know what no agent can


def bench_table(files: Mapping[str, BenchResults]) -> str:
    """Return the table of all entries, the best first.

    Ranks are by the tasks without recordings; an oracle or a reference has none. Two entries are within chance of each
    other if the 95 % interval of their difference on the same draws holds 0.

    Args:
        files: contents by name of the file; all are of the same draws, see `read_results`.

    Raises:
        ConfigError: an entrant has two entries.
    """
    entries = {entry.label: (entry, file) for file, results in files.items() for entry in results.entries}
    if len(entries) < sum(len(results.entries) for results in files.values()):
        raise ConfigError(f"bench: an entrant has two entries in {', '.join(files)}, expected one")
    if not entries:
        return "There are no entries yet."
    by_task = {
        task: Scores({label: entry.tasks[task].scores for label, (entry, _) in entries.items() if task in entry.tasks})
        for task in dict.fromkeys(task for entry, _ in entries.values() for task in entry.tasks)
    }
    ranking = [task.scenario for task in load_benchmark().scored]
    whole = Scores(
        {label: [one for task in ranking for one in entry.tasks[task].scores] for label, (entry, _) in entries.items()}
    )
    ordered = sorted(entries, key=lambda label: -float(whole[label].mean()))
    taking_part = [label for label in ordered if entries[label][0].kind not in _UNRANKED]
    ranked = {label: rank for rank, label in enumerate(taking_part, 1)}
    return markdown_table(
        ["rank", "entrant", "score", "within chance of", *by_task, "checks passed", "file"],
        (
            [
                str(ranked.get(label, entries[label][0].kind)),
                f"`{label}`",
                whole.mean(label).text(3),
                ", ".join(
                    str(rank)
                    for other, rank in ranked.items()
                    if other != label and not whole.difference(label, other).excludes_zero
                )
                or "none",
                *(scores.mean(label).text(3) if label in scores.names else "" for scores in by_task.values()),
                f"{entries[label][0].checks_passed}/{sum(map(len, entries[label][0].checks.values()))}",
                f"[{entries[label][1]}]({entries[label][1]})",
            ]
            for label in ordered
        ),
    )
