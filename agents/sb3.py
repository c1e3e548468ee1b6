# SPDX-License-Identifier: GPL-2.0-only
"""Trainers of algorithms of Stable-Baselines3, of sb3-contrib, and of any class derived from theirs; need `train`.

An agent's file names the algorithm itself by `_target_`:

    _target_: stable_baselines3.PPO     # or sb3_contrib.TQC, my_module.MyPPO, ...
    name: mine
    learning_rate: 1.0e-3               # any argument of the algorithm, and the fields of its trainer

A trainer's fields are hyperparameters of ours, and those of the algorithm's own arguments whose range is checked here.
"""

from __future__ import annotations

import copy
import inspect
import math
import warnings
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, cast

import torch
from gymnasium import spaces
from pydantic import ConfigDict, Field, model_validator
from stable_baselines3 import PPO
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback, CallbackList, ConvertCallback
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.utils import LinearSchedule, set_random_seed
from stable_baselines3.common.vec_env import VecEnv
from torch import nn

from bbrgym.agents.asymmetric import AsymmetricPolicy
from bbrgym.agents.first_action import searched_action, start_at
from bbrgym.agents.flow_buffers import FlowReplayBuffer, FlowRolloutBuffer
from bbrgym.agents.layers import Layers, check_argument_sizes, check_widths
from bbrgym.agents.networks import torch_threads
from bbrgym.agents.rollout import batch_of
from bbrgym.agents.sb3_agent import Sb3Agent
from bbrgym.agents.sb3_segments import SegmentCallback, restore
from bbrgym.agents.training.about import about_agent
from bbrgym.agents.training.checkpoints import has_state, restore_state
from bbrgym.agents.training.folder import TrainingFolder
from bbrgym.agents.training.loop import TrainingRun
from bbrgym.agents.training.settings import TrainingSettings
from bbrgym.agents.training.trainer import LACKS_MEMORY, Trainer
from bbrgym.envs.flow_vec_env import FlowVecEnv
from bbrgym.errors import ConfigError, nearest, one_line
from bbrgym.schema import Count, FieldProblem, NotNegative, PathText, Positive, Share, Whole, shown
from bbrgym.targets import class_of

_ACTIVATIONS: Mapping[str, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU, "elu": nn.ELU, "silu": nn.SiLU}
#: Arguments of policies that are classes: their base, and the module whose classes need no path.
_CLASSES: Mapping[str, tuple[type, str]] = {
    "activation_fn": (nn.Module, "torch.nn"),
    "features_extractor_class": (BaseFeaturesExtractor, "stable_baselines3.common.torch_layers"),
    "optimizer_class": (torch.optim.Optimizer, "torch.optim"),
}
_GIVEN = ("self", "policy", "env", "policy_kwargs", "tensorboard_log", "verbose", "seed", "device", "_init_setup_model")
_NEVER = 2**62  # steps; Stable-Baselines3 would drop its measurements where it logs them itself
_OF_DISTRIBUTIONS = "to satisfy the constraint"  # part of PyTorch's error about NaN in a distribution


