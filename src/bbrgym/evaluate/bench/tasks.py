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
from bbrgym.scenario.distribution import Distribution, load_distribution
from bbrgym.schema import Count, Float, List, Model, Whole, validated

_FILE = Path(__file__).with_name("bbrgym-bench-2.yaml")
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Task(Model):
    """A scenario that is run with seeds, or a distribution of which draws of the test split are run.

    Attributes:
        scenario: name of the scenario or distribution.
        seeds: of a scenario.
        first_draw: number of the first draw of a distribution in the test split.
        draws: number of draws of a distribution.
        fields: of the distribution that differ; those of its link one by one.
        sha256: hash of the draws, see `hash_of`.
    """

    scenario: str
    seeds: List[Whole] = ()
    first_draw: Whole = 0
    draws: Count | None = None
    fields: dict[str, Any] = Field(default_factory=dict)
    sha256: Sha256

    @model_validator(mode="after")
    def _check(self) -> Self:
        if bool(self.seeds) == (self.draws is not None):
            raise ValueError("expected either seeds or draws")
        return self

    def source(self) -> str | Distribution:
        """Return the scenario or distribution."""
        if not self.fields:
            return self.scenario
        fields = load_distribution(self.scenario).fields
        return Distribution({**fields, **self.fields, "link": {**fields["link"], **self.fields.get("link", {})}})


class Alone(Model):
    """Scores in the task ``alone``, without other flows, that an entrant's are compared with.

    Attributes:
        commit: of bbrgym, with whose agents they were measured.
        fixed: score of shipped/fixed on each draw.
        gain: mean score of shipped/flow minus that of shipped/fixed.
    """

    commit: str
    fixed: List[Float]
    gain: Float


@dataclass(frozen=True)
class TaskRuns:
    """Runs of an entrant in a task."""

    task: Task
    draws: Sequence[Draw]
    jobs: Sequence[EvaluationJob]  # a run per draw, in their order
    references: Sequence[EvaluationJob]  # runs that harm is measured against


class Benchmark(Model):
    """The frozen benchmark.

    Attributes:
        name: of the benchmark; another choice of draws is another name.
        world: in which all runs are.
        score_delta: weight of the RTT in the score.
        scored: tasks whose scores are compared.
        deployment: tasks by which an entrant is deployable, see `bbrgym.evaluate.bench.deployable`, by name.
        alone: what its score in the task of this name is compared with.
        checked: tasks whose scenarios have checks, of which the passed ones are counted.
    """

    name: str
    world: str
    score_delta: Float
    scored: List[Task]
    deployment: dict[str, Task]
    alone: Alone
    checked: List[Task]

    @property
    def tasks(self) -> dict[str, Task]:
        """All tasks by name."""
        return {**{task.scenario: task for task in (*self.scored, *self.checked)}, **self.deployment}

    @property
    def draws_sha256(self) -> str:
        """Hash of all that the runs depend on, beside the entrant."""
        tasks = [[name, task.sha256] for name, task in self.tasks.items()]
        return _sha256([self.name, self.world, self.score_delta, tasks])


@cache
def load_benchmark() -> Benchmark:
    """Return the benchmark."""
    return validated(Benchmark, yaml.safe_load(_FILE.read_text(encoding="utf-8")))


def task_runs(benchmark: Benchmark, task: Task, entrant: Entrant) -> TaskRuns:
    """Return the runs of an entrant in a task of a benchmark.

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
    prepared = prepare_evaluation(task.source(), settings, agent=entrant)
    found = hash_of(prepared.draws)
    if found != task.sha256:
        raise ConfigError(
            f"{benchmark.name}: the draws of {task.scenario} have the hash {found}, expected {task.sha256}: the "
            f"scenario, or how it is drawn, is not the one that was frozen"
        )
    jobs, references = (
        [replace(job, keeps_series=False) for job in part] for part in (prepared.jobs, prepared.references)
    )
    return TaskRuns(task, prepared.draws, jobs, references)


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
