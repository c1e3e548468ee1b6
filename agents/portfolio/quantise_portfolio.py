# SPDX-License-Identifier: GPL-2.0-only
"""Turns a portfolio agent into a policy in integer arithmetic: it probes, chooses and holds as the agent does."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor, nn

from bbrgym.agents.portfolio.network_selector import NetworkSelector
from bbrgym.agents.portfolio.policy import PortfolioAgent, PortfolioNetwork
from bbrgym.agents.training.integer_policy import Activation, Choice, IntegerLayer, IntegerPolicy, Probe
from bbrgym.agents.training.quantise import ObservationPlan, layer, whole_settings
from bbrgym.agents.training.scalar_program import ONE, traced
from bbrgym.envs.flow_batch import FlowBatch
from bbrgym.envs.options import Options
from bbrgym.envs.tune_batch import TuneBatch
from bbrgym.errors import ConfigError


def quantise_portfolio(agent: PortfolioAgent, batch: TuneBatch | FlowBatch, options: Options) -> IntegerPolicy:
    """Return the agent in integer arithmetic.

    Args:
        agent: the agent.
        batch: environment that it acts in.
        options: arguments of the environment.

    Raises:
        ConfigError: it has no form in integers.
    """
    if agent.is_per_flow:
        raise ConfigError("env.name: is multi, expected tune with format c: a portfolio in integers acts for all flows")
    if len(agent.looks) > 1:
        raise ConfigError("agent.again_share: is above 0, expected 0 with format c: there a portfolio chooses once")
    plan, network, routine = ObservationPlan(batch, options), agent.looks[0], agent.routine
    selector = network.selector
    if not isinstance(selector, NetworkSelector):
        raise ConfigError("agent.fit.model: is trees, expected networks with format c")
    numbers = batch.max_learners * len(batch.observation.features)
    example = torch.full((1, routine.intervals, routine.width), 0.5)
    program = traced(prepared_inputs(network, selector), example, numbers)
    scaling, detector = batch.scaling, None if routine.detector is None else routine.detector()
    settings = np.concatenate([routine.setting[None], agent.library])
    values, parts = whole_settings(*scaling.snap(settings), plan.tunables)
    probe = Probe(
        intervals=routine.intervals,
        values=values[0],
        parts=parts[0],
        program=program,
        is_guarded=network.guard is not None,
        watched=-1 if detector is None else detector.watched,
        window=1 if detector is None else detector.window,
        threshold=0 if detector is None else round(detector.threshold * detector.window * ONE),
    )
    return plan.policy(agent.name, tuple(_layers(selector)), Choice(values[1:], parts[1:]), probe)


def prepared_inputs(network: PortfolioNetwork, selector: NetworkSelector) -> Callable[[Tensor], Tensor]:
    """Return the function from a probe, [N, intervals, numbers], to what the selector's networks are given.

    That is [N, features]; with a guard one more number, what it says.
    """

    def prepared(history: Tensor) -> Tensor:
        features = network.features(history)
        scaled = selector.scaled(features)
        return scaled if network.guard is None else torch.cat([scaled, network.guard(features)[:, None]], dim=1)

    return prepared


def _layers(selector: NetworkSelector) -> Iterator[IntegerLayer]:
    """Yield the layers of all networks side by side; the last one takes their mean."""
    members = [[one for one in member.children() if not isinstance(one, nn.Dropout)] for member in selector.members]
    for one in itertools.chain(*members):
        if not isinstance(one, nn.Linear | nn.ReLU):
            raise ConfigError(
                f"network: has a layer {type(one).__name__}, allowed with format c are Linear and ReLU in a selector"
            )
    depth = len([one for one in members[0] if isinstance(one, nn.Linear)])
    of_all = zip(*([one for one in member if isinstance(one, nn.Linear)] for member in members), strict=True)
    for place, linears in enumerate(of_all):
        activation: Activation = "none" if place == depth - 1 else "relu"
        weights, biases = [one.weight for one in linears], [one.bias for one in linears]
        if place == depth - 1:
            count = len(linears)
            weight = torch.cat(weights, dim=1) if place else torch.stack(weights).sum(0)
            yield layer(weight / count, torch.stack(biases).sum(0) / count, activation)
        else:
            yield layer(torch.cat(weights), torch.cat(biases), activation, 1 if place == 0 else len(linears))
