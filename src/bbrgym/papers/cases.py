# SPDX-License-Identifier: GPL-2.0-only
"""The runs of an experiment: every variant at every point, in every world asked for, with every seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bbrgym.errors import ConfigError
from bbrgym.evaluate.entrants import Entrant, preset
from bbrgym.evaluate.runner import EvaluationJob
from bbrgym.papers.catalogue import reference_numbers
from bbrgym.papers.experiment import Experiment, Number, VariantSettings
from bbrgym.papers.request import Reproduction
from bbrgym.scenario.files import parse_scenario
from bbrgym.scenario.flow import check_tunables
from bbrgym.scenario.model import Scenario
from bbrgym.scenario.stack import SenderStack
from bbrgym.schema import FieldProblem
from bbrgym.tunables import STOCK_CONTROLS, VARIANTS
from bbrgym.worlds import WorldSettings, check_world_has, registered_worlds, world_spec

_SCORE_DELTA = 0.5  # no metric depends on the score
_OWN_WORLD_TIMEOUT_S = 600.0  # ns-3 walks a list of all that is out for each packet sent again: slow under load


@dataclass(frozen=True)
class Case:
    """A run of an experiment."""

    variant: str  # name in the experiment
    at: float | None  # point of the sweep
    job: EvaluationJob


@dataclass(frozen=True)
class PreparedExperiment:
    """An experiment with all its runs and published numbers."""

    experiment: Experiment  # that is reproduced
    numbers: Sequence[Number]  # published, those in the authors' files among them
    cases: Sequence[Case]  # its runs

    @property
    def duration_s(self) -> float:
        """Simulated time of all its runs."""
        return sum(case.job.scenario.duration_s for case in self.cases)


def prepare_experiment(experiment: Experiment, asked: Reproduction) -> PreparedExperiment:
    """Return an experiment with its runs and all its published numbers.

    Raises:
        ConfigError: a field of it cannot be used, or the authors' file cannot be read.
    """
    extra = [] if asked.reference is None else reference_numbers(experiment, Path(asked.reference))
    cases = []
    if experiment.no_run is None:
        for name, variant in experiment.variants.items():
            for at in experiment.points:
                cases += _cases(experiment, name, variant, at, asked)
    return PreparedExperiment(experiment, [*experiment.numbers, *extra], cases)


def _cases(
    experiment: Experiment, name: str, variant: VariantSettings, at: float | None, asked: Reproduction
) -> list[Case]:
    """Return the runs of a variant at a point: in every world asked for, with every seed."""
    if (variant.cc or name) not in VARIANTS:
        problem = f"variants.{name}: is not a variant, expected cc with one of bbrgym list"
        raise ConfigError(f"experiment {experiment.name}: {problem}")
    cases = []
    for world, settings in _worlds_of(variant, asked).items():
        entrant, scenario = _prepared(experiment, name, at, asked, world)
        for seed in range(1, (asked.seeds or experiment.seeds) + 1):
            job = EvaluationJob(
                entrant=entrant,
                scenario=scenario,
                world=world,
                seed=seed,
                interval_s=experiment.interval_s,
                score_delta=_SCORE_DELTA,
                keeps_series=True,
                world_settings=settings,
            )
            cases.append(Case(name, at, job))
    return cases


def _prepared(
    experiment: Experiment, name: str, at: float | None, asked: Reproduction, world: str
) -> tuple[Entrant, Scenario]:
    """Return a variant's entrant and the scenario that it runs at a point in a world."""
    variant = experiment.variants[name]
    cc = variant.cc or name
    where = f"experiment {experiment.name}"
    recordings = None if asked.recordings is None else Path(asked.recordings)
    try:
        check_tunables(cc, variant.tunables)
        fields = experiment.fields_of(name, at, recordings, has_radio=world_spec(world).has_last_hops)
        if asked.stack is not None and cc not in STOCK_CONTROLS:
            fields = with_stack(fields, asked.stack)
    except FieldProblem as error:
        prefix = f"variants.{name}." if error.path.startswith("tunables") else ""
        raise ConfigError(f"{where}: {prefix}{error.path}: {error.problem}") from None
    try:
        entrant = preset(cc, variant.tunables)
        scenario = entrant.prepared(parse_scenario(fields))
    except ConfigError as error:
        raise ConfigError(f"{where}: variant {name}{'' if at is None else f' at {at:g}'}: {error}") from error
    check_world_has(world_spec(world), scenario)
    return entrant, scenario


def with_stack(fields: Mapping[str, Any], stack: SenderStack) -> dict[str, Any]:
    """Return a scenario's fields with every sender's stack replaced, or without ``preset`` with facts of it changed."""
    facts = stack.model_dump(exclude_none=True)
    flows = [dict(flow) for flow in fields["flows"]]
    if stack.preset is None:
        for flow in flows:
            if "stack" in flow:
                flow["stack"] = _merged(flow["stack"], facts)
        return {**fields, "stack": _merged(fields.get("stack", {}), facts), "flows": flows}
    for flow in flows:
        flow.pop("stack", None)
    return {**fields, "stack": facts, "flows": flows}


def _merged(stack: Any, facts: Mapping[str, Any]) -> dict[str, Any]:
    return {**({"preset": stack} if isinstance(stack, str) else stack), **facts}


def _worlds_of(variant: VariantSettings, asked: Reproduction) -> Mapping[str, WorldSettings]:
    """Return the worlds of a variant: those asked for, or the only one that has it."""
    if variant.world is None:
        return asked.world
    default = WorldSettings.model_validate(
        {**registered_worlds()[variant.world].default_settings(), "timeout_s": _OWN_WORLD_TIMEOUT_S}
    )
    return {variant.world: asked.world.get(variant.world, default)}
