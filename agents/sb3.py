# SPDX-License-Identifier: GPL-2.0-only
"""Agents of Stable-Baselines3 and sb3-contrib, by a table of algorithms; need the extra `train`.

The hyperparameters in conf/agent/*.yaml are the algorithm's own arguments, by its own names, and some of ours:

    hidden              widths of the networks' layers
    activation          tanh, relu, elu or silu
    learning_rate_end   the learning rate falls linearly to this; without, it stays
    acts                how a trained policy acts: ``mean``, or ``sample`` (as it did in training); of ppo alone, and
                        where actions are continuous
    start_at            run folder of a search, whose setting is the first mean action
    start_at_default    training starts with the variant's own setting as the mean action
    initial_std         standard deviation of the first actions, of ppo and recurrent_ppo
    lstm                width of the memories of recurrent_ppo
"""

from __future__ import annotations

import importlib
import inspect
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.utils import LinearSchedule, set_random_seed
from stable_baselines3.common.vec_env import VecEnv
from torch import nn

from bbrgym.agents.asymmetric import AsymmetricPolicy
from bbrgym.agents.base import Constant, Tuner, load_agent
from bbrgym.agents.flow_buffers import FlowReplayBuffer, FlowRolloutBuffer
from bbrgym.agents.network_tuners import tuner_of
from bbrgym.agents.networks import Network, RecurrentNetwork, SamplingNetwork, StateDependentNetwork, head_of
from bbrgym.agents.rollout import batch_of
from bbrgym.agents.training.checkpoints import finite_or_refuse, has_state, load_state, save_state, torch_threads
from bbrgym.agents.training.folder import TrainingFolder
from bbrgym.agents.training.loop import TrainingRun
from bbrgym.agents.training.settings import Training
from bbrgym.agents.training.vec_env import rollout_envs
from bbrgym.envs.flow_vec_env import FlowVecEnv
from bbrgym.envs.scaling import TunableScaling
from bbrgym.errors import ConfigError, TrainingError, nearest
from bbrgym.schema import shown
from bbrgym.worlds import FAST_WORLD


@dataclass(frozen=True)
class Algorithm:
    """Where an algorithm is, and which policy it trains.

    Attributes:
        module, name: of the class.
        policy: as the class names it.
        learns_std: whether its policy has a standard deviation of its own.
    """

    module: str
    name: str
    policy: str
    learns_std: bool = False


ALGORITHMS: Mapping[str, Algorithm] = {
    "ppo": Algorithm("stable_baselines3", "PPO", "MlpPolicy", learns_std=True),
    "recurrent_ppo": Algorithm("sb3_contrib", "RecurrentPPO", "MlpLstmPolicy", learns_std=True),
    "sac": Algorithm("stable_baselines3", "SAC", "MlpPolicy"),
    "tqc": Algorithm("sb3_contrib", "TQC", "MlpPolicy"),
    "dqn": Algorithm("stable_baselines3", "DQN", "MlpPolicy"),
}

_ACTIVATIONS: Mapping[str, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU, "elu": nn.ELU, "silu": nn.SiLU}
_GIVEN = ("self", "policy", "env", "policy_kwargs", "tensorboard_log", "verbose", "seed", "device", "_init_setup_model")
_OURS = (
    "name",
    "hidden",
    "activation",
    "learning_rate_end",
    "start_at",
    "start_at_default",
    "initial_std",
    "lstm",
    "acts",
)
_NEVER = 2**62  # Stable-Baselines3 would forget what it measured where it logs it
_OF_DISTRIBUTIONS = "to satisfy the constraint"  # how PyTorch's refuse NaN
_NEAR_END, _SMALL = 0.95, 0.01  # of the range of an action; of the weights that were drawn
_MAY_BE_NAN = ("train/explained_variance",)  # where all returns are equal


def trainer(name: str) -> Sb3Trainer:
    """The trainer of an algorithm."""
    return Sb3Trainer(name)


