# SPDX-License-Identifier: GPL-2.0-only
"""Evaluates entrants (variants with preset tunables, and agents that set a variant's tunables) on the same scenarios
with the same seeds, in one world or several.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, Unpack

import polars as pl
import yaml

from bbrgym.errors import ConfigError
from bbrgym.evaluate.check_results import check_runs, with_checks_passed
from bbrgym.evaluate.entrant_list import entrants_of
from bbrgym.evaluate.entrants import Entrant, Preset, preset
from bbrgym.evaluate.evaluation_settings import Evaluation, parse_settings
from bbrgym.evaluate.harm import reference_controls, with_harm
from bbrgym.evaluate.logged_results import log_results
from bbrgym.evaluate.ranking import find_reference
from bbrgym.evaluate.records import FIXED, EvaluationFolder
from bbrgym.evaluate.results import Results
from bbrgym.evaluate.resume import check_same_evaluation
from bbrgym.evaluate.runner import EvaluationJob, EvaluationProgress, run_all
from bbrgym.loggers.logger import LoggedRun, NoLoggerSettings, completed_loggers, logged, logger_of
from bbrgym.scenario.distribution import Distribution, Split, is_distribution, load_distribution, split_seeds
from bbrgym.scenario.files import Source, load_scenario
from bbrgym.scenario.model import Scenario
from bbrgym.schema import plain, shown
from bbrgym.tunables import VARIANTS
from bbrgym.worlds import WorldSettings, check_world_has, world_spec

__all__ = ["Evaluation", "EvaluationOptions", "EvaluationProgress", "evaluate"]


class EvaluationOptions(TypedDict, total=False):
    """Keywords of `evaluate` beside its arguments: fields of :class:`Evaluation`, where their meaning is.

    A single seed or world may stand for a list of one; a list of worlds takes each with its defaults.
    """

    world: str | Sequence[str] | Mapping[str, Any]
    tunables: Mapping[str, float]
    variant: str
    oracle_budget: int
    oracle_runs: int
    seeds: int | Sequence[int]
    draws: int
    first_draw: int
    split: Split
    series_draws: int
    reference: str | None
    interval_s: float
    score_delta: float
    trust: bool
    jobs: int | None


@dataclass(frozen=True)
class Draw:
    """A scenario and its seed."""

    scenario: Scenario  # drawn from the distribution, or the only one
    seed: int
    keeps_series: bool = True  # whether its runs leave rows in the time series


def evaluate(
    scenario: Source | Distribution = "rtt_fairness",
    variants: Sequence[str] = ("bbr", "bbr-plus", "bbr-acd", "bbq", "bbr-pg", "bbr-pg-inv", "cubic"),
    *,
    agent: Any = FIXED,
    output_dir: str | Path | None = None,
    resume: bool = False,
    logger: str | Sequence[str] | Mapping[str, Any] | None = None,
    on_progress: Callable[[EvaluationProgress], None] | None = None,
    **settings: Unpack[EvaluationOptions],
) -> pl.DataFrame:
    """Compare variants and agents on a scenario, or on draws from a distribution.

    Args:
        scenario: as :func:`bbrgym.load_scenario` or :func:`bbrgym.load_distribution` takes it; its tuned flows get
            the variants.
        variants: names of the variants that take part with preset tunables, see ``bbrgym.VARIANTS``; a single name may
            stand for a list of one.
        agent: the other entrants, see `bbrgym.evaluate.entrant_list`.
        output_dir: run folder to write. Default: nothing is written.
        resume: keep the finished runs in ``output_dir``. Its config.yaml must agree with the arguments, but there may
            be more variants, seeds or draws now.
        logger: name of a file in conf/logger, several names, or a mapping from names to what differs from the files;
            it writes into ``output_dir``. Default: none.
        on_progress: called a few times a second, in the caller's thread.
        **settings: fields of :class:`EvaluationOptions`: ``world`` (a name, a list of names, or a mapping from names to
            settings), ``seeds`` or, of a distribution, ``draws`` and ``split``, ``interval_s`` in seconds, and so on.

    Returns:
        The rows of summary.parquet: one per world, entrant, seed and flow. Of a scenario with checks, the last column
        ``checks_passed`` is the share of them that the run passes.

    Raises:
        ScenarioError, ConfigError: an argument is wrong, or the folder is in use or holds another evaluation.
        MissingExtraError: a package that the logger needs is not installed.
        WorldError: a run broke; finished runs are kept in ``output_dir``.
        OSError: a file cannot be written; finished runs are kept.

    Example:
        >>> import bbrgym
        >>> rows = bbrgym.evaluate("steady", ["bbr", "cubic"], world="twin")
        >>> rows.select("variant", "flow").rows()
        [('bbr', 'flow'), ('cubic', 'flow')]
    """
    return run_evaluation(
        scenario,
        {"variants": variants, **settings},
        agent=agent,
        output_dir=output_dir,
        resume=resume,
        logger=logger,
        on_progress=on_progress,
    ).summary


def run_evaluation(
    scenario: Source | Distribution,
    settings: Mapping[str, Any],
    *,
    agent: Any = FIXED,
    output_dir: str | Path | None = None,
    resume: bool = False,
    logger: str | Sequence[str] | Mapping[str, Any] | None = None,
    on_progress: Callable[[EvaluationProgress], None] | None = None,
) -> Results:
    """Evaluate as `evaluate` does, with the fields of :class:`Evaluation` in a mapping; return all results."""
    loggers = logger_of(completed_loggers(plain(logger) or "none"), is_trusted=True)
    prepared = prepare_evaluation(scenario, settings, agent=agent)
    if output_dir is None:
        if not isinstance(loggers, NoLoggerSettings):
            raise ConfigError(
                f"logger: is {shown(logger)} without output_dir, expected the run folder that it writes in"
            )
        return prepared.run(None, on_progress)
    folder = EvaluationFolder(Path(output_dir))
    with folder.opened(resume=resume):
        prepared.begin(folder)
        with logged(loggers, prepared.logged_run(folder)) as log:
            results = prepared.run(folder, on_progress)
            log_results(log, results)
    return results


def prepare_evaluation(
    scenario: Source | Distribution, settings: Mapping[str, Any], *, agent: Any = FIXED
) -> PreparedEvaluation:
    """Check all that an evaluation is asked for; nothing is run or written.

    Raises:
        ScenarioError, ConfigError: see `evaluate`.
    """
    source, agent = _load(scenario), plain(agent)
    asked = parse_settings(settings)
    entrants = entrants_of(agent, asked)
    draws = draws_of(source, asked)
    jobs, references = plan(entrants, draws, asked), plan_references(draws, asked, entrants)
    return PreparedEvaluation(source, asked, config_of(source, asked, agent), entrants, draws, jobs, references)


@dataclass(frozen=True)
class PreparedEvaluation:
    """Evaluation whose settings have been checked."""

    source: Scenario | Distribution  # scenario, or distribution that the draws are from
    settings: Evaluation  # of the evaluation
    config: Mapping[str, Any]  # content of config.yaml
    entrants: Sequence[Entrant]  # in the order of the records
    draws: Sequence[Draw]  # that every entrant runs
    jobs: Sequence[EvaluationJob]  # a run per world, entrant and draw
    references: Sequence[EvaluationJob]  # runs that harm is measured against

    def begin(self, folder: EvaluationFolder) -> None:
        """Write the request.

        Raises:
            ConfigError: the folder holds another evaluation.
        """
        if folder.has_config():
            check_same_evaluation(self.config, folder)
        folder.write_config(self.config)

    def logged_run(self, folder: EvaluationFolder) -> LoggedRun:
        """Describe the evaluation in its run folder, which is open, for loggers."""
        group = f"evaluate-{self.source.name}"
        provenance = folder.read_provenance()[-1]
        return LoggedRun("evaluate", folder.path.name, group, self.config, folder.path, provenance=provenance)

    def run(
        self, folder: EvaluationFolder | None, on_progress: Callable[[EvaluationProgress], None] | None = None
    ) -> Results:
        """Run what the folder, which has begun, lacks, and write the tables there; without a folder write nothing.

        Raises:
            ConfigError: the folder holds a damaged run.
            WorldError: a run broke; finished runs are kept.
            OSError: a file cannot be written; finished runs are kept.
        """
        jobs = {job.run_id: job for job in (*self.jobs, *self.references)}  # a reference may be an entrant's run
        found = run_all(jobs, self.settings.jobs_at_once(), folder, on_progress)
        records, others = (found.of([job.run_id for job in part]) for part in (self.jobs, self.references))
        is_drawn = isinstance(self.source, Distribution)
        summary = with_harm(records.summary, others.summary)
        checks = check_runs(summary, {draw.seed: draw.scenario for draw in self.draws})
        results = Results(
            title=title_of(self.source, self.settings),
            entrants=self.entrants,
            draws={draw.seed: draw.scenario for draw in self.draws} if is_drawn else {},
            reference=self.settings.reference,
            summary=with_checks_passed(summary, checks),
            references=with_harm(others.summary, others.summary),
            timeseries=records.timeseries,
            checks=checks,
            timing=records.timing,
            config=yaml.safe_dump(dict(self.config), sort_keys=False),
            distribution=self.source if isinstance(self.source, Distribution) else None,
        )
        if folder is not None:
            write_tables(folder, results)
        return results


def write_tables(folder: EvaluationFolder, results: Results) -> None:
    """Write the tables of an evaluation into its run folder."""
    folder.write_table("summary.parquet", results.summary)
    folder.write_table("timeseries.parquet", results.timeseries)
    if not results.references.is_empty():
        folder.write_table("references.parquet", results.references)
    folder.write_text("timing.csv", results.timing.write_csv())
    if not results.checks.is_empty():
        folder.write_table("checks.parquet", results.checks)
    if results.rankings:
        folder.write_table("ranking.parquet", pl.concat([ranking.table() for ranking in results.rankings]))


def title_of(source: Scenario | Distribution, settings: Evaluation) -> str:
    """Return the title of an evaluation."""
    if isinstance(source, Scenario):
        return source.name
    first = f" from number {settings.first_draw} on" if settings.first_draw else ""
    return f"{source.name}, {settings.draws} {settings.split} draw{'s' if settings.draws > 1 else ''}{first}"


def _load(source: Source | Distribution) -> Scenario | Distribution:
    if isinstance(source, Distribution) or is_distribution(source):
        return load_distribution(source)
    return load_scenario(source)


def config_of(source: Scenario | Distribution, settings: Evaluation, agent: Any = FIXED) -> dict[str, Any]:
    """Return the content of config.yaml; `evaluate` with it repeats the evaluation."""
    fields = (
        dict(source.fields) if isinstance(source, Distribution) else source.model_dump(mode="json", exclude_none=True)
    )
    config = {"scenario": fields, "agent": _names(agent), **settings.model_dump(mode="json")}
    plain: dict[str, Any] = json.loads(json.dumps(config))
    return plain


def _names(agent: Any) -> Any:
    """Return what names the agents, as text in the form of the option `agent`."""
    if isinstance(agent, Mapping):
        return {str(name): _names(entry) for name, entry in agent.items()}
    if isinstance(agent, list | tuple):
        return [_names(entry) for entry in agent]
    if isinstance(agent, Entrant):
        return agent.label
    if isinstance(agent, str | Path):
        return str(agent)
    named = agent if hasattr(agent, "__qualname__") else type(agent)  # the same in every process
    return f"{named.__module__}:{named.__qualname__}"


def draws_of(source: Scenario | Distribution, settings: Evaluation) -> list[Draw]:
    """Return the draws that every entrant runs.

    Raises:
        ConfigError: there are seeds beside a distribution, draws of a scenario, or more draws than the split has.
    """
    if isinstance(source, Scenario):
        if settings.first_draw:
            raise ConfigError(
                f"first_draw: is {settings.first_draw}, but {source.name} is a scenario without draws, expected 0"
            )
        if settings.draws != Evaluation.model_fields["draws"].default:
            raise ConfigError(
                f"draws: is {settings.draws}, but {source.name} is a scenario without draws, expected seeds"
            )
        return [Draw(source, seed) for seed in settings.seeds]
    if settings.seeds != Evaluation.model_fields["seeds"].default:
        raise ConfigError(
            f"seeds: is {list(settings.seeds)}, but {source.name} is a distribution: its draws have seeds of their "
            f"own, expected draws and split"
        )
    seeds = split_seeds(settings.split, settings.draws, settings.first_draw)
    return [Draw(source(seed), seed, index < settings.series_draws) for index, seed in enumerate(seeds)]


def plan(entrants: Sequence[Entrant], draws: Sequence[Draw], settings: Evaluation) -> list[EvaluationJob]:
    """Return the runs, in the order of the records.

    Raises:
        ConfigError: an entrant cannot take part, or there is no such reference.
    """
    find_reference(settings.reference, entrants)
    for draw in draws if len(entrants) > 1 else ():
        if not any(flow.role == "tuned" for flow in draw.scenario.flows):
            raise ConfigError(
                f"variants: {[entrant.label for entrant in entrants]} given, but scenario "
                f"{draw.scenario.name} has no flow of role tuned to take them, expected one variant or such a flow"
            )
    for world, world_settings in settings.world.items():
        world_spec(world).given_options(world_settings.options)
    for entrant in entrants:
        for draw in draws:
            scenario = entrant.prepared(draw.scenario)
            for world in settings.world:
                check_world_has(world_spec(world), scenario)
    return [_job(entrant, draw, world, settings) for world in settings.world for entrant in entrants for draw in draws]


def plan_references(
    draws: Sequence[Draw], settings: Evaluation, entrants: Sequence[Entrant] = ()
) -> list[EvaluationJob]:
    """Return the runs that harm is measured against, see `bbrgym.evaluate.harm`; those of entrants are theirs."""
    own = {one.variant: one for one in entrants if isinstance(one, Preset) and not one.own_tunables}
    presets = {cc: own.get(cc) or preset(cc) for cc in VARIANTS}
    worlds = {name: _without_policy(one) for name, one in settings.world.items()}
    settings = settings.model_copy(update={"world": worlds})
    return [
        _job(presets[cc], draw, world, settings)
        for world in settings.world
        for draw in draws
        for cc in reference_controls(draw.scenario, world)
    ]


def _without_policy(settings: WorldSettings) -> WorldSettings:
    """Return settings without a policy, which acts for tuned flows: in their place others run."""
    if settings.options.get("policy") is None:
        return settings
    return settings.model_copy(update={"options": {**settings.options, "policy": None}})


def _job(entrant: Entrant, draw: Draw, world: str, settings: Evaluation) -> EvaluationJob:
    return EvaluationJob(
        entrant=entrant,
        scenario=draw.scenario,
        world=world,
        seed=draw.seed,
        interval_s=settings.interval_s,
        score_delta=settings.score_delta,
        keeps_series=draw.keeps_series,
        world_settings=settings.world[world],
    )
