# SPDX-License-Identifier: GPL-2.0-only
"""Episodes of a trained agent as an offline data set in Minari's format."""

from __future__ import annotations

import math
import os
import shutil
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import count, islice
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec

from bbrgym.agents.base import Agent
from bbrgym.agents.loading import load_agent
from bbrgym.agents.rollout import flow_seed
from bbrgym.agents.training.folder import TrainingFolder
from bbrgym.agents.training.settings import parse_training
from bbrgym.envs.options import Options
from bbrgym.envs.tune_env import TuneEnv
from bbrgym.errors import ConfigError, MissingExtraError
from bbrgym.evaluate.bench.tasks import load_benchmark
from bbrgym.runs.provenance import provenance
from bbrgym.scenario.bounds import BOUNDS
from bbrgym.schema import is_number, shown

EXTRA = "offline"
_FOLDER = "MINARI_DATASETS_PATH"  # environment variable: Minari's folder
_ONE_FLOW = "bbrgym.envs.one_flow:OneFlowEnv"


def write_dataset(run_dir: Path, name: str, episodes: int) -> None:
    """Write episodes of training draws, in which a trained agent acts, to Minari's folder of data sets.

    The data set gets its place when it is whole, with its environment. An episode of an agent that acts for each flow
    by itself is that of one flow, in a `bbrgym.envs.one_flow.OneFlowEnv`.

    Args:
        run_dir: run folder of the agent.
        name: of the data set, as Minari has it: ``bbrgym/mine-v0``. One of this name must not exist.
        episodes: number of them.

    Raises:
        ConfigError: the folder holds no agent, or the name is none or taken.
        MissingExtraError: Minari, or a package that it needs, is not installed.
        WorldError: a simulation failed.
        OSError: Minari's folder cannot be written.
    """
    try:
        import h5py  # noqa: F401 - Minari imports it and Pillow only when it writes
        import minari
        import PIL  # noqa: F401
        from minari.data_collector import EpisodeBuffer
    except ModuleNotFoundError as error:
        raise MissingExtraError("bench dataset", EXTRA, error) from error
    path = _free_place(name)
    agent, arguments = load_agent(run_dir)
    arguments = {**arguments, "world": load_benchmark().world}
    env: Any = _flows(arguments) if agent.is_per_flow else TuneEnv(**arguments)
    of_seed = _of_flows if agent.is_per_flow else _of_all
    drawn = (one for seed in count() for one in of_seed(env, agent, seed))
    with closing(env):
        buffers = [EpisodeBuffer(id=number, **one) for number, one in enumerate(islice(drawn, episodes))]
    spec, about = _spec_of(arguments, TrainingFolder(run_dir), is_one_flow=agent.is_per_flow), provenance()
    with _apart(path, name), warnings.catch_warnings(action="ignore", category=UserWarning):  # of missing authors
        minari.create_dataset_from_buffers(
            name,
            buffers,
            env=spec,
            eval_env=spec,
            algorithm_name=agent.name,
            description=f"bbrgym {about['version']}, commit {about['commit']}, training draws from number 0 on",
        )


def _spec_of(arguments: dict[str, Any], folder: TrainingFolder, *, is_one_flow: bool) -> EnvSpec:
    """Return the specification of the episodes' environment, as JSON can have it; d3rlpy asks for a most of steps."""
    scenario = folder.read_request(parse_training).scenario
    duration_s = scenario.get("duration_s")
    step_s = arguments.get("control_interval_s", Options.control_interval_s)
    step_s *= arguments.get("hold_intervals", Options.hold_intervals)
    most = math.ceil((duration_s if is_number(duration_s) else BOUNDS["time_s"].high) / step_s)
    spec = EnvSpec("bbrgym/OneFlow-v0", _ONE_FLOW) if is_one_flow else gymnasium.spec("bbrgym/Tune-v2")
    return replace(spec, max_episode_steps=most, kwargs={**arguments, "scenario": scenario})


def _free_place(name: str) -> Path:
    """Return the folder of a data set that is to be made."""
    from minari.dataset.minari_dataset import parse_dataset_id
    from minari.storage import get_dataset_path

    try:
        parse_dataset_id(name)
    except (ValueError, TypeError) as error:  # TypeError: it has no version
        raise ConfigError(f"output: is {shown(name)}, expected a name such as bbrgym/mine-v0") from error
    path: Path = get_dataset_path(name)
    if os.path.lexists(path):
        raise ConfigError(f"output: is {shown(name)}, which is there already in {str(path)!r}; expected a new name")
    return path


@contextmanager
def _apart(path: Path, name: str) -> Iterator[None]:
    """Let Minari write a data set into a hidden folder of its own, out of which it gets its place if all went well.

    What killed processes left is removed.
    """
    from minari.dataset.minari_dataset import parse_dataset_id
    from minari.namespace import create_namespace, list_local_namespaces
    from minari.storage import get_dataset_path

    root, namespace, before = get_dataset_path(), parse_dataset_id(name)[0], os.environ.get(_FOLDER)
    for left in root.glob(".*.partial"):
        if not Path("/proc", left.stem[1:]).exists():
            shutil.rmtree(left)
    apart = root / f".{os.getpid()}.partial"
    try:
        os.environ[_FOLDER] = str(apart)
        try:
            yield
        finally:
            os.environ.pop(_FOLDER) if before is None else os.environ.update({_FOLDER: before})
        if namespace is not None and namespace not in list_local_namespaces():
            create_namespace(namespace)
        (apart / path.relative_to(root)).rename(path)
    finally:
        if apart.exists():
            shutil.rmtree(apart)


def _flows(arguments: dict[str, Any]) -> Any:
    from bbrgym.envs.multi import parallel_env  # with PettingZoo

    return parallel_env(**arguments)


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
