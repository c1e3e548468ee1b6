# SPDX-License-Identifier: GPL-2.0-only
"""Evaluates entrants (variants with preset tunables, and agents that set a variant's tunables) on the same scenarios
with the same seeds, in one world or several.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import polars as pl
import yaml
from pydantic import Field, model_validator

from bbrgym.errors import ConfigError, nearest
from bbrgym.evaluate.entrant_list import BuiltInAgents, entrants_of
from bbrgym.evaluate.entrants import Entrant
from bbrgym.evaluate.ranking import find_reference
from bbrgym.evaluate.records import FIXED, EvaluationFolder
from bbrgym.evaluate.results import Results
from bbrgym.evaluate.resume import refuse_another
from bbrgym.evaluate.runner import EvaluationJob, EvaluationProgress, run_all
from bbrgym.scenario.distribution import Distribution, Split, is_distribution, load_distribution, split_seeds
from bbrgym.scenario.files import Source, load_scenario
from bbrgym.scenario.model import Scenario
from bbrgym.schema import FieldProblem, Float, List, Model, Whole, shown, validated
from bbrgym.tunables import TUNABLES, VARIANTS
from bbrgym.worlds import REFERENCE_WORLD, WorldSettings, check_controllers, registered_worlds, world_spec

__all__ = ["Evaluation", "EvaluationProgress", "evaluate"]

MAX_JOBS = 256


class Evaluation(Model):
    """Settings of an evaluation, beside its scenario and agents.

    Attributes:
        world: settings by the name of the world. With several, the others are compared with the first.
        variants: congestion controls of the learner flows, with preset tunables, one after the other.
        tunables: in natural units, for those of the variants that have them.
        variant: the one whose tunables ``oracle`` and ``random`` set.
        oracle_budget: settings that ``oracle`` tries on each run.
        seeds: each entrant runs once with each.
        draws: number of draws from a distribution, in place of seeds.
        split: the split of the distribution that they are from.
        series_draws: number of draws that have rows in the time series, the first ones.
        reference: label of the entrant that the others are compared with on a distribution. Default: the best fixed
            setting.
        interval_s: between two rows of a flow in the time series; trained agents keep their own interval.
        score_delta: weight of the RTT in the score.
        jobs: runs at once. Default: one a core.
    """

    world: Annotated[dict[str, WorldSettings], Field(min_length=1)] = Field(
        default_factory=lambda: {REFERENCE_WORLD: WorldSettings()}
    )
    variants: List[str]
    tunables: dict[str, Float] = Field(default_factory=dict)
    variant: str = "bbr-mix"
    oracle_budget: Annotated[Whole, Field(ge=1, le=1_000_000)] = 128
    seeds: Annotated[List[Annotated[Whole, Field(ge=0, le=2**63 - 1)]], Field(min_length=1)] = (1,)
    draws: Annotated[Whole, Field(ge=1)] = 100
    split: Split = "test"
    series_draws: Annotated[Whole, Field(ge=0)] = 4
    reference: str | None = None
    interval_s: Annotated[Float, Field(ge=1e-3, le=3600)] = 0.1
    score_delta: Annotated[Float, Field(ge=0, le=100)] = 0.5
    jobs: Annotated[Whole, Field(ge=1, le=MAX_JOBS)] | None = None

    @model_validator(mode="after")
    def _check(self) -> Evaluation:
        for name in self.world:
            if name not in registered_worlds():
                raise FieldProblem("world", f"is {shown(name)}; {nearest(name, registered_worlds())}")
        named = {f"variants[{index}]": variant for index, variant in enumerate(self.variants)}
        for name, variant in {**named, "variant": self.variant}.items():
            if variant not in VARIANTS:
                raise FieldProblem(name, f"is {shown(variant)}; {nearest(variant, VARIANTS)}")
            for world in self.world:
                if not registered_worlds()[world].has_controller(variant):
                    raise FieldProblem(name, f"is {shown(variant)}, which world {world} does not have")
        for name in ("variants", "seeds"):
            values = getattr(self, name)
            if len(set(values)) < len(values):
                raise FieldProblem(name, f"is {shown(list(values))}, expected each once")
        for name in self.tunables:
            if name not in TUNABLES:
                raise FieldProblem(f"tunables.{name}", f"is no tunable; {nearest(name, TUNABLES)}")
            if not any(name in VARIANTS[variant].preset for variant in self.variants):
                having = [variant.name for variant in VARIANTS.values() if name in variant.preset]
                raise FieldProblem(
                    f"tunables.{name}", f"is given, but none of the variants has it; {', '.join(having)} have"
                )
        alone = self._alone()
        if alone is not None and (self.jobs or 1) > 1:
            raise FieldProblem(
                "jobs", f"is {self.jobs}, expected 1 with world.{alone}.isolation none: one run at a time"
            )
        return self

    def built_in_agents(self) -> BuiltInAgents:
        """Return the arguments of the agents that are known by name."""
        return BuiltInAgents(self.variant, self.interval_s, self.oracle_budget, self.score_delta)

    def jobs_at_once(self) -> int:
        """Return how many runs may take place at the same time."""
        return 1 if self._alone() is not None else self.jobs or os.cpu_count() or 1

    def _alone(self) -> str | None:
        """Return the name of a world that runs in this process and only once at a time; None if there is none."""
        for name, settings in self.world.items():
            kind = registered_worlds()[name]
            if kind.is_alone and (settings.isolation or kind.isolation) == "none":
                return name
        return None


@dataclass(frozen=True)
class Draw:
    """A scenario and its seed.

    Attributes:
        scenario: drawn from the distribution, or the only one.
        seed: of the run.
        keeps_series: whether its runs leave rows in the time series.
    """

    scenario: Scenario
    seed: int
    keeps_series: bool = True


def evaluate(
    scenario: Source | Distribution = "rtt_fairness",
    variants: Sequence[str] = ("bbr", "bbr-plus", "bbr-acd", "bbq", "bbr-pg", "bbr-pg-inv", "cubic"),
    *,
    agent: Any = FIXED,
    output_dir: str | Path | None = None,
    resume: bool = False,
    on_progress: Callable[[EvaluationProgress], None] | None = None,
    **settings: Any,
) -> pl.DataFrame:
    """Compare variants and agents on a scenario, or on draws from a distribution.

    Args:
        scenario: as :func:`bbrgym.load_scenario` or :func:`bbrgym.load_distribution` takes it; its learner flows get
            the variants.
        variants: names of the variants that take part with preset tunables, see ``bbrgym.VARIANTS``.
        agent: the other entrants, see `bbrgym.evaluate.entrant_list`.
        output_dir: run folder to write. Default: nothing is written.
        resume: keep the finished runs in ``output_dir``. Its config.yaml must agree with the arguments, but there may
            be more variants, seeds or draws now.
        on_progress: called a few times a second, in the caller's thread.
        **settings: the other fields of :class:`Evaluation`: world (a name, a list of names, or a mapping from names
            to settings), tunables, variant, seeds, draws, split and so on.

    Returns:
        The rows of summary.parquet: one per world, entrant, seed and flow.

    Raises:
        ScenarioError, ConfigError: an argument is wrong, or the folder is in use or holds another evaluation.
        WorldError: a run broke; finished runs are kept in ``output_dir``.
        OSError: a file cannot be written; finished runs are kept.
    """
    return run_evaluation(
        scenario,
        {"variants": variants, **settings},
        agent=agent,
        output_dir=output_dir,
        resume=resume,
        on_progress=on_progress,
    ).summary


def run_evaluation(
    scenario: Source | Distribution,
    settings: Mapping[str, Any],
    *,
    agent: Any = FIXED,
    output_dir: str | Path | None = None,
    resume: bool = False,
    on_progress: Callable[[EvaluationProgress], None] | None = None,
) -> Results:
    """Evaluate as `evaluate` does, with the fields of :class:`Evaluation` in a mapping; return all results."""
    prepared = prepare_evaluation(scenario, settings, agent=agent)
    if output_dir is None:
        return prepared.run(None, on_progress)
    folder = EvaluationFolder(Path(output_dir))
    with folder.opened(resume=resume):
        return prepared.run(folder, on_progress)


def prepare_evaluation(
    scenario: Source | Distribution, settings: Mapping[str, Any], *, agent: Any = FIXED
) -> PreparedEvaluation:
    """Check all that an evaluation is asked for; nothing is run or written.

    Raises:
        ScenarioError, ConfigError: see `evaluate`.
    """
    source = _load(scenario)
    asked = parse_settings(settings)
    entrants = entrants_of(agent, asked.variants, asked.tunables, asked.built_in_agents())
    draws = draws_of(source, asked)
    jobs = plan(entrants, draws, asked)
    return PreparedEvaluation(source, asked, config_of(source, asked, agent), entrants, draws, jobs)


@dataclass(frozen=True)
class PreparedEvaluation:
    """Evaluation whose settings have been checked.

    Attributes:
        source: scenario, or distribution that the draws are from.
        settings: of the evaluation.
        config: content of config.yaml.
        entrants: in the order of the records.
        draws: that every entrant runs.
        jobs: a run per world, entrant and draw.
    """

    source: Scenario | Distribution
    settings: Evaluation
    config: Mapping[str, Any]
    entrants: Sequence[Entrant]
    draws: Sequence[Draw]
    jobs: Sequence[EvaluationJob]

    def run(
        self, folder: EvaluationFolder | None, on_progress: Callable[[EvaluationProgress], None] | None = None
    ) -> Results:
        """Run what the folder does not hold yet, and write the tables there.

        Args:
            folder: open. Default: none, nothing is written.
            on_progress: called a few times a second, in the caller's thread.

        Raises:
            ConfigError: the folder holds another evaluation, or a damaged run.
            WorldError: a run broke; finished runs are kept.
            OSError: a file cannot be written; finished runs are kept.
        """
        if folder is not None:
            if folder.has_config():
                refuse_another(self.config, folder)
            folder.write_config(self.config)
        records = run_all(self.jobs, self.settings.jobs_at_once(), folder, on_progress)
        is_drawn = isinstance(self.source, Distribution)
        results = Results(
            title=title_of(self.source, self.settings),
            entrants=self.entrants,
            draws={draw.seed: draw.scenario for draw in self.draws} if is_drawn else {},
            reference=self.settings.reference,
            summary=pl.concat([record.summary for record in records]),
            timeseries=pl.concat([record.timeseries for record in records], how="diagonal"),
            timing=pl.concat([record.timing for record in records]),
            config=yaml.safe_dump(dict(self.config), sort_keys=False),
        )
        if folder is not None:
            write_tables(folder, results)
        return results


def write_tables(folder: EvaluationFolder, results: Results) -> None:
    """Write the tables of an evaluation into its run folder."""
    folder.write_table("summary.parquet", results.summary)
    folder.write_table("timeseries.parquet", results.timeseries)
    folder.write_timing(results.timing)
    if results.rankings:
        folder.write_table("ranking.parquet", pl.concat([ranking.table() for ranking in results.rankings]))
    if results.policy_maps:
        folder.write_table("policy_maps.parquet", pl.concat(results.policy_maps.values()))


def title_of(source: Scenario | Distribution, settings: Evaluation) -> str:
    """Return the title of an evaluation."""
    if isinstance(source, Scenario):
        return source.name
    return f"{source.name}, {settings.draws} {settings.split} draw{'s' if settings.draws > 1 else ''}"


def _load(source: Source | Distribution) -> Scenario | Distribution:
    if isinstance(source, Distribution) or is_distribution(source):
        return load_distribution(source)
    return load_scenario(source)


def parse_settings(fields: Mapping[str, Any]) -> Evaluation:
    """Check the settings of an evaluation; a single variant, seed or world may stand for a list of one.

    Raises:
        ConfigError: names the setting, its value and what is allowed.
    """
    fields = dict(fields)
    for name in ("variants", "seeds"):
        if isinstance(fields.get(name), str | int):
            fields[name] = [fields[name]]
    fields["world"] = _world_settings(fields.get("world", REFERENCE_WORLD))
    return validated(Evaluation, fields)


def _world_settings(world: Any) -> Any:
    """Return settings by world for a world's name or a list of them; anything else unchanged."""
    names = [world] if isinstance(world, str) else world
    if not isinstance(names, list | tuple):
        return world
    if not all(isinstance(name, str) for name in names):
        raise ConfigError(f"world: is {shown(world)}, expected a world's name or a list of them")
    if len(set(names)) < len(names):
        raise ConfigError(f"world: is {shown(world)}, expected each once")
    return {name: {} for name in names}


