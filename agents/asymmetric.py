# SPDX-License-Identifier: GPL-2.0-only
"""A policy for `env.critic=true`: the actor sees what senders know, the critic in training what an onlooker knows too.

The action comes from the actor's layers over the actor's part of an observation, the value from the critic's layers
over both parts.
"""

from __future__ import annotations

import math
from typing import Any, cast

from gymnasium import spaces
from stable_baselines3.common.policies import MultiInputActorCriticPolicy
from stable_baselines3.common.torch_layers import MlpExtractor
from torch import Tensor, nn


class AsymmetricPolicy(MultiInputActorCriticPolicy):
    """As Stable-Baselines3's policies, for an observation space Dict(actor=Box, critic=Box)."""

    def _build_mlp_extractor(self) -> None:
        if not isinstance(self.observation_space, spaces.Dict):
            raise TypeError(f"observation space {self.observation_space}, expected a dictionary of actor and critic")
        seen_by_actor = math.prod(self.observation_space["actor"].shape or ())
        layers: Any = _Layers(seen_by_actor, self.features_dim, cast(list[int], self.net_arch), self.activation_fn)
        self.mlp_extractor = layers  # has all that is used of one


class _Layers(nn.Module):
    """Layers of actor and critic; features are the actor's, then the critic's (`CombinedExtractor` sorts by name)."""

    def __init__(self, seen_by_actor: int, seen_by_critic: int, widths: list[int], activation: type[nn.Module]) -> None:
        super().__init__()
        self._seen_by_actor = seen_by_actor
        self.policy_net = MlpExtractor(seen_by_actor, widths, activation, device="cpu").policy_net
        self.value_net = MlpExtractor(seen_by_critic, widths, activation, device="cpu").value_net
        self.latent_dim_pi = self.latent_dim_vf = widths[-1]

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        return self.forward_actor(features), self.forward_critic(features)

    def forward_actor(self, features: Tensor) -> Tensor:
        latent: Tensor = self.policy_net(features[:, : self._seen_by_actor])
        return latent

    def forward_critic(self, features: Tensor) -> Tensor:
        latent: Tensor = self.value_net(features)
        return latent