class Sb3Trainer:
    """Trains, keeps and loads agents of one algorithm."""

    def __init__(self, name: str) -> None:
        self._algorithm = ALGORITHMS[name]

    def train(self, run: TrainingRun) -> None:
        """See `Trainer`."""
        settings = run.settings
        with torch_threads(settings.torch_threads), rollout_envs(settings) as env:
            self._train(run, env)

    def load(self, folder: TrainingFolder, settings: Training, checkpoint: str) -> PolicyAgent:
        """See `Trainer`."""
        batch = batch_of(1, settings.options(FAST_WORLD))
        keywords = self._policy_keywords(settings.agent)
        if settings.agent.get("use_sde"):
            keywords["use_sde"] = True
        policy_class = self._policy(batch.observation_space)
        policy = policy_class(batch.observation_space, batch.action.space, lambda _: 0.0, **keywords)
        policy.load_state_dict(load_state(folder, checkpoint)["state"]["policy"])
        return agent_of(settings, policy)

    def _train(self, run: TrainingRun, env: VecEnv) -> None:
        set_random_seed(run.settings.stream("weights", 0))
        model = self._made(run.settings.agent, env)
        if has_state(run.folder, "last"):
            kept = load_state(run.folder, "last")
            run.resume(kept["about"])
            _restore(model, kept["state"])
        model.set_logger(Logger(None, []))  # what it measures is taken from there by _Legs
        legs = _Legs(run, model, env)
        try:
            steps = run.settings.total_steps * legs.rows - model.num_timesteps
            model.learn(steps, legs, log_interval=_NEVER, reset_num_timesteps=False)
        except ValueError as error:
            if _OF_DISTRIBUTIONS not in str(error):
                raise
            raise run.broken("what the policy says", legs.step) from error
        legs.end()

    def _made(self, hyperparameters: Mapping[str, Any], env: VecEnv) -> BaseAlgorithm:
        """A new model."""
        algorithm = _class_of(self._algorithm)
        known = [name for name in inspect.signature(algorithm.__init__).parameters if name not in _GIVEN]
        own = {name: _tuples(value) for name, value in hyperparameters.items() if name not in _OURS}
        for name in own:
            if name not in known:
                raise ConfigError(f"agent.{name}: is no hyperparameter; {nearest(name, [*_OURS[1:], *known])}")
        if hyperparameters.get("learning_rate_end") is not None and "learning_rate" in own:
            rate, end = own["learning_rate"], hyperparameters["learning_rate_end"]
            own["learning_rate"] = LinearSchedule(_number("learning_rate", rate), _number("learning_rate_end", end), 1)
        if isinstance(env, FlowVecEnv):
            own |= _learning_from_flows(algorithm, env)
        keywords = self._policy_keywords(hyperparameters)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", UserWarning)  # what it would only grumble about cannot be
                if isinstance(env, FlowVecEnv):  # how many steps there are to learn from is known when flows have run
                    warnings.filterwarnings("ignore", ".*mini-batch", UserWarning)
                model = algorithm(self._policy(env.observation_space), env, policy_kwargs=keywords, device="cpu", **own)
        except (TypeError, ValueError, AssertionError, UserWarning) as error:
            reason = " ".join(str(error).split())
            raise ConfigError(f"agent: {hyperparameters['name']} cannot be made: {reason}") from error
        start_at = hyperparameters.get("start_at")
        if start_at is not None:
            _start_at(model, _found(start_at, env))
        elif hyperparameters.get("start_at_default", False):
            _start_at(model, env.get_attr("default_action", [0])[0])
        return model

    def _policy(self, space: spaces.Space[Any]) -> type[BasePolicy]:
        if not isinstance(space, spaces.Dict):
            return _class_of(self._algorithm).policy_aliases[self._algorithm.policy]
        if self._algorithm.name != "PPO":
            raise ConfigError(f"env.critic: is true, expected false with {self._algorithm.name}: only ppo's critic can")
        return AsymmetricPolicy

    def _policy_keywords(self, hyperparameters: Mapping[str, Any]) -> dict[str, Any]:
        activation = hyperparameters.get("activation", "tanh")
        if activation not in _ACTIVATIONS:
            raise ConfigError(f"agent.activation: is {shown(activation)}; {nearest(str(activation), _ACTIVATIONS)}")
        hidden = hyperparameters.get("hidden", [64, 64])
        if not isinstance(hidden, list | tuple) or not all(isinstance(width, int) and width > 0 for width in hidden):
            raise ConfigError(f"agent.hidden: is {shown(hidden)}, expected a list of whole numbers above 0")
        keywords = {"net_arch": list(hidden), "activation_fn": _ACTIVATIONS[activation]}
        if "initial_std" in hyperparameters:
            std = _number("initial_std", hyperparameters["initial_std"])
            if not self._algorithm.learns_std or std <= 0.0:
                raise ConfigError(f"agent.initial_std: is {std}, expected a number above 0, of ppo or recurrent_ppo")
            keywords["log_std_init"] = math.log(std)
        if "lstm" in hyperparameters:
            keywords["lstm_hidden_size"] = hyperparameters["lstm"]
        return keywords


