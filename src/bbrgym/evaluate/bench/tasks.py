# SPDX-License-Identifier: GPL-2.0-only
"""Tasks of the benchmark: scenarios with their draws or seeds, frozen by a hash of all that is run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Self

import yaml
from pydantic import Field, model_validator

from bbrgym.errors import ConfigError
from bbrgym.evaluate.entrants import Entrant
from bbrgym.evaluate.evaluation import Draw, prepare_evaluation
from bbrgym.evaluate.runner import EvaluationJob
from bbrgym.scenario.distribution import Distribution
from bbrgym.scenario.traces import MAX_BYTES
from bbrgym.schema import Count, Float, List, Model, Whole, validated
from bbrgym.untrusted_files import read_bytes

_FILE = Path(__file__).with_name("bbrgym-bench-1.yaml")
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Task(Model):
    """A scenario that is run with seeds, or a distribution of which draws of the test split are run.

    Attributes:
        scenario: name of the scenario or distribution.
        seeds: of a scenario.
        first_draw: number of the first draw of a distribution in the test split.
        draws: number of draws of a distribution.
        sha256: hash of the draws, see `hash_of`.
    """

    scenario: str
    seeds: List[Whole] = ()
    first_draw: Whole = 0
    draws: Count | None = None
    sha256: Sha256

    @model_validator(mode="after")
    def _check(self) -> Self:
        if bool(self.seeds) == (self.draws is not None):
            raise ValueError("expected either seeds or draws")
        return self


class RecordedTask(Task):
    """A distribution over links that follow recordings, which bbrgym may not carry.

    Attributes:
        fields: of the distribution, without the recordings.
        traces: hash of each recording by the name of its file.
        published: address that they are published at.
    """

    fields: dict[str, Any]
    traces: dict[str, Sha256]
    published: str

    def distribution(self, folder: Path) -> Distribution:
        """Return the distribution over the recordings in a folder.

        Raises:
            ConfigError: one is missing or another one.
        """
        for name, expected in self.traces.items():
            found = hashlib.sha256(read_bytes(folder / name, MAX_BYTES)).hexdigest()
            if found != expected:
                raise ConfigError(
                    f"{folder / name}: has the hash {found}, expected {expected}, that of {name} at {self.published}"
                )
        trace_path = {"choice": [str(folder / name) for name in self.traces]}
        return Distribution(
            {"name": self.scenario, **self.fields, "link": {**self.fields["link"], "trace_path": trace_path}}
        )


@dataclass(frozen=True)
class TaskRuns:
    """Runs of an entrant in a task."""

    task: Task
    draws: Sequence[Draw]
    jobs: Sequence[EvaluationJob]  # a run per draw, in their order


class Benchmark(Model):
    """The frozen benchmark.

    Attributes:
        name: of the benchmark; another choice of draws is another name.
        world: in which all runs are.
        score_delta: weight of the RTT in the score.
        scored: tasks whose scores are compared.
        recorded: task that is scored too where its recordings are at hand; ranks are without it.
        checked: tasks whose scenarios have checks, of which the passed ones are counted.
    """

    name: str
    world: str
    score_delta: Float
    scored: List[Task]
    recorded: RecordedTask
    checked: List[Task]

    @property
    def draws_sha256(self) -> str:
        """Hash of all that the runs without recordings depend on, beside the entrant."""
        tasks = [[task.scenario, task.sha256] for task in (*self.scored, *self.checked)]
        return _sha256([self.name, self.world, self.score_delta, tasks])


@cache
def load_benchmark() -> Benchmark:
    """Return the benchmark."""
    return validated(Benchmark, yaml.safe_load(_FILE.read_text(encoding="utf-8")))


def task_runs(benchmark: Benchmark, task: Task, entrant: Entrant, source: str | Distribution | None = None) -> TaskRuns:
    """Return the runs of an entrant in a task.

    Args:
        benchmark: that the task is of.
        task: to run.
        entrant: that runs.
        source: of the draws. Default: the task's scenario.

    Raises:
        ConfigError: the draws are not those that were frozen, or the entrant cannot take part.
    """
    where: dict[str, Any] = {"draws": task.draws, "first_draw": task.first_draw, "split": "test"}
    settings = {
        "world": benchmark.world,
        "variants": [],
        "score_delta": benchmark.score_delta,
        **({"seeds": task.seeds} if task.seeds else where),
    }
    prepared = prepare_evaluation(source or task.scenario, settings, agent=entrant)
    found = hash_of(prepared.draws)
    if found != task.sha256:
        raise ConfigError(
            f"{benchmark.name}: the draws of {task.scenario} have the hash {found}, expected {task.sha256}: the "
            f"scenario, or how it is drawn, is not the one that was frozen"
        )
    return TaskRuns(task, prepared.draws, [replace(job, keeps_series=False) for job in prepared.jobs])


def hash_of(draws: Sequence[Draw]) -> str:
    """Return the hash of draws: resolved scenarios with their checks, stacks and seeds."""
    return _sha256(
        [
            [
                draw.seed,
                draw.scenario.resolved_json(),
                draw.scenario.model_dump(mode="json", include={"checks", "stack"}),
            ]
            for draw in draws
        ]
    )


def _sha256(values: Any) -> str:
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()
