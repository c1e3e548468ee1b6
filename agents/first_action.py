# SPDX-License-Identifier: GPL-2.0-only
"""First actions of a new Stable-Baselines3 model, set by the hyperparameters `start_at` and `start_at_default`."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.vec_env import VecEnv
from torch import nn

from bbrgym.agents.base import Constant
from bbrgym.agents.loading import load_agent
from bbrgym.envs.scaling import TunableScaling
from bbrgym.errors import ConfigError
from bbrgym.schema import shown

_NEAR_END = 0.95  # largest number of a first action: atanh is infinite at 1
_SMALL = 0.01  # factor of the drawn weights, so that the first action hardly depends on the observation


def start_at(model: BaseAlgorithm, action: NDArray[Any]) -> None:
    """Make an action the mean of the model's first actions; of discrete ones, the likeliest.

    Args:
        model: new.
        action: [tunables], normalised or levels.

    Raises:
        ConfigError: the model values actions, and has no mean of them.
    """
    space, policy = cast(Any, model.action_space), cast(Any, model.policy)
    with torch.no_grad():
        if isinstance(model, OnPolicyAlgorithm) and isinstance(space, spaces.Box):
            policy.action_net.bias.copy_(torch.as_tensor(action))
        elif isinstance(model, OnPolicyAlgorithm):
            levels = space.nvec if isinstance(space, spaces.MultiDiscrete) else [space.n]
            firsts = np.cumsum([0, *levels[:-1]])
            policy.action_net.bias[torch.as_tensor(firsts + action)] += torch.log(
                torch.as_tensor(levels, dtype=torch.float32)
            )
        elif isinstance(space, spaces.Box):  # the mean is the hyperbolic tangent of the network's output
            mean: Any
            *_, mean = (layer for layer in policy.actor.mu.modules() if isinstance(layer, nn.Linear))  # TD3's has all
            mean.bias.copy_(torch.atanh(torch.as_tensor(action).clamp(-_NEAR_END, _NEAR_END)))
            mean.weight.mul_(_SMALL)
        else:
            raise ConfigError("agent.start_at_default: is true, expected false: the actions of dqn have no mean")


def searched_action(run_dir: str, env: VecEnv) -> NDArray[Any]:
    """Return the setting that a search found, as an action of the environments, [tunables].

    Raises:
        ConfigError: the folder is none of a search, actions are discrete, or the search set other tunables.
    """
    agent, arguments = load_agent(run_dir)
    names = env.get_attr("tunables", [0])[0]
    if not isinstance(agent, Constant) or not isinstance(env.action_space, spaces.Box):
        raise ConfigError(
            f"agent.start_at: is {shown(run_dir)}, expected the run folder of a search, and continuous actions"
        )
    setting = TunableScaling(arguments["variant"], arguments.get("tunables")).to_values(agent.action)
    if set(setting) != set(names):
        raise ConfigError(
            f"agent.start_at: {shown(run_dir)} has {shown(sorted(setting))}, expected {shown(list(names))}"
        )
    return TunableScaling(arguments["variant"], names).from_values(setting)