def config_of(source: Scenario | Distribution, settings: Evaluation, agent: Any = FIXED) -> dict[str, Any]:
    """Return the content of config.yaml; `evaluate` with it repeats the evaluation."""
    fields = dict(source.fields) if isinstance(source, Distribution) else _plain(source)
    config = {"scenario": fields, "agent": _names(agent), **settings.model_dump(mode="json")}
    plain: dict[str, Any] = yaml.safe_load(yaml.safe_dump(config, sort_keys=False))
    return plain


def _plain(scenario: Scenario) -> dict[str, Any]:
    return scenario.model_dump(mode="json", exclude_none=True)


def _names(agent: Any) -> Any:
    """Return what names the agents, as text in the form of the option `agent`."""
    if isinstance(agent, Mapping):
        return {str(name): _names(entry) for name, entry in agent.items()}
    if isinstance(agent, list | tuple):
        return [_names(entry) for entry in agent]
    return agent.label if isinstance(agent, Entrant) else str(agent)


def draws_of(source: Scenario | Distribution, settings: Evaluation) -> list[Draw]:
    """Return the draws that every entrant runs.

    Raises:
        ConfigError: there are seeds beside a distribution, or more draws than the split has.
    """
    if isinstance(source, Scenario):
        return [Draw(source, seed) for seed in settings.seeds]
    if settings.seeds != Evaluation.model_fields["seeds"].default:
        raise ConfigError(
            f"seeds: is {list(settings.seeds)}, but {source.name} is a distribution: its draws have seeds of their "
            f"own, expected draws and split"
        )
    seeds = split_seeds(settings.split, settings.draws)
    return [Draw(source(seed), seed, index < settings.series_draws) for index, seed in enumerate(seeds)]