class Sb3Trainer(Trainer):
    """Base of the trainers of algorithms derived from those of Stable-Baselines3; see `trainer_class`."""

    model_config = ConfigDict(extra="allow")

    is_distributed: ClassVar[bool] = True
    draws_episodes: ClassVar[bool] = True
    changeable: ClassVar[tuple[str, ...]] = ("batch_size", "device", "gamma", "learning_rate", "learning_rate_end")

    # the algorithm's own name of the policy's class. Default: MlpPolicy, or the first of another name
    policy: str | None = None
    hidden: Layers = (64, 64)  # widths of the networks' layers
    activation: Literal["tanh", "relu", "elu", "silu"] = "tanh"  # function between the layers
    start_at: PathText | None = None  # run folder of a search, whose setting becomes the first mean action
    start_at_default: bool = False  # whether the variant's preset becomes the first mean action
    # other arguments of the policy, before those that the fields above stand for. A class among them is given by its
    # name in torch.nn or torch.optim, or by an import path
    policy_kwargs: dict[str, Any] = Field(default_factory=dict)
    # where the networks are trained; ``auto`` is ``cuda`` where there is one. Agents act on the CPU
    device: Literal["auto", "cpu", "cuda"] = "cpu"
    learning_rate: Positive | None = None  # of the algorithm, as batch_size and gamma. Default: its own
    # value to which the learning rate falls linearly. Default: it stays constant
    learning_rate_end: NotNegative | None = None
    batch_size: Count | None = None
    gamma: Share | None = None

    @classmethod
    @abstractmethod
    def algorithm(cls) -> type[BaseAlgorithm]:
        """Return the class of the algorithm."""

    @abstractmethod
    def flow_buffer(self, env: FlowVecEnv) -> dict[str, Any]:
        """Return arguments by which the algorithm learns from the steps of flows only."""

    @model_validator(mode="after")
    def _check_known(self) -> Sb3Trainer:
        algorithm = self.algorithm()
        known = [*(name for name in type(self).model_fields if name != "name"), *_arguments_of(algorithm)]
        see = f"help({algorithm.__module__.partition('.')[0]}.{algorithm.__name__})"
        problems = {
            name: f"is not a hyperparameter; {nearest(name, dict.fromkeys(known), see)}"
            for name in self.model_extra or {}
            if name not in known
        }
        if self.learning_rate_end is not None and self.learning_rate is None:
            problems["learning_rate_end"] = "is given without agent.learning_rate, from which it falls"
        check_widths("hidden", self.hidden)
        check_argument_sizes("policy_kwargs", self.policy_kwargs)
        if problems:
            (first, problem), *others = problems.items()
            raise FieldProblem(first, "; ".join([problem, *(f"agent.{name}: {text}" for name, text in others)]))
        return self

    # ---- training and loading ----------------------------------------------------------------------------------

    def train(self, run: TrainingRun) -> None:
        settings = run.settings
        options = settings.options(settings.world_name)
        with torch_threads(settings.torch_threads), run.rollouts.vec_env(options, settings.envs_side_by_side) as env:
            self._train(run, env)

    def check_callback(self, callback: Any) -> None:
        """Check that a callback is what `learn` of Stable-Baselines3 takes, or a list of such; see `Trainer`."""
        for one in _several(callback):
            if isinstance(one, type) or not (isinstance(one, BaseCallback) or callable(one)):
                raise ConfigError(
                    f"callback: is {shown(callback)}, expected a callback of Stable-Baselines3, a function, or a list"
                )

    def load(self, folder: TrainingFolder, settings: TrainingSettings, checkpoint: str) -> Sb3Agent:
        batch = batch_of(1, settings.options(settings.world_name))
        keywords = self._keywords()
        if (self.model_extra or {}).get("use_sde"):
            keywords["use_sde"] = True
        policy_class = self._policy_class(batch.observation_space)
        policy = policy_class(batch.observation_space, batch.action.space, lambda _: 0.0, **keywords)
        restore_state(folder, checkpoint, lambda state: policy.load_state_dict(state["policy"]))
        return self.agent(settings, policy)

    def agent(self, settings: TrainingSettings, policy: BasePolicy) -> Sb3Agent:
        """Return a policy as an agent."""
        return Sb3Agent(settings.label, policy, is_per_flow=settings.is_per_flow)

    def _train(self, run: TrainingRun, env: VecEnv) -> None:
        set_random_seed(run.settings.stream("weights", 0))
        model = self.make_model(env)
        self.check_steps(run.settings, model)
        if has_state(run.folder, "last"):
            run.resume(restore_state(run.folder, "last", lambda state: restore(model, state)))
        model.set_logger(Logger(None, []))  # SegmentCallback takes the algorithm's measurements from it
        about = about_agent(self.agent(run.settings, _on_cpu(model.policy)), "best", run.settings.env_arguments())
        segments = SegmentCallback(run, model, env, about, lambda: self.agent(run.settings, _on_cpu(model.policy)))
        try:
            steps = run.settings.total_steps * segments.rows - model.num_timesteps
            callbacks = CallbackList([segments, *map(_as_callback, _several(run.callback))])
            model.learn(steps, callbacks, log_interval=_NEVER, reset_num_timesteps=False)
        except ValueError as error:
            if _OF_DISTRIBUTIONS not in str(error):
                raise
            raise run.broken("an output of the policy", segments.step) from error
        segments.end()

    def check_steps(self, settings: TrainingSettings, model: Any) -> None:
        """Raise ConfigError unless the steps suffice for an update."""

    # ---- the model ---------------------------------------------------------------------------------------------

    def make_model(self, env: VecEnv) -> BaseAlgorithm:
        """Return a new model of the algorithm.

        Raises:
            ConfigError: the algorithm refuses a hyperparameter, or does not fit the environments.
        """
        own = self._arguments()
        if isinstance(env, FlowVecEnv):
            own |= self.flow_buffer(env)
        policy, keywords = self._policy_class(env.observation_space), self._keywords()
        if self.device == "cuda" and not torch.cuda.is_available():
            raise ConfigError("agent.device: is 'cuda', but PyTorch finds no such device here, expected cpu or auto")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", UserWarning)  # it only warns of arguments that cannot work
                warnings.filterwarnings("ignore", ".*mini-batch", UserWarning)  # a smaller last minibatch does no harm
                model = self.algorithm()(policy, env, policy_kwargs=keywords, device=self.device, **own)
        except (TypeError, ValueError, AssertionError, UserWarning, RuntimeError) as error:
            if LACKS_MEMORY in str(error):
                raise
            hint = "; action=grid and action=switch are Discrete" if "as action spaces" in str(error) else ""
            raise ConfigError(f"agent: {self.name} cannot be made: {one_line(error)}{hint}") from error
        if self.start_at is not None:
            start_at(model, searched_action(self.start_at, env))
        elif self.start_at_default:
            start_at(model, env.get_attr("default_action", [0])[0])
        return model

    def policy_keywords(self) -> dict[str, Any]:
        """Return the arguments of the policy class that the fields stand for."""
        return {"net_arch": list(self.hidden), "activation_fn": _ACTIVATIONS[self.activation]}

    def _keywords(self) -> dict[str, Any]:
        return self.policy_keywords() | {name: _class_or_value(name, one) for name, one in self.policy_kwargs.items()}

    def _policy_class(self, space: spaces.Space[Any]) -> type[BasePolicy]:
        if not isinstance(space, spaces.Dict):
            aliases = self.algorithm().policy_aliases
            name = self.policy or ("MlpPolicy" if "MlpPolicy" in aliases else next(iter(aliases), "MlpPolicy"))
            if name not in aliases:
                raise ConfigError(f"agent.policy: is {shown(name)}; {nearest(name, aliases, 'policy_aliases')}")
            return aliases[name]
        if self.algorithm() is not PPO:
            raise ConfigError(
                f"env.critic: is true, expected false with {self.algorithm().__name__}: only ppo has such a critic"
            )
        return AsymmetricPolicy

    def _arguments(self) -> dict[str, Any]:
        """Return the algorithm's own arguments among the hyperparameters."""
        known = _arguments_of(self.algorithm())
        own = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in self
            if name in known and value is not None
        }
        if self.learning_rate is not None and self.learning_rate_end is not None:
            own["learning_rate"] = LinearSchedule(self.learning_rate, self.learning_rate_end, 1)
        return own


