# SPDX-License-Identifier: GPL-2.0-only
"""The file of results of the benchmark: entries, and where they come from. The same request gives the same bytes."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from bbrgym.errors import ConfigError
from bbrgym.evaluate.bench.entries import BenchEntry, run_entrants
from bbrgym.evaluate.bench.tasks import Sha256, load_benchmark
from bbrgym.evaluate.runner import EvaluationProgress
from bbrgym.runs.atomic_files import write_text
from bbrgym.runs.provenance import provenance
from bbrgym.schema import List, Model, Whole, shortened, shown, validated
from bbrgym.untrusted_files import read_json


class BenchResults(Model):
    """Content of the file.

    Attributes:
        benchmark: name of the benchmark.
        draws_sha256: hash of its draws and settings.
        version: of bbrgym.
        commit: of bbrgym, or ``unknown``.
        is_dirty: whether files differed from the commit; null if unknown.
        python: version of Python.
        platform: operating system and processor's family.
        cpu: model of the processor.
        cores: number of them.
        entries: in the order asked for.
    """

    benchmark: str
    draws_sha256: Sha256
    version: str
    commit: str
    is_dirty: bool | None
    python: str
    platform: str
    cpu: str
    cores: Whole | None
    entries: Annotated[List[BenchEntry], Field(min_length=1)]

    def claims(self) -> str:
        """Return what the file says of its origin, which no check compares."""
        origin = self.model_dump(exclude={"benchmark", "draws_sha256", "entries"})
        return ", ".join(f"{name} {shown(value)}" for name, value in origin.items())


def bench(names: Sequence[str], on_progress: Callable[[EvaluationProgress], None] | None = None) -> BenchResults:
    """Run entrants in the benchmark; see `run_entrants`."""
    benchmark, about = load_benchmark(), provenance()
    own = ("version", "commit", "is_dirty", "python", "platform", "cpu", "cores")
    return BenchResults(
        benchmark=benchmark.name,
        draws_sha256=benchmark.draws_sha256,
        **{name: about[name] for name in own},
        entries=tuple(run_entrants(names, on_progress)),
    )


def write_results(results: BenchResults, path: Path) -> None:
    """Write the file, an entry on a line.

    Raises:
        OSError: it cannot be written.
    """
    content = results.model_dump(mode="json")
    entries = ",\n".join(json.dumps(entry, separators=(",", ":")) for entry in content.pop("entries"))
    write_text(path, f'{json.dumps(content, indent=1)[:-2]},\n "entries": [\n{entries}\n ]\n}}\n')


def read_results(path: Path) -> BenchResults:
    """Read a file of the benchmark that this version has.

    Raises:
        ConfigError: it cannot be read, or is of other draws.
    """
    results, benchmark = validated(BenchResults, read_json(path), f"{path}: "), load_benchmark()
    if (results.benchmark, results.draws_sha256) != (benchmark.name, benchmark.draws_sha256):
        raise ConfigError(
            f"{path}: is of {shortened(results.benchmark)} with draws {results.draws_sha256}, expected "
            f"{benchmark.name} with {benchmark.draws_sha256}"
        )
    return results


def check_results(path: Path, on_progress: Callable[[EvaluationProgress], None] | None = None) -> BenchResults:
    """Run the entrants of a file again and compare; an agent that is a code of its author's is not run.

    Returns:
        The content of the file.

    Raises:
        ConfigError: the file cannot be read, is of other draws, names a code, or an entry differs.
        WorldError: a run broke.
    """
    from bbrgym.evaluate.agent_option import check_no_code  # with agents, which a table does not need

    results = read_results(path)
    names = list(dict.fromkeys(entry.entrant for entry in results.entries))
    check_no_code(names)
    again = run_entrants(names, on_progress)
    if [entry.label for entry in again] != [entry.label for entry in results.entries]:
        raise ConfigError(
            f"{path}: has entries of {[entry.label for entry in results.entries]}, running it again those of "
            f"{[entry.label for entry in again]}"
        )
    differences = [one for entries in zip(results.entries, again, strict=True) for one in _differences(*entries)]
    if differences:
        raise ConfigError(f"{path}: is not what running it again gives: {'; '.join(differences)}")
    return results


def _differences(given: BenchEntry, again: BenchEntry) -> list[str]:
    """Return what differs between two entries of an entrant, a sentence each."""
    found = []
    for task, scores in again.tasks.items():
        others = given.tasks[task].scores if task in given.tasks else ()
        if len(others) != len(scores.scores):
            found.append(f"{given.entrant} has {len(others)} scores in {task}, expected {len(scores.scores)}")
            continue
        apart = [abs(one - other) for one, other in zip(scores.scores, others, strict=True) if one != other]
        if apart:
            found.append(f"{given.entrant}: {len(apart)} scores differ in {task}, by at most {max(apart):.6f}")
    if not found and given != again:
        fields = [name for name in BenchEntry.model_fields if getattr(given, name) != getattr(again, name)]
        found.append(f"{given.entrant}: {', '.join(fields)}, which follow from the runs")
    return found