def agent_of(settings: Training, policy: BasePolicy) -> PolicyAgent:
    """A policy as the agent that is asked for.

    Raises:
        ConfigError: `acts` cannot be.
    """
    acts = settings.agent.get("acts", "mean")
    if acts not in ("mean", "sample") or (acts == "sample" and settings.agent_name != "ppo"):
        raise ConfigError(f"agent.acts: is {shown(acts)}, allowed are mean, and for ppo sample")
    is_sampling = acts == "sample" and isinstance(policy.action_space, spaces.Box)
    return PolicyAgent(settings.label, policy, is_sampling=is_sampling, is_per_flow=settings.is_per_flow)


class PolicyAgent:
    """A policy of Stable-Baselines3 as an agent; it sees what senders know."""

    def __init__(self, name: str, policy: BasePolicy, *, is_sampling: bool = False, is_per_flow: bool = False) -> None:
        self.name = name
        self.policy = policy
        self.is_per_flow = is_per_flow
        self._is_sampling = is_sampling
        self._acting = self.network()

    def tuner(self, seeds: Sequence[int]) -> Tuner:
        """A fresh one."""
        return tuner_of(self._acting, seeds)

    def network(self) -> Network | SamplingNetwork | RecurrentNetwork:
        """What acts, and is exported."""
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


class _Legs(BaseCallback):
    """Cuts a training into legs; takes what the algorithm measures; stops at NaN."""

    def __init__(self, run: TrainingRun, model: BaseAlgorithm, env: VecEnv) -> None:
        super().__init__()
        self.model = model
        self.rows = env.num_envs // run.settings.num_envs  # of each environment, which are what the algorithm counts
        self._run = run
        self._env = env

    @property
    def step(self) -> int:
        """How many steps all environments together have taken."""
        return self.model.num_timesteps // self.rows

    def _on_rollout_start(self) -> None:
        step = self.step
        self._run.refuse_nan(step, self._measured())
        if self._run.leg_is_over(step):
            self._checkpoint()
            _restart(self.model, self._run, step)
        elif self._run.row_is_due(step):
            self._record()

    def _on_step(self) -> bool:
        now = self.locals
        rewards, ended = now["rewards"], now["dones"]
        if isinstance(self._env, FlowVecEnv):
            rewards, ended = rewards[self._env.row_is_active], ended & self._env.row_is_active
        self._run.stepped(self.step, now["new_obs"], rewards, ended)
        return True

    def end(self) -> None:
        """The last checkpoint."""
        self._run.refuse_nan(self.step, self._measured())
        self._checkpoint()

    def _checkpoint(self) -> None:
        finite_or_refuse(self.model.policy, self._run, self.step)
        self._record()
        agent = agent_of(self._run.settings, self.model.policy)

        def save(name: str, about: Mapping[str, Any]) -> None:
            state = {"policy": self.model.policy.state_dict()} if name == "best" else _state(self.model)
            save_state(self._run.folder, name, {"about": dict(about), "state": state})

        self._run.checkpoint(self.step, agent, save)

    def _record(self) -> None:
        """What the algorithm has measured since the last time."""
        self._run.record(self.step, self._measured())
        for measured in (self.logger.name_to_value, self.logger.name_to_count, self.logger.name_to_excluded):
            measured.clear()

    def _measured(self) -> dict[str, float]:
        values: Mapping[str, Any] = self.logger.name_to_value
        measured = {name: float(value) for name, value in values.items()}
        return {name: value for name, value in measured.items() if name not in _MAY_BE_NAN or math.isfinite(value)}


def _class_of(algorithm: Algorithm) -> type[BaseAlgorithm]:
    found: type[BaseAlgorithm] = getattr(importlib.import_module(algorithm.module), algorithm.name)
    return found


def _learning_from_flows(algorithm: type[BaseAlgorithm], env: FlowVecEnv) -> dict[str, Any]:
    """Arguments by which an algorithm learns from what flows did, and from nothing else."""
    if issubclass(algorithm, OnPolicyAlgorithm):
        return {"rollout_buffer_class": FlowRolloutBuffer, "rollout_buffer_kwargs": {"env": env}}
    return {"replay_buffer_class": FlowReplayBuffer, "replay_buffer_kwargs": {"env": env}}


# ---- legs and checkpoints -----------------------------------------------------------------------------


