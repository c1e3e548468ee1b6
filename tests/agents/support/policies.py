# SPDX-License-Identifier: GPL-2.0-only
"""Random policies in integer arithmetic, their headers, and what they observe."""

import dataclasses
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import torch
from plain_envs import PLAIN
from torch import nn

from bbrgym.agents.deploy.fixed_point import MAX_FIELD, Q16, Integers
from bbrgym.agents.deploy.integer_policy import Identification, IntegerLayer, IntegerPolicy, ScalarProgram
from bbrgym.agents.deploy.policy_header import policy_header
from bbrgym.agents.deploy.quantise import quantise
from bbrgym.agents.deploy.quantise_portfolio import quantise_portfolio
from bbrgym.agents.networks import Network, head_of
from bbrgym.agents.portfolio.identification_features import IdentificationFeatures, ReselectFeatures
from bbrgym.agents.portfolio.policy import IdentificationRoutine, PortfolioAgent, PortfolioNetwork
from bbrgym.agents.portfolio.selector import Selector
from bbrgym.agents.rollout import batch_of
from bbrgym.envs.flow_batch import FlowOptions
from bbrgym.envs.options import Options
from bbrgym.tunables import VARIANTS

FLAT = {"levels": 3, "flat": True, "tunables": ["bbr_up_gain", "bbq_alpha_us"]}


def options_of(*, is_per_flow: bool = True, **arguments: Any) -> Options:
    """Arguments of a small environment in the twin."""
    given = {**PLAIN, "world": "twin", "control_interval_s": 0.5, "threads": 1, **arguments}
    return FlowOptions(**given) if is_per_flow else Options(**given)


def random_network(options: Options, *, scale: float = 1.0, activation: type[nn.Module] = nn.Tanh) -> Network:
    """A network of random weights with the inputs and outputs that an environment asks for."""
    batch = batch_of(1, options)
    (width,) = batch.observation.space.shape
    space: Any = batch.action.space
    generator = torch.Generator().manual_seed(5)
    layers: list[nn.Module] = []
    outputs = int(space.n) if hasattr(space, "n") else space.shape[0]
    for before, after in ((width, 24), (24, 16), (16, outputs)):
        linear = nn.Linear(before, after)
        for tensor in (linear.weight, linear.bias):
            nn.init.normal_(tensor, std=scale * before**-0.5, generator=generator)
        layers += [linear, activation()]
    return Network(nn.Sequential(*layers[:-1]), head_of(space))


def random_policy(options: Options, **how: Any) -> IntegerPolicy:
    """The same in integers."""
    return quantise(random_network(options, **how), batch_of(1, options), options, "random")


def random_portfolio(
    *, flows: int = 1, intervals: int = 2, variant: str = "bbr-mix", pause: int | None = None
) -> IntegerPolicy:
    """A portfolio of random settings and networks, in integers."""
    options = options_of(is_per_flow=False, variant=variant, features="memory", max_tuned=flows)
    batch = batch_of(1, options)
    generator = torch.Generator().manual_seed(7)
    library = np.random.default_rng(7).uniform(-1, 1, (4, len(batch.scaling.names))).astype(np.float32)
    settled = batch.scaling.snap(library)[1]
    features: IdentificationFeatures | ReselectFeatures = IdentificationFeatures(intervals, len(batch.scaling.names))
    if pause is not None:
        features = ReselectFeatures(features, batch.scaling.names)
    count = len(features.names)
    selector = random_networks(count, 4, generator)
    routine = IdentificationRoutine(batch.scaling.default, intervals, pause)
    agent = PortfolioAgent("random", PortfolioNetwork(features, selector, settled, intervals), routine, selector)
    return quantise_portfolio(agent, batch, options)


def portfolio_of(program: ScalarProgram, layers: tuple[IntegerLayer, ...]) -> IntegerPolicy:
    """A portfolio of 4 settings whose history of one interval is the inputs of a program, whose results layers use."""
    policy = random_portfolio()
    return dataclasses.replace(
        policy,
        features=policy.features[: program.inputs],
        layers=layers,
        identification=Identification(1, 1, False, program),
    )


def random_networks(features: int, settings: int, generator: torch.Generator, networks: int = 3) -> Selector:
    """Networks of two layers between inputs and outputs, of 5 and 4 units."""
    tables = {name: torch.rand(features, generator=generator) + 0.1 for name in ("mean", "deviation")}
    for place, (inputs, outputs) in enumerate(itertools.pairwise((features, 5, 4, settings))):
        tables[f"weights_{place}"] = torch.randn(networks, inputs, outputs, generator=generator) * inputs**-0.5
        tables[f"biases_{place}"] = torch.randn(networks, 1, outputs, generator=generator)
    return Selector(tables)


def first_tunables(policy: IntegerPolicy) -> Integers:
    """The preset of a policy's variant in whole units, [tunables]."""
    preset = VARIANTS[policy.variant].preset
    return np.array([round(preset[one.name] * one.per_unit) for one in policy.tunables])


def write_header(policy: IntegerPolicy, path: Path) -> Path:
    path.write_text(policy_header(policy))
    return path


def in_whole_units(policy: IntegerPolicy, stats: Any) -> Integers:
    """Measurements in whole units, as world/policy.cpp rounds them: [..., fields]."""
    return np.floor(stats * [field.per_unit for field in policy.fields] + 0.5).astype(np.int64)


def positions_at(normalised: Any) -> Integers:
    return np.rint((normalised.astype(np.float64) + 1.0) * (Q16 / 2)).astype(np.int64)


def wild_fields(policy: IntegerPolicy, steps: int, seed: int = 3) -> tuple[Integers, Integers]:
    """Measurements of all sizes, the largest and smallest numbers among them, [steps, flows, fields], and flows."""
    generator = np.random.default_rng(seed)
    shape = (steps, policy.flows, len(policy.fields))
    sizes = np.exp2(generator.uniform(-1, 42, shape)).astype(np.int64)
    ends = np.array([0, 1, -1, MAX_FIELD, MAX_FIELD + 1, np.iinfo(np.int64).max, np.iinfo(np.int64).min])
    fields = np.where(generator.random(shape) < 0.2, generator.choice(ends, shape), sizes)
    for index, field in enumerate(policy.fields):
        if field.source in ("active", "phase", "app_limited"):
            fields[:, :, index] = generator.integers(0, 18 if field.source == "phase" else 2, shape[:2])
    return fields, generator.integers(1, policy.flows + 1, steps)
