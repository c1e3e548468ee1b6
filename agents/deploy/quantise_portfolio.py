# SPDX-License-Identifier: GPL-2.0-only
"""Turns a portfolio agent into a policy in integer arithmetic: it probes, chooses and holds as the agent does."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from bbrgym.agents.portfolio.network_selector import NetworkSelector
from bbrgym.agents.portfolio.policy import PortfolioAgent, PortfolioNetwork
from bbrgym.agents.deploy.quantise_trees import quantise_trees
from bbrgym.agents.portfolio.tree_selector import TreeSelector
from bbrgym.agents.deploy.integer_layer import Activation, IntegerLayer
from bbrgym.agents.deploy.integer_policy import Choice, IntegerPolicy
from bbrgym.agents.deploy.integer_probe import Look, Probe
from bbrgym.agents.deploy.quantise import ObservationPlan, layer, whole_settings
from bbrgym.agents.deploy.scalar_program import ONE, traced
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
    plan, routine = ObservationPlan(batch, options), agent.routine
    flows = 1 if agent.is_per_flow else batch.max_learners
    is_input = np.zeros((routine.intervals, routine.width), np.bool_)
    is_input[:, : flows * len(batch.observation.features)] = True
    if len(agent.looks) > 1:
        is_input[-1, -len(plan.tunables) :] = True
    example = torch.full((1, *is_input.shape), 0.5)
    scaling, detector = batch.scaling, None if routine.detector is None else routine.detector()
    settings = np.concatenate([routine.setting[None], agent.library])
    values, parts = whole_settings(*scaling.snap(settings), plan.tunables)
    probe = Probe(
        intervals=routine.intervals,
        values=values[0],
        parts=parts[0],
        program=traced(given_to(agent.looks), example, is_input),
        looks=tuple(_looks(agent.looks, example)),
        watched=-1 if detector is None else detector.watched,
        window=1 if detector is None else detector.window,
        threshold=0 if detector is None else round(detector.threshold * detector.window * ONE),
    )
    return plan.policy(agent.name, (), Choice(values[1:], parts[1:]), probe)


def given_to(looks: Sequence[PortfolioNetwork]) -> Callable[[Tensor], Tensor]:
    """Return the function from what was observed, [N, intervals, numbers], to what the looks' selectors are given.

    That is [N, features] of the first look, with a guard one more number, what it says, then the same of the second.
    """
    return lambda history: torch.cat([one for look in looks for one in _given_to(look, history)], dim=1)


def _given_to(look: PortfolioNetwork, history: Tensor) -> Iterator[Tensor]:
    """Yield what a selector is given, [N, features], and what the guard says, [N, 1]."""
    features, selector = look.features(history), look.selector
    yield selector.scaled(features) if isinstance(selector, NetworkSelector) else features
    if look.guard is not None:
        yield look.guard(features)[:, None]


def _looks(looks: Sequence[PortfolioNetwork], example: Tensor) -> Iterator[Look]:
    """Yield the looks, by the numbers that they are given of a program's results."""
    first = 0
    for look in looks:
        selector, is_guarded = look.selector, look.guard is not None
        count = look.features(example).shape[1]
        if isinstance(selector, TreeSelector):
            yield Look(first, count, quantise_trees(selector), is_guarded)
        elif isinstance(selector, NetworkSelector):
            yield Look(first, count, tuple(_layers(selector)), is_guarded)
        else:
            raise ConfigError(f"agent: has a selector {type(selector).__name__}, which has no form in integers")
        first += count + is_guarded


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