def _several(callback: Any) -> Sequence[Any]:
    if callback is None:
        return ()
    return callback if isinstance(callback, list | tuple) else (callback,)


def _as_callback(callback: Any) -> BaseCallback:
    return callback if isinstance(callback, BaseCallback) else ConvertCallback(callback)


def _class_or_value(name: str, value: Any) -> Any:
    """Return an argument of a policy; a class by its name."""
    if name not in _CLASSES:
        return value
    base, module = _CLASSES[name]
    if name == "activation_fn" and value in _ACTIVATIONS:
        return _ACTIVATIONS[value]
    path = f"{module}.{value}" if isinstance(value, str) and "." not in value else value
    return class_of("agent.policy_kwargs", {name: path}, base, key=name, is_trusted=False)


def _on_cpu(policy: BasePolicy) -> BasePolicy:
    """Return a policy on the CPU, a copy if necessary: agents act there, one environment at a time."""
    return policy if policy.device.type == "cpu" else copy.deepcopy(policy).to("cpu")


def _arguments_of(algorithm: type[BaseAlgorithm]) -> list[str]:
    """Return the names of an algorithm's arguments; ``**others`` stands for those of the base class."""
    names: dict[str, None] = {}
    for one in algorithm.__mro__:
        if "__init__" not in vars(one):
            continue
        parameters = inspect.signature(one.__init__).parameters.values()  # type: ignore[misc]
        names |= {each.name: None for each in parameters if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)}
        if not any(each.kind == each.VAR_KEYWORD for each in parameters):
            break
    return [name for name in names if name not in _GIVEN]


# ---- algorithms that learn from the current policy's steps --------------------------------------------


