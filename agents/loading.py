# SPDX-License-Identifier: GPL-2.0-only
"""Loads trained agents from their run folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bbrgym.agents.base import Agent
from bbrgym.agents.training.folder import TrainingFolder
from bbrgym.agents.training.settings import parse_training
from bbrgym.agents.training.trainer import trainer_of


def load_agent(run_dir: str | Path, checkpoint: str = "best") -> tuple[Agent, dict[str, Any]]:
    """Load a trained agent and the arguments of its training environment.

    The arguments are those of `TuneEnv`, or of `TuneMultiEnv` for an agent trained with env=multi, whose `is_per_flow`
    is true. `critic` among them is false: the trained agent needs no privileged observation.

    Args:
        run_dir: run folder of `bbrgym train`.
        checkpoint: ``best`` (by validation score) or ``last``.

    Raises:
        ConfigError: the folder is none of `bbrgym train`, lacks the checkpoint, or names a trainer outside bbrgym that
            the user has not trusted (see `bbrgym.targets`).
        MissingExtraError: a package that the trainer needs is not installed.

    Example:
        >>> import bbrgym, gymnasium, numpy
        >>> agent, arguments = bbrgym.load_agent("runs/grid")
        >>> policy = agent.make_policy([1])  # for one environment
        >>> envs = gymnasium.make_vec("bbrgym/Tune-v2", num_envs=1, world="twin", **arguments)
        >>> observations, infos = envs.reset(seed=1)
        >>> policy.act(observations, numpy.array([True])).shape  # [environments, tunables]
        (1, 1)
        >>> envs.close()
    """
    folder = TrainingFolder(Path(run_dir))
    settings = folder.read_request(parse_training)
    agent = trainer_of(settings, is_trusted=False).load(folder, settings, checkpoint)
    return agent, settings.env_arguments() | {"critic": False}
