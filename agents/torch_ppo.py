# SPDX-License-Identifier: GPL-2.0-only
"""Proximal policy optimisation in one file of plain PyTorch: an example to start research from.

    while steps are left:
        collect   T steps of N environments with the current policy           (`Collector.collect`)
        improve   K epochs over their N * T steps in minibatches               (`improve`)

    policy loss   -min(ratio * A, clip(ratio, 1 - eps, 1 + eps) * A)      ratio = new / old probability of the action
    advantage     A_t = d_t + gamma * lambda * A_(t+1)                     d_t = r_t + gamma * V(s_(t+1)) - V(s_t)

Schulman et al., Proximal policy optimization algorithms, 2017. The details are those that Huang et al., The 37
implementation details of PPO, 2022, found to matter: normalised advantages, orthogonal weights, a small last layer,
annealed learning rate, clipped gradients. Episodes are truncated, never terminated, so the critic's value of the last
observation stands for the rewards after it.

With env.critic=true the critic has the privileged observation too.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, cast

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from pydantic import Field, model_validator
from torch import Tensor, nn

from bbrgym.agents.layers import Layers, check_widths
from bbrgym.agents.network_agents import NetworkAgent
from bbrgym.agents.networks import Network, clipped, torch_threads
from bbrgym.agents.training.checkpoints import finite_or_refuse, has_state, restore_state, save_state
from bbrgym.agents.training.folder import TrainingFolder
from bbrgym.agents.training.loop import TrainingRun
from bbrgym.agents.training.settings import TrainingSettings
from bbrgym.agents.training.trainer import Trainer
from bbrgym.envs.tune_batch import TuneBatch
from bbrgym.envs.tune_vector_env import TuneVectorEnv
from bbrgym.errors import ConfigError
from bbrgym.schema import Count, Float, NotNegative, Positive, Share

# ---- the networks -------------------------------------------------------------------------------------


class ActorCritic(nn.Module):
    """Normal distribution of actions, with the actor's output as mean, at first ``default``, and value of a state."""

    def __init__(
        self, actor_width: int, critic_width: int, default: NDArray[np.float32], hidden: tuple[int, ...], std: float
    ) -> None:
        super().__init__()
        self.actor_width = actor_width
        self.actor = _layers([actor_width, *hidden], len(default), last_gain=0.01)
        self.critic = _layers([critic_width, *hidden], 1, last_gain=1.0)
        self.log_std = nn.Parameter(torch.full((len(default),), math.log(std)))
        with torch.no_grad():
            cast(nn.Linear, self.actor[-1]).bias.copy_(torch.from_numpy(default))

    def mean(self, observations: Tensor) -> Tensor:
        """Return the mean actions, [..., tunables], of observations, [..., numbers], the actor's numbers first."""
        mean: Tensor = self.actor(observations[..., : self.actor_width])
        return mean

    def value(self, observations: Tensor) -> Tensor:
        """Return the values, [...], of observations, [..., numbers]."""
        value: Tensor = self.critic(observations).squeeze(-1)
        return value

    def log_probability(self, observations: Tensor, actions: Tensor) -> Tensor:
        """Return the log probability densities, [...], of actions, [..., tunables]."""
        distance = (actions - self.mean(observations)) / self.log_std.exp()
        return (-0.5 * distance**2 - self.log_std - 0.5 * math.log(2.0 * math.pi)).sum(-1)

    def entropy(self) -> Tensor:
        """Return the entropy of the actions, which is the same in every state."""
        return (self.log_std + 0.5 * math.log(2.0 * math.pi * math.e)).sum()


def _layers(widths: list[int], last: int, last_gain: float) -> nn.Sequential:
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(widths):
        layers += [_layer(before, after, math.sqrt(2.0)), nn.Tanh()]
    return nn.Sequential(*layers, _layer(widths[-1], last, last_gain))


def _layer(before: int, after: int, gain: float) -> nn.Linear:
    layer = nn.Linear(before, after)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


# ---- the algorithm ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Samples:
    """Steps of a rollout, one after the other: [N * T] or [N * T, numbers] each."""

    observations: Tensor
    actions: Tensor
    log_probabilities: Tensor
    advantages: Tensor
    returns: Tensor


