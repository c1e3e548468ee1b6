# SPDX-License-Identifier: GPL-2.0-only
"""PPO in one file, in the manner of CleanRL, on a vector of environments that step in one call.

usage: python examples/ppo.py [--total-steps 300000] [--scenario rtt_pairs] [--variant bbq] [--seed 1]

It ends with the mean reward on networks that it did not train on, beside that of the variant's own tunables: 0 is a
fair share without a queue. Copy it and change what you like; it uses Gymnasium and PyTorch alone.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Normal

import bbrgym  # noqa: F401 - registers the environments

FIRST_TEST_SEED = 2**32  # of the test split, which no training draws from


@dataclass
class Settings:
    """Hyperparameters."""

    scenario: str = "rtt_pairs"
    variant: str = "bbq"
    seed: int = 1
    total_steps: int = 300_000  # of all environments together
    num_envs: int = 64
    num_steps: int = 32  # of an environment between two updates
    epochs: int = 4
    minibatches: int = 8
    learning_rate: float = 1e-3  # falls to 0
    gamma: float = 0.9
    gae_lambda: float = 0.9
    clip: float = 0.2
    entropy_weight: float = 0.001
    value_weight: float = 0.5
    max_grad_norm: float = 0.5
    test_episodes: int = 64


class ActorCritic(nn.Module):
    """A Gaussian policy and a value, each a network of its own."""

    def __init__(self, envs: gymnasium.vector.VectorEnv[Any, Any, Any], start: Any) -> None:
        super().__init__()
        (observations,), (actions,) = envs.single_observation_space.shape, envs.single_action_space.shape
        self.critic = network(observations, 1, 1.0)
        self.mean = network(observations, actions, 0.01)
        # the policy begins at the variant's own tunables
        self.start = nn.Parameter(torch.as_tensor(start, dtype=torch.float32))
        self.log_std = nn.Parameter(torch.full((actions,), -1.0))

    def value(self, observations: Tensor) -> Tensor:
        return self.critic(observations).squeeze(-1)

    def distribution(self, observations: Tensor) -> Normal:
        return Normal(self.start + self.mean(observations), self.log_std.exp())


def network(inputs: int, outputs: int, gain: float) -> nn.Sequential:
    layers = [nn.Linear(inputs, 64), nn.Linear(64, 64), nn.Linear(64, outputs)]
    for layer, scale in zip(layers, (2**0.5, 2**0.5, gain), strict=True):
        nn.init.orthogonal_(layer.weight, scale)
        nn.init.zeros_(layer.bias)
    return nn.Sequential(layers[0], nn.Tanh(), layers[1], nn.Tanh(), layers[2])


def make_envs(settings: Settings, num_envs: int, **arguments: Any) -> gymnasium.vector.VectorEnv[Any, Any, Any]:
    where = {"scenario": settings.scenario, "variant": settings.variant, "world": "twin"}
    return gymnasium.make_vec("bbrgym/Tune-v2", num_envs=num_envs, **where, **arguments)


def train(settings: Settings) -> ActorCritic:
    torch.manual_seed(settings.seed)
    envs = make_envs(settings, settings.num_envs, autoreset_mode="SameStep")  # every step is of an episode
    agent = ActorCritic(envs, envs.unwrapped.default_action)
    optimizer = torch.optim.Adam(agent.parameters(), lr=settings.learning_rate, eps=1e-5)
    updates = max(1, settings.total_steps // (settings.num_envs * settings.num_steps))
    observation = torch.as_tensor(envs.reset(seed=settings.seed)[0])
    for update in range(updates):
        optimizer.param_groups[0]["lr"] = settings.learning_rate * (1.0 - update / updates)
        batch, observation, mean_reward = rollout(agent, envs, observation, settings)
        learn(agent, optimizer, batch, settings)
        if update % 10 == 0 or update == updates - 1:
            steps = (update + 1) * settings.num_envs * settings.num_steps
            print(f"step {steps:8d}  mean reward {mean_reward:.3f}")
    envs.close()
    return agent


@torch.no_grad()
def rollout(
    agent: ActorCritic, envs: gymnasium.vector.VectorEnv[Any, Any, Any], observation: Tensor, settings: Settings
) -> tuple[dict[str, Tensor], Tensor, float]:
    """Return a batch of transitions with advantages and returns, the next observation, and the mean reward."""
    kept: dict[str, list[Tensor]] = {name: [] for name in ("observations", "actions", "log_probs", "values")}
    rewards, ends = [], []
    for _ in range(settings.num_steps):
        distribution = agent.distribution(observation)
        action = distribution.sample()
        kept["observations"].append(observation)
        kept["actions"].append(action)
        kept["log_probs"].append(distribution.log_prob(action).sum(-1))
        kept["values"].append(agent.value(observation))
        following, reward, _, truncated, infos = envs.step(action.clamp(-1.0, 1.0).numpy())
        observation = torch.as_tensor(following)
        reward = torch.as_tensor(np.asarray(reward, np.float32))
        rewards.append(reward.clone())
        if truncated.any():  # an episode never terminates: what would follow its last step is worth its value
            ended = np.flatnonzero(truncated)
            final = torch.as_tensor(np.stack([infos["final_obs"][index] for index in ended]))
            rewards[-1][ended] += settings.gamma * agent.value(final)
        ends.append(torch.as_tensor(truncated))
    batch = {name: torch.stack(parts) for name, parts in kept.items()}
    advantages = torch.zeros_like(batch["values"])
    after, following_value = torch.zeros(settings.num_envs), agent.value(observation)
    for step in reversed(range(settings.num_steps)):
        goes_on = 1.0 - ends[step].float()
        error = rewards[step] + settings.gamma * following_value * goes_on - batch["values"][step]
        after = error + settings.gamma * settings.gae_lambda * goes_on * after
        advantages[step], following_value = after, batch["values"][step]
    batch |= {"advantages": advantages, "returns": advantages + batch["values"]}
    return {name: part.flatten(0, 1) for name, part in batch.items()}, observation, float(torch.stack(rewards).mean())


def learn(agent: ActorCritic, optimizer: torch.optim.Optimizer, batch: dict[str, Tensor], settings: Settings) -> None:
    count = len(batch["values"])
    for _ in range(settings.epochs):
        for indices in torch.randperm(count).split(count // settings.minibatches):
            part = {name: values[indices] for name, values in batch.items()}
            distribution = agent.distribution(part["observations"])
            ratio = (distribution.log_prob(part["actions"]).sum(-1) - part["log_probs"]).exp()
            advantages = part["advantages"]
            advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
            clipped = ratio.clamp(1.0 - settings.clip, 1.0 + settings.clip)
            policy_loss = -torch.min(advantages * ratio, advantages * clipped).mean()
            value_loss = 0.5 * (agent.value(part["observations"]) - part["returns"]).square().mean()
            entropy = distribution.entropy().sum(-1).mean()
            loss = policy_loss + settings.value_weight * value_loss - settings.entropy_weight * entropy
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), settings.max_grad_norm)
            optimizer.step()


@torch.no_grad()
def evaluate(agent: ActorCritic | None, settings: Settings) -> float:
    """Return the mean reward of test episodes; of the variant's own tunables if there is no agent."""
    count = settings.test_episodes
    envs = make_envs(settings, count, autoreset_mode="Disabled")
    observation, _ = envs.reset(seed=FIRST_TEST_SEED)
    own = np.tile(envs.unwrapped.default_action, (count, 1))
    rewards, has_ended = [], np.zeros(count, bool)
    while not has_ended.any():  # the episodes of a distribution are equally long
        action = own
        if agent is not None:
            action = agent.distribution(torch.as_tensor(observation)).mean.clamp(-1.0, 1.0).numpy()
        observation, reward, _, has_ended, _ = envs.step(action)
        rewards.append(reward)
    envs.close()
    return float(np.mean(rewards))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name, value in vars(Settings()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value)
    settings = Settings(**vars(parser.parse_args()))
    agent = train(settings)
    print(f"{settings.variant}'s own tunables  {evaluate(None, settings):.3f}")
    print(f"PPO  {evaluate(agent, settings):.3f}")


if __name__ == "__main__":
    main()
