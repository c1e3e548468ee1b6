# SPDX-License-Identifier: GPL-2.0-only
"""Turns a rule found by evolution into a policy in integer arithmetic, which switches modes where the rule does."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from bbrgym.agents.deploy.fixed_point import MAX_RULE_WEIGHT, Q16, Q20
from bbrgym.agents.deploy.integer_policy import IntegerPolicy, Rule
from bbrgym.agents.deploy.quantise import ObservationPlan, moves_of, whole_weights
from bbrgym.agents.evolution.modes_network import ModesNetwork
from bbrgym.envs.flow_batch import FlowBatch
from bbrgym.envs.options import Options
from bbrgym.envs.tune_batch import TuneBatch
from bbrgym.errors import ConfigError


def quantise_rule(network: ModesNetwork, batch: TuneBatch | FlowBatch, options: Options, agent: str) -> IntegerPolicy:
    """Return a rule with the observation and the actions of an environment in integer arithmetic.

    Raises:
        ConfigError: it has no form in integers here.
    """
    plan = ObservationPlan(batch, options)
    if not isinstance(batch.action.space, spaces.Box):
        raise ConfigError(f"action space: {batch.action.space}, allowed with a rule are normalised actions")
    merits, corrections = network.terms()
    weights = np.concatenate([np.zeros((1, merits.weights.shape[1])), merits.weights, corrections.weights])
    biases = np.concatenate([[0.0], merits.biases, corrections.biases])
    whole, whole_biases, shift = whole_weights(weights, biases, Q20, MAX_RULE_WEIGHT)
    settings = np.rint(network.anchors.double().numpy() * Q16).astype(np.int64)
    rule = Rule(
        weights=whole,
        biases=whole_biases,
        shift=shift,
        hysteresis=round(abs(network.hysteresis.item()) * Q20),
        settings=settings,
        corrected=network.places.argmax(dim=1).numpy(),
        starts=np.rint(network.correction_bias.detach().double().numpy() * Q20).astype(np.int64),
    )
    return plan.policy(agent, moves_of(batch.action, len(plan.tunables)), rule=rule)
