# SPDX-License-Identifier: GPL-2.0-only
"""Policies of Stable-Baselines3 as agents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from stable_baselines3.common.policies import BasePolicy
from torch import nn

from bbrgym.agents.base import Tuner
from bbrgym.agents.network_agents import tuner_of
from bbrgym.agents.networks import Network, RecurrentNetwork, SamplingNetwork, StateDependentNetwork, head_of


class PolicyAgent:
    """Agent that acts by a policy of Stable-Baselines3, on the sender's observation only.

    Args:
        name: name in records.
        policy: the policy.
        is_sampling: whether actions are drawn from the policy's distribution. Default: the mean.
        is_per_flow: see `Agent`.
    """

    def __init__(self, name: str, policy: BasePolicy, *, is_sampling: bool = False, is_per_flow: bool = False) -> None:
        self.name = name
        self.policy = policy
        self.is_per_flow = is_per_flow
        self._is_sampling = is_sampling
        self._network = self.network()

    def tuner(self, seeds: Sequence[int]) -> Tuner:
        """Return a new tuner; see `Agent`."""
        return tuner_of(self._network, seeds)

    def network(self) -> Network | SamplingNetwork | RecurrentNetwork:
        """Return the network that acts and is exported."""
        policy = cast(Any, self.policy)
        head = head_of(policy.action_space)
        if hasattr(policy, "lstm_actor"):
            layers = nn.Sequential(policy.mlp_extractor.policy_net, policy.action_net)
            return RecurrentNetwork(policy.lstm_actor, layers, head)
        if hasattr(policy, "q_net"):
            return Network(policy.q_net.q_net, head)
        if hasattr(policy, "actor"):
            return Network(nn.Sequential(policy.actor.latent_pi, policy.actor.mu), torch.tanh)
        if self._is_sampling and policy.use_sde:
            std = policy.action_dist.get_std(policy.log_std)
            return StateDependentNetwork(policy.mlp_extractor.policy_net, policy.action_net, std)
        layers = nn.Sequential(policy.mlp_extractor.policy_net, policy.action_net)
        return SamplingNetwork(layers, policy.log_std.exp()) if self._is_sampling else Network(layers, head)
