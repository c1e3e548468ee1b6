# SPDX-License-Identifier: GPL-2.0-only
"""Scenarios of episodes: given or drawn, with the variant and the indices of the tuned flows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bbrgym.envs.scaling import NormalisedAction
from bbrgym.errors import ConfigError
from bbrgym.scenario.bounds import BOUNDS
from bbrgym.scenario.distribution import is_distribution, load_distribution
from bbrgym.scenario.files import Source, is_sequence, load_scenario, with_variant
from bbrgym.scenario.model import Scenario
from bbrgym.schema import argument, plain
from bbrgym.worlds import Table, check_world_has, world_spec
from bbrgym.worlds.score import base_rtts_ms, counted_roles

ScenarioSampler: TypeAlias = Callable[[int], Source]
"""Draws the scenario of an episode from the episode's seed; the same seed must give the same scenario.

An attribute `max_tuned` may give the largest number of tuned flows of a draw.
"""

Times = NDArray[np.int64]

_PROBE_SEED = 0  # of the draw that tells the number of tuned flows


def to_ns(seconds: Sequence[float] | Table) -> Times:
    """Convert times to whole nanoseconds, with the worlds' rounding."""
    return np.floor(np.asarray(seconds, np.float64) * 1e9 + 0.5).astype(np.int64)


@dataclass
class EpisodeSpec:
    """A scenario prepared for an environment."""

    scenario: Scenario  # the scenario, with the variant in its tuned flows
    tuned: NDArray[np.intp]  # indices of the tuned flows among all flows, [tuned flows]
    names: tuple[str, ...]  # names of the tuned flows
    base_rtt_ms: Table  # two-way propagation delay of each tuned flow, its mean if it moves, [tuned flows]
    start_ns: Times  # start and stop time of each tuned flow, [tuned flows]
    stop_ns: Times
    flows: int  # number of all flows
    is_counted: NDArray[np.bool_]  # whether each flow counts in the network's score, [flows]
    rtt_ms: Table  # two-way propagation delay of each flow, [flows]
    demand_mbps: Table  # payload that each flow's application asks for, [flows]; infinite without a limit
    # values of the tunables that each tuned flow starts with, and their normalised action, [tuned flows, tunables]
    # both; None before the first episode
    start: tuple[Table, NormalisedAction] | None = None

    @classmethod
    def of(cls, source: Source, variant: str) -> EpisodeSpec:
        """Load a scenario and put a variant in its tuned flows.

        Raises:
            ScenarioError, ConfigError: the scenario cannot be read, or has no tuned flow.
        """
        scenario = with_variant(load_scenario(source), variant)
        flows = scenario.resolved().flows
        tuned = {index: flow for index, flow in enumerate(flows) if flow.role == "tuned"}
        if not tuned:
            raise ConfigError(f"scenario {scenario.name!r} has no flow with role tuned: nothing would be controlled")
        starts_s = np.array([flow.start_s for flow in flows])
        stops_s = np.array([scenario.duration_s if flow.stop_s is None else flow.stop_s for flow in flows])
        rtt_ms = base_rtts_ms(scenario, starts_s, stops_s)
        return cls(
            scenario,
            tuned=np.array(list(tuned), np.intp),
            names=tuple(flow.name for flow in tuned.values()),
            base_rtt_ms=rtt_ms[list(tuned)],
            start_ns=to_ns(starts_s[list(tuned)]),
            stop_ns=to_ns(stops_s[list(tuned)]),
            flows=len(flows),
            is_counted=np.array([flow.role in counted_roles(["tuned"], "network") for flow in flows]),
            rtt_ms=rtt_ms,
            demand_mbps=np.array([flow.demand_mbps(scenario.duration_s) for flow in flows]),
        )


EpisodeSource: TypeAlias = EpisodeSpec | ScenarioSampler


def episode_sources(
    scenario: Source | ScenarioSampler | Sequence[Source | ScenarioSampler], num_envs: int, variant: str, world: str
) -> list[EpisodeSource]:
    """Return the episode specification, or its source, of each environment: [num_envs].

    Raises:
        ScenarioError, ConfigError: a scenario cannot be read, the world lacks a controller in it, or there are neither
            one scenario nor `num_envs` of them.
    """
    spec, scenario = world_spec(world), plain(scenario)
    several: list[Any] = list(scenario) if is_sequence(scenario) else [scenario]
    if is_sequence(scenario) and len(several) != num_envs:
        raise ConfigError(f"scenario: {len(several)} for {num_envs} environments, allowed are one or one for each")
    sources: list[EpisodeSource] = []
    for each in several:
        source = load_distribution(each) if is_distribution(each) else each
        if not callable(source):
            source = EpisodeSpec.of(source, variant)
            check_world_has(spec, source.scenario)
        sources.append(source)
    return sources if len(sources) == num_envs else sources * num_envs


def names_and_tuned(sources: Sequence[EpisodeSource], variant: str) -> list[tuple[str, int]]:
    """Return the name and the largest number of tuned flows of each source.

    A source that draws scenarios and does not tell that number counts with its draw of seed 0.

    Raises:
        ScenarioError, ConfigError: that scenario cannot be read, or the number is not allowed.
    """
    found: dict[int, tuple[str, int]] = {}
    for source in sources:
        if id(source) not in found:
            most = getattr(source, "max_tuned", None)
            if most is None:
                spec = EpisodeSpec.of(source(_PROBE_SEED), variant) if callable(source) else source
                found[id(source)] = (spec.scenario.name, len(spec.tuned))
            else:
                found[id(source)] = (str(getattr(source, "name", source)), check_max_tuned(most))
    return [found[id(source)] for source in sources]


def check_max_tuned(max_tuned: Any) -> int:
    """Return a largest number of tuned flows, if a scenario can have as many flows.

    Raises:
        ConfigError: it is not a whole number in that range.
    """
    most = int(BOUNDS["flows"].high)
    return int(argument("max_tuned", max_tuned, int, f"are whole numbers from 1 to {most}", 1, most))