class Collector:
    """Collects samples in N environments, which continue from one rollout to the next."""

    def __init__(self, envs: TuneVectorEnv, model: ActorCritic, asked: TorchPpo, run: TrainingRun) -> None:
        self._envs = envs
        self._model = model
        self._asked = asked
        self._run = run
        self.generator = torch.Generator()  # random numbers of exploration and minibatches

    def restart(self, step: int) -> None:
        """Begin a segment: seed all random numbers and reset all environments."""
        options, seeds = self._run.reset_options(), self._run.next_segment(step)
        self.generator.manual_seed(seeds.torch)
        self._observations, _ = self._envs.reset(seed=seeds.envs, options=options)

    @torch.no_grad()
    def collect(self, step: int) -> Samples:
        """Take T steps in each environment, after `step` steps of all together."""
        model, steps, count = self._model, self._asked.n_steps, self._envs.num_envs
        width = _joined(self._observations).shape[-1]
        observations = torch.zeros(steps + 1, count, width)
        actions = torch.zeros(steps, count, len(model.log_std))
        rewards, goes_on = torch.zeros(steps, count), torch.zeros(steps, count)
        for t in range(steps):
            observations[t] = _joined(self._observations)
            noise = torch.randn(actions[t].shape, generator=self.generator)
            actions[t] = model.mean(observations[t]) + model.log_std.exp() * noise
            self._observations, reward, _, truncated, infos = self._envs.step(actions[t].clamp(-1.0, 1.0).numpy())
            rewards[t] = torch.from_numpy(reward)
            if truncated.any():
                lasts = torch.stack([_joined(last) for last in infos["final_obs"][truncated]])
                rewards[t, truncated] += self._asked.gamma * model.value(lasts)
            goes_on[t] = torch.from_numpy(~truncated)
            step += count
            self._run.stepped(step, self._observations, reward, truncated)
        observations[steps] = _joined(self._observations)
        values = model.value(observations)
        gained = advantages(rewards, values, goes_on, self._asked.gamma, self._asked.gae_lambda)
        return Samples(
            observations=observations[:steps].flatten(0, 1),
            actions=actions.flatten(0, 1),
            log_probabilities=model.log_probability(observations[:steps], actions).flatten(),
            advantages=gained.flatten(),
            returns=(gained + values[:steps]).flatten(),
        )


def advantages(rewards: Tensor, values: Tensor, goes_on: Tensor, gamma: float, gae_lambda: float) -> Tensor:
    """Return the generalised advantage estimates, [T, N].

    Args:
        rewards: of the steps, [T, N].
        values: of the states before the steps and after the last one, [T + 1, N].
        goes_on: 0 where a step was the last of an episode, else 1, [T, N].
        gamma: discount of the next step's value.
        gae_lambda: further discount of the next step's advantage.
    """
    surprises = rewards + gamma * goes_on * values[1:] - values[:-1]
    found = torch.zeros_like(rewards)
    following = torch.zeros_like(rewards[0])
    for t in reversed(range(len(rewards))):
        following = surprises[t] + gamma * gae_lambda * goes_on[t] * following
        found[t] = following
    return found


def improve(
    model: ActorCritic,
    optimizer: torch.optim.Optimizer,
    samples: Samples,
    asked: TorchPpo,
    generator: torch.Generator,
) -> dict[str, float]:
    """Improve the model in some epochs over the samples; return what was measured in the last minibatch."""
    measured: dict[str, Tensor] = {}
    for _ in range(asked.n_epochs):
        order = torch.randperm(len(samples.observations), generator=generator)
        for first in range(0, len(order), asked.batch_size):
            chosen = order[first : first + asked.batch_size]
            observations, gained = samples.observations[chosen], samples.advantages[chosen]
            gained = (gained - gained.mean()) / (gained.std(correction=0) + 1e-8)
            log_ratio = model.log_probability(observations, samples.actions[chosen]) - samples.log_probabilities[chosen]
            ratio = log_ratio.exp()
            clipped = ratio.clamp(1.0 - asked.clip_range, 1.0 + asked.clip_range)
            policy_loss = -torch.min(ratio * gained, clipped * gained).mean()
            value_loss = (model.value(observations) - samples.returns[chosen]).square().mean()
            loss = policy_loss + asked.value_weight * value_loss - asked.entropy_weight * model.entropy()
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(model.parameters(), asked.max_grad_norm)
            optimizer.step()
            measured = {
                "train/loss": loss,
                "train/policy_loss": policy_loss,
                "train/value_loss": value_loss,
                "train/approx_kl": (ratio - 1.0 - log_ratio).mean(),
                "train/clip_fraction": ((ratio - 1.0).abs() > asked.clip_range).float().mean(),
                "train/std": model.log_std.exp().mean(),
            }
    return {name: value.item() for name, value in measured.items()}


# ---- the trainer --------------------------------------------------------------------------------------


