# SPDX-License-Identifier: GPL-2.0-only
"""What is learned from where flows come and go: every step of every flow, and nothing else."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from plain_envs import PLAIN
from vectors import coming_and_going

pytest.importorskip("stable_baselines3", reason="what is tested is made for it")

from bbrgym.agents.flow_buffers import FlowReplayBuffer, FlowRolloutBuffer
from bbrgym.envs.flow_vec_env import FlowVecEnv
from bbrgym.errors import TrainingError

GAMMA, GAE_LAMBDA = 0.9, 0.8


@pytest.fixture
def envs() -> Iterator[FlowVecEnv]:
    scenarios = [coming_and_going(1.0), "steady", coming_and_going(0.7)]
    made = FlowVecEnv(3, **{**PLAIN, "scenario": scenarios, "world": "twin", "tunables": ["bbr_up_gain"]})
    made.seed(1)
    yield made
    made.close()


def value(observations: Any) -> Any:
    """Of states, for want of a critic."""
    return np.asarray(observations, np.float32).sum(axis=-1)


class Episodes:
    """The steps of each flow's stay, put together by what the environment says in `infos`."""

    def __init__(self, envs: FlowVecEnv) -> None:
        self.done: list[list[dict[str, Any]]] = []
        self._open: list[list[dict[str, Any]]] = [[] for _ in range(envs.num_envs)]

    def add(self, observations: Any, actions: Any, rewards: Any, next_observations: Any, infos: Any) -> None:
        for row, info in enumerate(infos):
            if info["absent"]:
                assert not self._open[row]
                continue
            is_last = info["TimeLimit.truncated"]
            self._open[row].append(
                {
                    "seen": observations[row],
                    "action": actions[row],
                    "reward": rewards[row],
                    "next": info["terminal_observation"] if is_last else next_observations[row],
                    "is_last": is_last,
                }
            )
            if is_last:
                self.done.append(self._open[row])
                self._open[row] = []

    def all(self) -> list[list[dict[str, Any]]]:
        return [*self.done, *filter(None, self._open)]


def advantages(episode: list[dict[str, Any]]) -> list[float]:
    """By the definition: sums of surprises, each step of the way counting less."""
    surprises = [step["reward"] + GAMMA * value(step["next"]) - value(step["seen"]) for step in episode]
    factors = (GAMMA * GAE_LAMBDA) ** np.arange(len(episode))
    return [float(factors[: len(episode) - at] @ np.array(surprises[at:])) for at in range(len(episode))]


def collected(envs: FlowVecEnv, buffer: FlowRolloutBuffer) -> Episodes:
    """A rollout as Stable-Baselines3's algorithms collect it."""
    episodes = Episodes(envs)
    observations, starts = envs.reset(), np.ones(envs.num_envs, np.bool_)
    for _ in range(buffer.buffer_size):
        actions = np.stack([envs.action_space.sample() for _ in range(envs.num_envs)])
        following, rewards, done, infos = envs.step(actions)
        episodes.add(observations, actions, rewards.copy(), following, infos)
        for row, info in enumerate(infos):
            if info["TimeLimit.truncated"]:
                rewards[row] += GAMMA * value(info["terminal_observation"])
        values = torch.from_numpy(value(observations))
        buffer.add(observations, actions, rewards, starts, values, torch.zeros(envs.num_envs))
        observations, starts = following, done
    buffer.compute_returns_and_advantage(torch.from_numpy(value(observations)), starts)
    return episodes


@pytest.mark.parametrize("steps", [1, 7, 25])
def test_a_rollout_gives_every_step_of_every_flow_once_an_epoch(steps: int, envs: FlowVecEnv) -> None:
    envs.action_space.seed(1)
    arguments = {"device": "cpu", "gamma": GAMMA, "gae_lambda": GAE_LAMBDA, "n_envs": envs.num_envs, "env": envs}
    buffer = FlowRolloutBuffer(steps, envs.observation_space, envs.action_space, **arguments)
    for _ in range(2):  # a buffer is used again
        buffer.reset()
        episodes = collected(envs, buffer).all()
        flows_steps = [
            (*step["seen"].tolist(), *step["action"].tolist(), gained)
            for episode in episodes
            for step, gained in zip(episode, advantages(episode), strict=True)
        ]
        assert len(flows_steps) < steps * envs.num_envs
        for _ in range(2):
            parts = list(buffer.get(5))
            sizes = {len(part.observations) for part in parts}
            assert max(sizes) <= 5
            assert max(sizes) - min(sizes) <= 1
            given = torch.cat(
                [torch.cat([part.observations, part.actions, part.advantages[:, None]], dim=1) for part in parts]
            )
            expected = np.array(flows_steps)
            ours, theirs = (rows[np.argsort(rows[:, -2])] for rows in (given.numpy(), expected))  # by action
            np.testing.assert_allclose(ours, theirs, atol=1e-4)
            for part in parts:
                np.testing.assert_allclose(part.returns, part.advantages + part.old_values, atol=1e-5)


def test_what_is_replayed_are_the_last_steps_of_flows(envs: FlowVecEnv) -> None:
    buffer = FlowReplayBuffer(30, envs.observation_space, envs.action_space, device="cpu", n_envs=7, env=envs)
    observations, steps = envs.reset(), []
    for _ in range(25):
        actions = np.stack([envs.action_space.sample() for _ in range(envs.num_envs)])
        following, rewards, done, infos = envs.step(actions)
        last = following.copy()
        for row in np.flatnonzero(done):
            last[row] = infos[row]["terminal_observation"]
        buffer.add(observations, last, actions, rewards, done, infos)
        rows = np.flatnonzero(~np.array([info["absent"] for info in infos]))
        steps += [(observations[row], last[row], actions[row], rewards[row]) for row in rows]
        observations = following
        kept = steps[-30:]
        assert buffer.size() == len(kept)
        places = np.arange(len(steps) - len(kept), len(steps)) % 30
        for ours, index in (("observations", 0), ("next_observations", 1), ("actions", 2), ("rewards", 3)):
            assert np.array_equal(getattr(buffer, ours)[places, 0], np.array([step[index] for step in kept]))
    assert len(steps) > 45
    drawn = buffer.sample(64)
    assert not drawn.dones.any()  # flows are cut off, they do not end
    assert (drawn.observations.numpy().any(axis=1)).all()


def test_nothing_to_learn_from_is_said(envs: FlowVecEnv) -> None:
    late = coming_and_going(1.0)
    late["flows"] = late["flows"][2:]
    envs = FlowVecEnv(1, **{**PLAIN, "scenario": late, "world": "twin"})
    rollout = FlowRolloutBuffer(3, envs.observation_space, envs.action_space, device="cpu", n_envs=1, env=envs)
    replay = FlowReplayBuffer(3, envs.observation_space, envs.action_space, device="cpu", env=envs)
    collected(envs, rollout)
    with pytest.raises(TrainingError, match=r"no tuned flow ran in 3 steps; a larger agent\.n_steps"):
        next(rollout.get(2))
    with pytest.raises(TrainingError, match=r"no tuned flow has run yet; a larger agent\.learning_starts"):
        replay.sample(2)
    envs.close()
