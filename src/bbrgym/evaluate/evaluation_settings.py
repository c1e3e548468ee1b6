# SPDX-License-Identifier: GPL-2.0-only
"""Settings of an evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, model_validator

from bbrgym.errors import ConfigError, nearest
from bbrgym.scenario.distribution import Split
from bbrgym.schema import Count, FieldProblem, Float, List, Model, Whole, plain, shown, validated
from bbrgym.tunables import TUNABLES, VARIANTS, nearest_variant
from bbrgym.worlds import REFERENCE_WORLD, WorldSettings, registered_worlds, runs_at_once

MAX_JOBS = 256


class Evaluation(Model):
    """Settings of an evaluation, beside its scenario and agents.

    Attributes:
        world: settings by the name of the world. With several, the others are compared with the first.
        variants: congestion controls of the tuned flows, with preset tunables, one after the other.
        tunables: in natural units, for those of the variants that have them.
        variant: the one whose tunables ``oracle`` and ``random`` set.
        oracle_budget: settings that ``oracle`` tries on each draw, and on each run itself.
        oracle_runs: other runs of a draw, by whose mean score ``oracle`` chooses.
        seeds: each entrant runs once with each.
        draws: number of draws from a distribution, in place of seeds.
        first_draw: number of the first of these draws in the split, from 0 on.
        split: the split of the distribution that they are from.
        series_draws: number of draws that have rows in the time series, the first ones.
        reference: label of the entrant that the others are compared with on a distribution. Default: the best fixed
            setting.
        interval_s: between two rows of a flow in the time series; trained agents keep their own interval.
        score_delta: weight of the RTT in the score.
        trust: whether agents' files that run code when they are loaded may do so.
        jobs: runs at once. Default: one a core; in real time one for two cores.
    """

    world: Annotated[dict[str, WorldSettings], Field(min_length=1)] = Field(
        default_factory=lambda: {REFERENCE_WORLD: WorldSettings()}
    )
    variants: List[str]
    tunables: dict[str, Float] = Field(default_factory=dict)
    variant: str = "bbr-mix"
    oracle_budget: Annotated[Whole, Field(ge=1, le=1_000_000)] = 128
    oracle_runs: Annotated[Whole, Field(ge=1, le=1000)] = 3
    seeds: Annotated[List[Annotated[Whole, Field(ge=0, le=2**63 - 1)]], Field(min_length=1)] = (1,)
    draws: Count = 100
    first_draw: Annotated[Whole, Field(ge=0)] = 0
    split: Split = "test"
    series_draws: Annotated[Whole, Field(ge=0)] = 4
    reference: str | None = None
    interval_s: Annotated[Float, Field(ge=1e-3, le=3600)] = 0.1
    score_delta: Annotated[Float, Field(ge=0, le=100)] = 0.5
    trust: bool = False
    jobs: Annotated[Whole, Field(ge=1, le=MAX_JOBS)] | None = None

    @model_validator(mode="after")
    def _check(self) -> Evaluation:
        for name in self.world:
            if name not in registered_worlds():
                raise FieldProblem("world", f"is {shown(name)}; {nearest(name, registered_worlds())}")
        named = {f"variants[{index}]": variant for index, variant in enumerate(self.variants)}
        for name, variant in {**named, "variant": self.variant}.items():
            if variant not in VARIANTS:
                raise FieldProblem(name, f"is {shown(variant)}; {nearest_variant(variant)}")
            for world in self.world:
                if not registered_worlds()[world].has_controller(variant):
                    raise FieldProblem(name, f"is {shown(variant)}, which world {world} does not have")
        for name in ("variants", "seeds"):
            values = getattr(self, name)
            if len(set(values)) < len(values):
                raise FieldProblem(name, f"is {shown(list(values))}, expected each once")
        for name in self.tunables:
            if name not in TUNABLES:
                raise FieldProblem(f"tunables.{name}", f"is not a tunable; {nearest(name, TUNABLES)}")
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

    def jobs_at_once(self) -> int:
        """Return how many runs may take place at the same time."""
        if self._alone() is not None:
            return 1
        return self.jobs or runs_at_once(self.world)

    def _alone(self) -> str | None:
        """Return the name of a world that runs in this process and only once at a time; None if there is none."""
        for name, settings in self.world.items():
            kind = registered_worlds()[name]
            if kind.is_alone and (settings.isolation or kind.isolation) == "none":
                return name
        return None


def parse_settings(fields: Mapping[str, Any]) -> Evaluation:
    """Check the settings of an evaluation; a single variant, seed or world may stand for a list of one.

    Raises:
        ConfigError: names the setting, its value and what is allowed.
    """
    fields = dict(plain(fields))
    for name in ("variants", "seeds"):
        if isinstance(fields.get(name), str | int):
            fields[name] = [fields[name]]
    fields["world"] = parse_world_settings(fields.get("world", REFERENCE_WORLD))
    return validated(Evaluation, fields)


def parse_world_settings(world: Any) -> Any:
    """Return settings by world for a world's name or a list of them; anything else unchanged."""
    world = plain(world)
    names = [world] if isinstance(world, str) else world
    if not isinstance(names, list | tuple):
        return world
    if not all(isinstance(name, str) for name in names):
        raise ConfigError(f"world: is {shown(world)}, expected a world's name or a list of them")
    if len(set(names)) < len(names):
        raise ConfigError(f"world: is {shown(world)}, expected each once")
    return {name: {} for name in names}
