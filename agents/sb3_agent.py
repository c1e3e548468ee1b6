# SPDX-License-Identifier: GPL-2.0-only
"""Policies of Stable-Baselines3 as agents."""

from __future__ import annotations

from typing import Any

import torch
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.torch_layers import CombinedExtractor, FlattenExtractor
from torch import nn

from bbrgym.agents.network_agents import NetworkAgent
from bbrgym.agents.networks import (
    Network,
    RecurrentNetwork,
    SamplingNetwork,
    Sb3Network,
    clipped,
    head_of,
)


class Sb3Agent(NetworkAgent):
    """Agent that acts by a policy of Stable-Baselines3, on the sender's observation only."""

    def __init__(self, name: str, policy: BasePolicy, *, is_sampling: bool = False, is_per_flow: bool = False) -> None:
        policy.set_training_mode(False)  # the algorithm turns it on again where it trains
        self.policy = policy
        super().__init__(name, _network_of(policy, is_sampling), is_per_flow=is_per_flow)


def _network_of(policy: Any, is_sampling: bool) -> Network | SamplingNetwork | RecurrentNetwork:
    head = head_of(policy.action_space)
    if hasattr(policy, "lstm_actor"):
        layers = nn.Sequential(policy.mlp_extractor.policy_net, policy.action_net)
        return RecurrentNetwork(policy.lstm_actor, layers, head)
    if hasattr(policy, "q_net"):
        return Network(_layers(policy.q_net, policy.q_net.q_net), head)
    if hasattr(getattr(policy, "actor", None), "latent_pi"):
        return Network(_layers(policy.actor, policy.actor.latent_pi, policy.actor.mu), torch.tanh)
    if not hasattr(policy, "mlp_extractor"):  # one of somebody's own, or of an algorithm with other networks
        return Sb3Network(policy, clipped if head is clipped and not policy.squash_output else nn.Identity())
    layers = nn.Sequential(_layers(policy, policy.mlp_extractor.policy_net), policy.action_net)
    return SamplingNetwork(layers, policy.log_std.exp()) if is_sampling else Network(layers, head)


def _layers(owner: Any, *layers: nn.Module) -> nn.Module:
    """Return layers preceded by their owner's feature extractor, if there is one."""
    extractor = getattr(owner, "pi_features_extractor", owner.features_extractor)
    makes_none = isinstance(extractor, FlattenExtractor | CombinedExtractor)
    modules = layers if makes_none else (extractor, *layers)
    return modules[0] if len(modules) == 1 else nn.Sequential(*modules)
