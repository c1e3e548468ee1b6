# SPDX-License-Identifier: GPL-2.0-only
"""Proximal policy optimisation in one file of plain PyTorch: an example to start research from.

    while steps are left:
        collect   T steps of N environments with the current policy           (`Collector.rollout`)
        improve   K epochs over their N * T steps in minibatches               (`improve`)

    policy loss   -min(ratio * A, clip(ratio, 1 - eps, 1 + eps) * A)      ratio = new / old probability of the action
    advantage     A_t = d_t + gamma * lambda * A_(t+1)                     d_t = r_t + gamma * V(s_(t+1)) - V(s_t)

Schulman et al., Proximal policy optimization algorithms, 2017; the details are those that Huang et al., The 37
implementation details of PPO, 2022, found to matter: normalised advantages, orthogonal weights, a small last layer,
annealed learning rate, clipped gradients. Runs are cut off, they do not end, so what would have followed a run's last
step is worth what the critic says of it.

With env.critic=true the critic sees what an onlooker knows, beside what the actor sees.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, cast

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from pydantic import Field, ValidationError
from torch import Tensor, nn

from bbrgym.agents.base import Tuner
from bbrgym.agents.network_tuners import tuner_of
from bbrgym.agents.networks import Network, clipped
from bbrgym.agents.training.checkpoints import finite_or_refuse, has_state, load_state, save_state, torch_threads
from bbrgym.agents.training.folder import TrainingFolder
from bbrgym.agents.training.loop import TrainingRun
from bbrgym.agents.training.settings import Training
from bbrgym.envs.tune_batch import TuneBatch
from bbrgym.envs.tune_vector_env import TuneVectorEnv
from bbrgym.errors import ConfigError
from bbrgym.schema import Float, List, Model, Whole, first_problem
from bbrgym.worlds import FAST_WORLD

Positive = Annotated[Float, Field(gt=0)]
Part = Annotated[Float, Field(ge=0, le=1)]
Count = Annotated[Whole, Field(ge=1)]


class Hyperparameters(Model):
    """What conf/agent/torch_ppo.yaml says."""

    hidden: Annotated[List[Count], Field(min_length=1)] = (64, 64)
    initial_std: Positive = 0.4
    learning_rate: Positive = 1e-3
    learning_rate_end: Annotated[Float, Field(ge=0)] = 0.0
    n_steps: Count = 64
    batch_size: Count = 1024
    n_epochs: Count = 10
    gamma: Part = 0.9
    gae_lambda: Part = 0.9
    clip_range: Positive = 0.2
    entropy_weight: Float = 0.0
    value_weight: Float = 0.5
    max_grad_norm: Positive = 0.5


# ---- the networks -------------------------------------------------------------------------------------


class ActorCritic(nn.Module):
    """A normal distribution of actions, whose mean the actor gives, and the value of a state.

    Args:
        actor_width, critic_width: numbers that they see.
        default: the mean of the first actions, [tunables].
        hidden: widths of the layers between.
        initial_std: standard deviation of the first actions.
    """

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

    def mean(self, seen: Tensor) -> Tensor:
        """[..., actor's numbers and perhaps more] -> [..., tunables]."""
        mean: Tensor = self.actor(seen[..., : self.actor_width])
        return mean

    def value(self, seen: Tensor) -> Tensor:
        """[..., critic's numbers] -> [...]."""
        value: Tensor = self.critic(seen).squeeze(-1)
        return value

    def log_probability(self, seen: Tensor, actions: Tensor) -> Tensor:
        """Of actions [..., tunables] -> [...]."""
        distance = (actions - self.mean(seen)) / self.log_std.exp()
        return (-0.5 * distance**2 - self.log_std - 0.5 * math.log(2.0 * math.pi)).sum(-1)

    def entropy(self) -> Tensor:
        """Of the actions in any state."""
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
class Rollout:
    """N * T steps, one after the other; each [N * T] or [N * T, numbers]."""

    seen: Tensor
    actions: Tensor
    log_probabilities: Tensor
    advantages: Tensor
    returns: Tensor


class Collector:
    """N environments that run on from one rollout to the next."""

    def __init__(self, envs: TuneVectorEnv, model: ActorCritic, asked: Hyperparameters, run: TrainingRun) -> None:
        self._envs = envs
        self._model = model
        self._asked = asked
        self._run = run
        self.generator = torch.Generator()

    def restart(self, step: int) -> None:
        """Begins a leg: whatever is random starts anew."""
        streams = self._run.next_leg(step)
        self.generator.manual_seed(streams.torch)
        self._observations, _ = self._envs.reset(seed=streams.envs)

    @torch.no_grad()
    def rollout(self, step: int) -> Rollout:
        """Takes T steps in each environment, `step` have been taken before."""
        model, steps, count = self._model, self._asked.n_steps, self._envs.num_envs
        width = _joined(self._observations).shape[-1]
        seen = torch.zeros(steps + 1, count, width)
        actions = torch.zeros(steps, count, len(model.log_std))
        rewards, goes_on = torch.zeros(steps, count), torch.zeros(steps, count)
        for t in range(steps):
            seen[t] = _joined(self._observations)
            noise = torch.randn(actions[t].shape, generator=self.generator)
            actions[t] = model.mean(seen[t]) + model.log_std.exp() * noise
            self._observations, reward, _, truncated, infos = self._envs.step(actions[t].clamp(-1.0, 1.0).numpy())
            rewards[t] = torch.from_numpy(reward)
            if truncated.any():
                lasts = torch.stack([_joined(last) for last in infos["final_obs"][truncated]])
                rewards[t, truncated] += self._asked.gamma * model.value(lasts)
            goes_on[t] = torch.from_numpy(~truncated)
            step += count
            self._run.stepped(step, self._observations, reward, truncated)
        seen[steps] = _joined(self._observations)
        values = model.value(seen)
        gained = advantages(rewards, values, goes_on, self._asked.gamma, self._asked.gae_lambda)
        return Rollout(
            seen=seen[:steps].flatten(0, 1),
            actions=actions.flatten(0, 1),
            log_probabilities=model.log_probability(seen[:steps], actions).flatten(),
            advantages=gained.flatten(),
            returns=(gained + values[:steps]).flatten(),
        )


def advantages(rewards: Tensor, values: Tensor, goes_on: Tensor, gamma: float, gae_lambda: float) -> Tensor:
    """Generalised advantage estimation.

    Args:
        rewards: [T, N].
        values: of the states before the steps, and after the last one: [T + 1, N].
        goes_on: 0 where a step was a run's last one, 1 elsewhere: [T, N].
        gamma: what the next step's value counts.
        gae_lambda: what the next step's surprise counts beside that.

    Returns:
        [T, N].
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
    rollout: Rollout,
    asked: Hyperparameters,
    generator: torch.Generator,
) -> dict[str, float]:
    """Some epochs over a rollout; what was measured in the last minibatch."""
    measured: dict[str, Tensor] = {}
    for _ in range(asked.n_epochs):
        order = torch.randperm(len(rollout.seen), generator=generator)
        for first in range(0, len(order), asked.batch_size):
            chosen = order[first : first + asked.batch_size]
            seen, gained = rollout.seen[chosen], rollout.advantages[chosen]
            gained = (gained - gained.mean()) / (gained.std(correction=0) + 1e-8)
            log_ratio = model.log_probability(seen, rollout.actions[chosen]) - rollout.log_probabilities[chosen]
            ratio = log_ratio.exp()
            clipped = ratio.clamp(1.0 - asked.clip_range, 1.0 + asked.clip_range)
            policy_loss = -torch.min(ratio * gained, clipped * gained).mean()
            value_loss = (model.value(seen) - rollout.returns[chosen]).square().mean()
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


# ---- training, keeping, loading -----------------------------------------------------------------------


class TorchPpo:
    """The trainer; see `bbrgym.agents.training.registry.Trainer`."""

    def train(self, run: TrainingRun) -> None:
        """Trains from the run's last checkpoint, or from the beginning."""
        settings = run.settings
        asked = parse(settings.agent)
        with torch_threads(settings.torch_threads):
            options = {**vars(settings.options(settings.world_name)), "autoreset_mode": "SameStep"}
            envs = TuneVectorEnv(**options, num_envs=settings.num_envs)
            try:
                _refuse_discrete(envs.single_action_space)
                _train(run, asked, envs)
            finally:
                envs.close()

    def load(self, folder: TrainingFolder, settings: Training, checkpoint: str) -> TorchAgent:
        """The agent of a checkpoint."""
        batch = TuneBatch(1, settings.options(FAST_WORLD))
        model = _made(parse(settings.agent), batch.observation_space, batch.action.default)
        model.load_state_dict(load_state(folder, checkpoint)["state"]["model"])
        return TorchAgent(settings.agent_name, model)


def trainer(name: str) -> TorchPpo:  # noqa: ARG001 - there is one
    """The trainer."""
    return TorchPpo()


def _train(run: TrainingRun, asked: Hyperparameters, envs: TuneVectorEnv) -> None:
    settings = run.settings
    torch.manual_seed(settings.stream("weights", 0))
    model = _made(asked, envs.single_observation_space, envs.default_actions[0])
    optimizer = torch.optim.Adam(model.parameters(), asked.learning_rate, eps=1e-5)
    agent = TorchAgent(settings.agent_name, model)
    step = 0
    if has_state(run.folder, "last"):
        kept = load_state(run.folder, "last")
        run.resume(kept["about"])
        model.load_state_dict(kept["state"]["model"])
        optimizer.load_state_dict(kept["state"]["optimizer"])
        step = run.state.step

    def save(name: str, about: Mapping[str, Any]) -> None:
        state = {"model": model.state_dict()} | ({"optimizer": optimizer.state_dict()} if name == "last" else {})
        save_state(run.folder, name, {"about": dict(about), "state": state})

    collector = Collector(envs, model, asked, run)
    while step < settings.total_steps:
        if run.leg_is_over(step):
            finite_or_refuse(model, run, step)
            run.checkpoint(step, agent, save)
            collector.restart(step)
        part = step / settings.total_steps
        optimizer.param_groups[0]["lr"] = asked.learning_rate * (1.0 - part) + asked.learning_rate_end * part
        rollout = collector.rollout(step)
        step += asked.n_steps * envs.num_envs
        measured = improve(model, optimizer, rollout, asked, collector.generator)
        run.refuse_nan(step, measured)
        if run.row_is_due(step):
            run.record(step, measured)
    finite_or_refuse(model, run, step)
    run.checkpoint(step, agent, save)


class TorchAgent:
    """The mean action, within the range that actions have; it sees what senders know."""

    is_per_flow = False

    def __init__(self, name: str, model: ActorCritic) -> None:
        self.name = name
        self.model = model

    def tuner(self, seeds: Sequence[int]) -> Tuner:
        """A fresh one."""
        return tuner_of(self.network(), seeds)

    def network(self) -> Network:
        """What acts, and is exported."""
        return Network(self.model.actor, clipped)


# ---- details ------------------------------------------------------------------------------------------


def parse(agent: Mapping[str, Any]) -> Hyperparameters:
    """Checks what conf/agent/torch_ppo.yaml and the command say.

    Raises:
        ConfigError: names the hyperparameter, its value and what is allowed.
    """
    try:
        return Hyperparameters.model_validate({name: value for name, value in agent.items() if name != "name"})
    except ValidationError as error:
        path, problem = first_problem(error, Hyperparameters)
        raise ConfigError(f"agent.{path}: {problem}") from None


def _made(asked: Hyperparameters, space: spaces.Space[Any], default: NDArray[np.float32]) -> ActorCritic:
    parts = list(space.values()) if isinstance(space, spaces.Dict) else [space]
    widths = [math.prod(part.shape or ()) for part in parts]
    return ActorCritic(widths[0], sum(widths), default, asked.hidden, asked.initial_std)


def _joined(observations: Any) -> Tensor:
    """What the actor sees, then what the critic sees beside it: [..., numbers]."""
    parts = [observations["actor"], observations["critic"]] if isinstance(observations, Mapping) else [observations]
    return torch.from_numpy(np.concatenate(parts, axis=-1))


def _refuse_discrete(space: spaces.Space[Any]) -> None:
    if not isinstance(space, spaces.Box):
        raise ConfigError(
            f"action.levels: actions are {space}, expected continuous ones with torch_ppo: action.levels=null"
        )
