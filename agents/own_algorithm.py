# SPDX-License-Identifier: GPL-2.0-only
"""Trainers of algorithms that are none of bbrgym's: classes derived from those of Stable-Baselines3.

An agent's file names the algorithm itself by `_target_`:

    _target_: my_module.MyPPO     # or sb3_contrib.TRPO, stable_baselines3.TD3, ...
    name: mine
    learning_rate: 1.0e-3         # any argument of the algorithm, and the fields of `OnPolicyTrainer`
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm

from bbrgym.agents.sb3 import OffPolicyTrainer, OnPolicyTrainer, Sb3Trainer
from bbrgym.errors import ConfigError


class _OfAnyAlgorithm(Sb3Trainer):
    """Part of a trainer of an algorithm that only its class is known of.

    Attributes:
        policy: the algorithm's own name of the policy's class. Default: MlpPolicy, or the first of another name.
    """

    is_shared: ClassVar[bool] = False

    policy: str | None = None

    def policy_name(self) -> str:
        """Return the name of the policy's class; see `Sb3Trainer`."""
        aliases = self.algorithm().policy_aliases
        return self.policy or ("MlpPolicy" if "MlpPolicy" in aliases else next(iter(aliases), "MlpPolicy"))

    @classmethod
    @abstractmethod
    def algorithm(cls) -> type[BaseAlgorithm]:
        """Return the class of the algorithm."""


class _OnPolicy(_OfAnyAlgorithm, OnPolicyTrainer):
    """Trainer of an algorithm that learns from rollouts of the current policy."""


class _OffPolicy(_OfAnyAlgorithm, OffPolicyTrainer):
    """Trainer of an algorithm that learns from remembered steps."""


def trainer_class(algorithm: type[BaseAlgorithm]) -> type[Sb3Trainer]:
    """Return the trainer of an algorithm.

    Raises:
        ConfigError: its class is derived neither from OnPolicyAlgorithm nor from OffPolicyAlgorithm.
    """
    bases = {OnPolicyAlgorithm: _OnPolicy, OffPolicyAlgorithm: _OffPolicy}
    base = next((trainer for one, trainer in bases.items() if issubclass(algorithm, one)), None)
    if base is None:
        raise ConfigError(
            f"agent._target_: is '{algorithm.__module__}.{algorithm.__qualname__}', expected an algorithm derived from "
            f"OnPolicyAlgorithm or OffPolicyAlgorithm of Stable-Baselines3"
        )
    return type(algorithm.__name__, (base,), {"algorithm": classmethod(lambda _: algorithm), "__module__": __name__})