class OnPolicyTrainer(Sb3Trainer):
    """Base of the trainers of algorithms that learn from rollouts of the current policy."""

    changeable: ClassVar[tuple[str, ...]] = (
        *Sb3Trainer.changeable,
        *("n_steps", "n_epochs", "gae_lambda", "clip_range", "max_grad_norm", "ent_coef", "vf_coef", "acts"),
    )

    initial_std: Positive | None = None  # standard deviation of the first actions. Default: 1
    # how the trained policy acts: ``mean``, or ``sample``, as in training, where actions are continuous and the policy
    # has no memory. None: the mean if actions are held for several control intervals, else samples
    acts: Literal["mean", "sample"] | None = "mean"
    # arguments of the algorithm. Default: its own
    n_steps: Count | None = None
    n_epochs: Count | None = None
    gae_lambda: Share | None = None
    clip_range: Positive | None = None
    max_grad_norm: Positive | None = None

    @model_validator(mode="after")
    def _check_sde_sampling(self) -> OnPolicyTrainer:
        if self.acts != "mean" and (self.model_extra or {}).get("use_sde"):
            raise FieldProblem("acts", f"is {shown(self.acts)}, expected 'mean' with agent.use_sde=true")
        return self

    def flow_buffer(self, env: FlowVecEnv) -> dict[str, Any]:
        return {"rollout_buffer_class": FlowRolloutBuffer, "rollout_buffer_kwargs": {"env": env}}

    def make_model(self, env: VecEnv) -> BaseAlgorithm:
        """Return a new model; see `Sb3Trainer`.

        RecurrentPPO normalises the advantages of each minibatch, which one step alone turns into NaN: its minibatches
        are made smaller until no single step is left over.
        """
        model: Any = super().make_model(env)
        if hasattr(model.policy, "lstm_actor"):
            steps = model.n_steps * env.num_envs
            model.batch_size = next(size for size in range(model.batch_size, 0, -1) if steps % size != 1)
        return cast(BaseAlgorithm, model)

    def policy_keywords(self) -> dict[str, Any]:
        """Return the arguments of the policy class."""
        own = {} if self.initial_std is None else {"log_std_init": math.log(self.initial_std)}
        return super().policy_keywords() | own

    def check_steps(self, settings: TrainingSettings, model: Any) -> None:
        """Check that the steps suffice for one rollout."""
        settings.check_rollout_fits(model.n_steps)

    def agent(self, settings: TrainingSettings, policy: BasePolicy) -> Sb3Agent:
        acts = self.acts or ("mean" if settings.action.get("hold_intervals", 1) > 1 else "sample")
        is_sampling = acts == "sample" and isinstance(policy.action_space, spaces.Box)
        return Sb3Agent(settings.label, policy, is_sampling=is_sampling, is_per_flow=settings.is_per_flow)


# ---- algorithms that learn from remembered steps ------------------------------------------------------


class OffPolicyTrainer(Sb3Trainer):
    """Base of the trainers of algorithms that learn from remembered steps."""

    changeable: ClassVar[tuple[str, ...]] = (
        *Sb3Trainer.changeable,
        *("gradient_steps", "learning_starts", "tau", "train_freq"),
    )

    # arguments of the algorithm. Default: its own
    buffer_size: Count | None = None
    learning_starts: Annotated[Whole, Field(ge=0)] | None = None
    tau: Share | None = None

    def flow_buffer(self, env: FlowVecEnv) -> dict[str, Any]:
        return {"replay_buffer_class": FlowReplayBuffer, "replay_buffer_kwargs": {"env": env}}


def trainer_class(algorithm: type[BaseAlgorithm]) -> type[Sb3Trainer]:
    """Return the trainer of an algorithm.

    The flows of an episode can share its policy if the algorithm takes the class of its buffer as an argument.

    Raises:
        ConfigError: its class is derived neither from OnPolicyAlgorithm nor from OffPolicyAlgorithm.
    """
    bases: dict[type[BaseAlgorithm], tuple[type[Sb3Trainer], str]] = {
        OnPolicyAlgorithm: (OnPolicyTrainer, "rollout_buffer_class"),
        OffPolicyAlgorithm: (OffPolicyTrainer, "replay_buffer_class"),
    }
    for one, (base, buffer_argument) in bases.items():
        if issubclass(algorithm, one):
            members = {
                "algorithm": classmethod(lambda _: algorithm),
                "is_shared": buffer_argument in _arguments_of(algorithm),
                "__module__": __name__,
            }
            return type(algorithm.__name__, (base,), members)
    raise ConfigError(
        f"agent._target_: is '{algorithm.__module__}.{algorithm.__qualname__}', expected an algorithm derived from "
        f"OnPolicyAlgorithm or OffPolicyAlgorithm of Stable-Baselines3"
    )
