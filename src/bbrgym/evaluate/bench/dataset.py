# SPDX-License-Identifier: GPL-2.0-only
"""Episodes of a trained agent as an offline data set in Minari's format."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from bbrgym.agents.base import Agent
from bbrgym.agents.loading import load_agent
from bbrgym.agents.rollout import flow_seed
from bbrgym.envs.tune_env import TuneEnv
from bbrgym.errors import MissingExtraError
from bbrgym.evaluate.bench.tasks import load_benchmark
from bbrgym.runs.provenance import provenance

EXTRA = "offline"


def write_dataset(run_dir: Path, name: str, episodes: int) -> None:
    """Write episodes of training draws, in which a trained agent acts, to Minari's folder of data sets.

    An episode of an agent that acts for each flow by itself is that of one flow.

    Args:
        run_dir: run folder of the agent.
        name: of the data set, as Minari has it: ``bbrgym/mine-v0``. One of this name must not exist.
        episodes: number of them.

    Raises:
        ConfigError: the folder holds no agent.
        MissingExtraError: Minari is not installed.
        WorldError: a simulation failed.
    """
    try:
        import minari
        from minari.data_collector import EpisodeBuffer
    except ModuleNotFoundError as error:
        raise MissingExtraError("bench dataset", EXTRA, error) from error
    agent, arguments = load_agent(run_dir)
    arguments = {**arguments, "world": load_benchmark().world}
    env: Any = _flows(arguments) if agent.is_per_flow else TuneEnv(**arguments)
    of_seed = _of_flows if agent.is_per_flow else _of_all
    drawn = (one for seed in count() for one in of_seed(env, agent, seed))
    buffers = [EpisodeBuffer(id=number, **one) for number, one in enumerate(islice(drawn, episodes))]
    spaces = _spaces(env)
    env.close()
    about = provenance()
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # of authors that are not named
        minari.create_dataset_from_buffers(
            name,
            buffers,
            observation_space=spaces[0],
            action_space=spaces[1],
            algorithm_name=agent.name,
            description=f"bbrgym {about['version']}, commit {about['commit']}, training draws from number 0 on",
        )


def _flows(arguments: dict[str, Any]) -> Any:
    from bbrgym.envs.multi import parallel_env  # with PettingZoo

    return parallel_env(**arguments)


def _spaces(env: Any) -> tuple[gymnasium.Space[Any], gymnasium.Space[Any]]:
    """Return the spaces of observations and actions, of each flow if flows act by themselves."""
    if hasattr(env, "possible_agents"):
        return env.observation_space(env.possible_agents[0]), env.action_space(env.possible_agents[0])
    return env.observation_space, env.action_space


def _of_all(env: Any, agent: Agent, seed: int) -> Iterator[dict[str, Any]]:
    """Yield the episode of a seed."""
    policy, track = agent.make_policy([seed]), _Track(seed, env.reset(seed=seed)[0])
    while not track.has_ended:
        action = policy.act(track.observations[-1][None], np.array([len(track.actions) == 0]))[0]
        observation, reward, _, truncated, _ = env.step(action)
        track.add(action, observation, reward, truncated)
    yield track.arrays()


def _of_flows(env: Any, agent: Agent, seed: int) -> Iterator[dict[str, Any]]:
    """Yield the episode of each flow of a seed, in the order of their ends."""
    observations, _ = env.reset(seed=seed)
    tracks: dict[str, _Track] = {}
    policies: dict[str, Any] = {}
    while env.agents:
        for flow in env.agents:
            if flow not in tracks:
                tracks[flow] = _Track(seed, observations[flow])
                policies[flow] = agent.make_policy([flow_seed(seed, env.possible_agents.index(flow))])
        actions = {
            flow: policies[flow].act(tracks[flow].observations[-1][None], np.array([not tracks[flow].actions]))[0]
            for flow in env.agents
        }
        observations, rewards, _, truncations, _ = env.step(actions)
        for flow, action in actions.items():
            tracks[flow].add(action, observations[flow], rewards[flow], truncations[flow])
            if truncations[flow]:
                yield tracks[flow].arrays()


class _Track:
    """An episode so far."""

    def __init__(self, seed: int, observation: Any) -> None:
        self.observations = [observation]
        self.actions: list[Any] = []
        self._seed = seed
        self._rewards: list[float] = []
        self.has_ended = False

    def add(self, action: Any, observation: Any, reward: float, has_ended: bool) -> None:
        """Add a step."""
        self.actions.append(action)
        self.observations.append(observation)
        self._rewards.append(float(reward))
        self.has_ended = has_ended

    def arrays(self) -> dict[str, Any]:
        """Return the fields of Minari's buffer of an episode; it is truncated at its end."""
        steps = len(self.actions)
        return {
            "seed": self._seed,
            "observations": np.stack(self.observations),
            "actions": np.stack(self.actions),
            "rewards": np.array(self._rewards),
            "terminations": np.zeros(steps, np.bool_),
            "truncations": np.arange(1, steps + 1) == steps,
        }
