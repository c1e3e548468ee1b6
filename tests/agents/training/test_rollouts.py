# SPDX-License-Identifier: GPL-2.0-only
"""Environments in a Ray cluster of two nodes on this machine."""

import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ray", reason="NO RAY: rollouts=ray is not tested here; pip install '.[ray]'")

from ray.cluster_utils import Cluster
from small_portfolio import files, small
from tiny import SCENARIO, run, weights
from vectors import assert_same
from waiting import wait_until

from bbrgym.agents.ray_session import ray_session
from bbrgym.agents.training.vec_env import RayRollouts
from bbrgym.envs.ray_vec_env import RayVecEnv
from bbrgym.envs.tune_vec_env import TuneVecEnv
from bbrgym.errors import ConfigError, TrainingError
from bbrgym.runs.atomic_files import write_text

pytestmark = pytest.mark.usefixtures("undrawn_file")

N = 5
ARGUMENTS: dict[str, Any] = {"scenario": SCENARIO, "variant": "bbq", "world": "twin", "control_interval_s": 0.5}


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """Its address. Two nodes of two CPUs each, so that a training has room beside `far`."""
    node = {"num_cpus": 2, "object_store_memory": 80 * 2**20, "include_dashboard": False}
    # A folder of its own, short because of the sockets in it: that of another user's cluster cannot be written to.
    with pytest.MonkeyPatch.context() as environment, tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp") as folder:
        environment.setenv("RAY_TMPDIR", folder)
        environment.setenv("RAY_USAGE_STATS_ENABLED", "0")
        environment.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))  # nodes import what we import
        two = Cluster(initialize_head=True, head_node_args=node)
        try:
            two.add_node(**{**node, "include_dashboard": None})
            yield two.address
        finally:
            two.shutdown()


@pytest.fixture(scope="module")
def connected(cluster: str) -> Iterator[Any]:
    with ray_session(cluster, "the test") as module:
        yield module


def made(connected: Any, **settings: Any) -> RayVecEnv:
    how = {"num_envs": N, "actors": 2, "cpus": 1, "start_timeout_s": 120, "timeout_s": 120, **settings}
    return RayVecEnv(connected, ARGUMENTS, **how)


@pytest.fixture(scope="module")
def far(connected: Any) -> Iterator[RayVecEnv]:
    """Two actors, whose start takes longer than what they do here; the last test that needs them kills one."""
    env = made(connected)
    yield env
    if connected.is_initialized():  # else the last test has ended the session, and its actors with it
        env.close()


def ray_rollouts(cluster: str, **others: Any) -> dict[str, Any]:
    return {"name": "ray", "address": cluster, "start_timeout_s": 120.0, "timeout_s": 300.0, **others}


def test_rows_equal_those_of_local_environments(far: RayVecEnv) -> None:
    near = TuneVecEnv(**ARGUMENTS, num_envs=N)
    try:
        assert len({node for node, _ in far.places()}) == 2  # on both nodes
        assert (far.observation_space, far.action_space) == (near.observation_space, near.action_space)
        generator, ends = np.random.default_rng(1), 0
        for env in (far, near):
            env.seed(7)
        assert_same(far.reset(), near.reset())
        assert_same(far.reset_infos, near.reset_infos)
        for _ in range(11):
            actions = generator.uniform(-1, 1, (N, *near.action_space.shape)).astype(np.float32)
            one, two = far.step(actions), near.step(actions)
            assert_same(one, two)
            assert_same(far.reset_infos, near.reset_infos)
            ends += int(two[2].sum())
        assert ends == 2 * N
        assert_same(far.get_attr("default_action"), near.get_attr("default_action"))
        assert far.get_attr("scenario", [4, 0]) == near.get_attr("scenario", [4, 0])
        far.set_attr("mine", 3, [1, 4])
        assert far.get_attr("mine", [4, 1]) == [3, 3]
        assert_same(far.env_method("info", indices=[2, 4]), near.env_method("info", indices=[2, 4]))
    finally:
        near.close()


def test_what_an_actor_raises_is_raised_here(far: RayVecEnv) -> None:
    far.set_options([{"scenario": "nowhere"}] * N)
    with pytest.raises(ConfigError, match="nowhere"):
        far.reset()


def test_an_actor_s_death_is_a_clear_error(far: RayVecEnv) -> None:
    far.set_options()
    far.seed(1)
    far.reset()
    actions = np.zeros((N, *far.action_space.shape), np.float32)
    far.step(actions)
    _, pid = far.places()[1]
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(TrainingError, match="rollouts: an actor of Ray's died during step"):
        far.step(actions)
    far.close()  # the other one too


def test_a_cluster_that_is_too_small_is_a_clear_error(connected: Any) -> None:
    """No node has three CPUs."""
    with pytest.raises(TrainingError, match=r"start of 2 actors took longer than 2 s; the Ray cluster has 4 CPUs"):
        made(connected, cpus=3, start_timeout_s=2)


def test_a_training_equals_a_local_one(cluster: str, connected: Any, tmp_path: Path) -> None:
    local = run(tmp_path / "local", draws={"by_cost": True})
    far = run(tmp_path / "far", draws={"by_cost": True}, rollouts=ray_rollouts(cluster))
    assert weights(far) == weights(local)
    assert connected.is_initialized()  # whoever connected disconnects


@pytest.mark.slow
@pytest.mark.usefixtures("connected")
def test_a_portfolio_equals_a_local_one(cluster: str, tmp_path: Path) -> None:
    """Its searches are tasks, not environments in actors."""
    local = run(tmp_path / "local", **small())
    assert files(run(tmp_path / "far", **small(rollouts=ray_rollouts(cluster)))) == files(local)


@pytest.mark.usefixtures("connected")
def test_tasks_of_an_interrupted_search_end_in_a_cluster_that_goes_on(cluster: str, tmp_path: Path) -> None:
    rollouts = RayRollouts(**ray_rollouts(cluster))
    results = rollouts.results([short, partial(endless, tmp_path / "pid"), short], None)
    assert next(results) == (0, None)
    wait_until(lambda: (tmp_path / "pid").is_file(), timeout_s=120)
    pid = int((tmp_path / "pid").read_text())
    results.close()  # type: ignore[attr-defined]
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), timeout_s=60)


def short(threads: int | None) -> None:
    assert threads == 1


def endless(file: Path, threads: int | None) -> None:
    write_text(file, str(os.getpid()))
    signal.pause()


def test_one_s_own_cluster_is_shut_down_also_after_an_error(tmp_path: Path, connected: Any) -> None:
    connected.shutdown()  # the last test that needs it is above
    with pytest.raises(ConfigError, match="total_steps: is 4, expected at least 32"):
        run(tmp_path, total_steps=4, rollouts={"name": "ray", "actors": 1})
    assert not connected.is_initialized()