class TorchPpo(Trainer):
    """Trainer whose fields are the hyperparameters, explained in conf/agent/torch_ppo.yaml."""

    draws_episodes: ClassVar[bool] = True
    changeable: ClassVar[tuple[str, ...]] = (
        *("batch_size", "clip_range", "entropy_weight", "gae_lambda", "gamma", "learning_rate", "learning_rate_end"),
        *("max_grad_norm", "n_epochs", "n_steps", "value_weight"),
    )

    hidden: Annotated[Layers, Field(min_length=1)] = (64, 64)
    initial_std: Positive = 0.4
    learning_rate: Positive = 1e-3
    learning_rate_end: NotNegative = 0.0
    n_steps: Count = 64
    batch_size: Count = 1024
    n_epochs: Count = 10
    gamma: Share = 0.9
    gae_lambda: Share = 0.9
    clip_range: Positive = 0.2
    entropy_weight: Float = 0.0
    value_weight: Float = 0.5
    max_grad_norm: Positive = 0.5

    @model_validator(mode="after")
    def _check_widths(self) -> TorchPpo:
        check_widths("hidden", self.hidden)
        return self

    def train(self, run: TrainingRun) -> None:
        settings = run.settings
        settings.check_rollout_fits(self.n_steps)
        options = {**vars(settings.options(settings.world_name)), "autoreset_mode": "SameStep"}
        with torch_threads(settings.torch_threads):
            envs = TuneVectorEnv(**options, num_envs=settings.envs_side_by_side)
            try:
                _check_continuous(envs.single_action_space)
                self._train(run, envs)
            finally:
                envs.close()

    def load(self, folder: TrainingFolder, settings: TrainingSettings, checkpoint: str) -> NetworkAgent:
        batch = TuneBatch(1, settings.options(settings.world_name))
        model = self._new_model(batch.observation_space, batch.action.default)
        restore_state(folder, checkpoint, lambda state: model.load_state_dict(state["model"]))
        return _agent(settings, model)

    def _train(self, run: TrainingRun, envs: TuneVectorEnv) -> None:
        settings = run.settings
        torch.manual_seed(settings.stream("weights", 0))
        model = self._new_model(envs.single_observation_space, envs.default_actions[0])
        optimizer = torch.optim.Adam(model.parameters(), self.learning_rate, eps=1e-5)
        step = 0

        def restore(state: Mapping[str, Any]) -> None:
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])

        def save(name: str, about: Mapping[str, Any]) -> None:
            state = {"model": model.state_dict()} | ({"optimizer": optimizer.state_dict()} if name == "last" else {})
            save_state(run.folder, name, about, state)

        if has_state(run.folder, "last"):
            run.resume(restore_state(run.folder, "last", restore))
            step = run.state.step
        collector = Collector(envs, model, self, run)
        while step < settings.total_steps:
            if run.segment_is_over(step):
                finite_or_refuse(model, run, step)
                run.checkpoint(step, _agent(settings, model), save)
                collector.restart(step)
            part = step / settings.total_steps
            optimizer.param_groups[0]["lr"] = self.learning_rate * (1.0 - part) + self.learning_rate_end * part
            samples = collector.collect(step)
            step += self.n_steps * envs.num_envs
            measured = improve(model, optimizer, samples, self, collector.generator)
            run.check_finite(step, measured)
            if run.row_is_due(step):
                run.record(step, measured)
        finite_or_refuse(model, run, step)
        run.checkpoint(step, _agent(settings, model), save)

    def _new_model(self, space: spaces.Space[Any], default: NDArray[np.float32]) -> ActorCritic:
        parts = list(space.values()) if isinstance(space, spaces.Dict) else [space]
        widths = [math.prod(part.shape or ()) for part in parts]
        return ActorCritic(widths[0], sum(widths), default, self.hidden, self.initial_std)


def _agent(settings: TrainingSettings, model: ActorCritic) -> NetworkAgent:
    """Return the agent that takes the mean action, clipped to the range of actions."""
    return NetworkAgent(settings.agent_name, Network(model.actor, clipped))


def _joined(observations: Any) -> Tensor:
    """Join the sender's and the privileged observation, if there is one, [..., numbers]."""
    parts = [observations["actor"], observations["critic"]] if isinstance(observations, Mapping) else [observations]
    return torch.from_numpy(np.concatenate(parts, axis=-1))


def _check_continuous(space: spaces.Space[Any]) -> None:
    if not isinstance(space, spaces.Box):
        raise ConfigError(
            f"action.levels: actions are {space}, expected continuous ones with torch_ppo: action.levels=null"
        )
