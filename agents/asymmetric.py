# SPDX-License-Identifier: GPL-2.0-only
"""Policy for `env.critic=true`: the critic has a privileged observation in training, the actor has not.

The action is a function of the sender's observation, the value one of the sender's and the privileged observation.
"""

from __future__ import annotations

import math
from typing import Any

from gymnasium import spaces
from stable_baselines3.common.policies import MultiInputActorCriticPolicy
from stable_baselines3.common.torch_layers import MlpExtractor
from torch import Tensor, nn


class AsymmetricPolicy(MultiInputActorCriticPolicy):
    """Actor-critic policy of Stable-Baselines3 for an observation space Dict(actor=Box, critic=Box).

    Raises:
        TypeError: the observation space is not a dictionary.
    """

    def _build_mlp_extractor(self) -> None:
        if not isinstance(self.observation_space, spaces.Dict):
            raise TypeError(f"observation space {self.observation_space}, expected a dictionary of actor and critic")
        if not isinstance(self.net_arch, list):
            raise TypeError(f"net_arch is {self.net_arch}, expected a list of widths with env.critic=true")
        actor_width = math.prod(self.observation_space["actor"].shape or ())
        layers: Any = _Layers(actor_width, self.features_dim, self.net_arch, self.activation_fn)
        self.mlp_extractor = layers  # has every member of an MlpExtractor that is used


class _Layers(nn.Module):
    """Layers of actor and critic.

    `CombinedExtractor` joins the observation's parts in the order of their names: the sender's, then the privileged.
    """

    def __init__(self, actor_width: int, critic_width: int, widths: list[int], activation: type[nn.Module]) -> None:
        super().__init__()
        self._actor_width = actor_width
        self.policy_net = MlpExtractor(actor_width, widths, activation, device="cpu").policy_net
        self.value_net = MlpExtractor(critic_width, widths, activation, device="cpu").value_net
        self.latent_dim_pi = self.latent_dim_vf = widths[-1]

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        return self.forward_actor(features), self.forward_critic(features)

    def forward_actor(self, features: Tensor) -> Tensor:
        latent: Tensor = self.policy_net(features[:, : self._actor_width])
        return latent

    def forward_critic(self, features: Tensor) -> Tensor:
        latent: Tensor = self.value_net(features)
        return latent