def _restart(model: BaseAlgorithm, run: TrainingRun, step: int) -> None:
    """Begins a leg: all streams of randomness and all environments start anew."""
    streams = run.next_leg(step)
    set_random_seed(streams.torch)
    model.action_space.seed(streams.torch)
    env = model.get_env()
    if env is None:
        raise TrainingError("the model has lost its environments")
    env.seed(streams.envs)
    model._last_obs = env.reset()  # type: ignore[assignment]
    model._last_episode_starts = np.ones(env.num_envs, np.bool_)  # a recurrent policy forgets at these
    if model.use_sde:
        cast(Any, model.policy).reset_noise(env.num_envs)


# Beside networks and optimisers the next leg depends on these.
_COUNTERS = ("num_timesteps", "_n_updates", "_n_calls", "exploration_rate", "_current_progress_remaining")
_REPLAYED = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")


def _state(model: BaseAlgorithm) -> dict[str, Any]:
    """All that the next leg depends on, as tensors and plain numbers."""
    parts, tensors = model._get_torch_save_params()
    state = {
        **{name: _attribute(model, name).state_dict() for name in parts},
        "tensors": {name: _attribute(model, name).detach() for name in tensors},
        "counters": {name: getattr(model, name) for name in _COUNTERS if hasattr(model, name)},
    }
    if isinstance(model, OffPolicyAlgorithm) and model.replay_buffer is not None:
        buffer = model.replay_buffer
        used = buffer.buffer_size if buffer.full else buffer.pos
        state["replay"] = {name: torch.from_numpy(getattr(buffer, name)[:used]) for name in _REPLAYED}
        state["counters"] |= {"replay_buffer.pos": buffer.pos, "replay_buffer.full": buffer.full}
    return state


def _restore(model: BaseAlgorithm, state: Mapping[str, Any]) -> None:
    parts, tensors = model._get_torch_save_params()
    for name in parts:
        _attribute(model, name).load_state_dict(state[name])
    for name in tensors:
        _attribute(model, name).data.copy_(state["tensors"][name])
    for path, count in state["counters"].items():
        owner, _, name = path.rpartition(".")
        setattr(_attribute(model, owner), name, count)
    for name, rows in state.get("replay", {}).items():
        _attribute(model, f"replay_buffer.{name}")[: len(rows)] = rows.numpy()


def _attribute(model: BaseAlgorithm, path: str) -> Any:
    found: Any = model
    for name in filter(None, path.split(".")):
        found = getattr(found, name)
    return found


# ---- hyperparameters ----------------------------------------------------------------------------------


def _start_at(model: BaseAlgorithm, default: NDArray[Any]) -> None:
    """Makes the default action the mean of the first actions; of discrete ones, the most likely level."""
    space, policy = cast(Any, model.action_space), cast(Any, model.policy)
    with torch.no_grad():
        if isinstance(model, OnPolicyAlgorithm) and isinstance(space, spaces.Box):
            policy.action_net.bias.copy_(torch.as_tensor(default))
        elif isinstance(model, OnPolicyAlgorithm):
            levels = space.nvec if isinstance(space, spaces.MultiDiscrete) else [space.n]
            firsts = np.cumsum([0, *levels[:-1]])
            policy.action_net.bias[torch.as_tensor(firsts + default)] += torch.log(
                torch.as_tensor(levels, dtype=torch.float32)
            )
        elif isinstance(space, spaces.Box):  # the mean is the tangens hyperbolicus of what the network gives
            mean: Any = next(layer for layer in policy.actor.mu.modules() if isinstance(layer, nn.Linear))
            mean.bias.copy_(torch.atanh(torch.as_tensor(default).clamp(-_NEAR_END, _NEAR_END)))
            mean.weight.mul_(_SMALL)


def _found(run_dir: Any, env: VecEnv) -> NDArray[Any]:
    """The setting that a search found, as an action of the environments."""
    agent, arguments = load_agent(str(run_dir))
    names = env.get_attr("tunables", [0])[0]
    if not isinstance(agent, Constant) or not isinstance(env.action_space, spaces.Box):
        raise ConfigError(
            f"agent.start_at: is {shown(run_dir)}, expected a search's run folder, and continuous actions"
        )
    searched = TunableScaling(arguments["variant"], arguments.get("tunables"))
    setting = searched.to_values(agent.action)
    if set(setting) != set(names):
        raise ConfigError(
            f"agent.start_at: {shown(run_dir)} has {shown(sorted(setting))}, expected {shown(list(names))}"
        )
    return TunableScaling(arguments["variant"], names).from_values(setting)


def _tuples(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ConfigError(f"agent.{name}: is {shown(value)}, expected a number")
    return float(value)