def plan(entrants: Sequence[Entrant], draws: Sequence[Draw], settings: Evaluation) -> list[EvaluationJob]:
    """Return the runs, in the order of the records.

    Raises:
        ConfigError: an entrant cannot take part, or there is no such reference.
    """
    find_reference(settings.reference, entrants)
    if len(entrants) > 1:
        _refuse_without_learners(draws, entrants)
    for world, how in settings.world.items():
        world_spec(world).given_options(how.options)
    prepared = [(entrant, draw, entrant.prepared(draw.scenario)) for entrant in entrants for draw in draws]
    for world in settings.world:
        for _, _, scenario in prepared:
            check_controllers(world_spec(world), scenario)
    return [
        EvaluationJob(
            entrant=entrant,
            scenario=scenario,
            world=world,
            seed=draw.seed,
            interval_s=settings.interval_s,
            score_delta=settings.score_delta,
            keeps_series=draw.keeps_series,
            how=how,
        )
        for world, how in settings.world.items()
        for entrant, draw, scenario in prepared
    ]


def _refuse_without_learners(draws: Sequence[Draw], entrants: Sequence[Entrant]) -> None:
    for draw in draws:
        if not any(flow.role == "learner" for flow in draw.scenario.flows):
            raise ConfigError(
                f"variants: {[entrant.label for entrant in entrants]} given, but scenario "
                f"{draw.scenario.name} has no flow of role learner to take them, expected one variant or such a flow"
            )
