# SPDX-License-Identifier: GPL-2.0-only
"""A data set of episodes, loaded by Minari, of which a policy learns to act as its teacher."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bbrgym.agents.rollout import make_rollout
from bbrgym.cli.main import main
from bbrgym.evaluate.agent_option import SHIPPED, trained
from bbrgym.scenario.distribution import load_distribution, split_seeds

minari = pytest.importorskip("minari", reason="the data set is in its format")
torch = pytest.importorskip("torch", reason="the policy is of PyTorch")

EPISODES, TEST_DRAWS = 60, 24


class Random:
    """Acts anywhere in the ranges."""

    name, is_per_flow = "random", True

    def make_policy(self, seeds: Any) -> "Random":
        self._generator = np.random.default_rng(seeds)
        return self

    def act(self, observations: Any, episode_starts: Any) -> Any:
        return self._generator.uniform(-1.0, 1.0, (len(observations), 33)).astype(np.float32)


class Cloned:
    """Acts by a network that was fitted to the teacher's actions."""

    name, is_per_flow = "cloned", True

    def __init__(self, episodes: Any) -> None:
        torch.manual_seed(1)
        observations = torch.as_tensor(np.concatenate([one.observations[:-1] for one in episodes]))
        actions = torch.as_tensor(np.concatenate([one.actions for one in episodes]))
        self._mean, self._deviation = observations.mean(0), observations.std(0) + 1e-3
        inputs = (observations - self._mean) / self._deviation
        layers = [torch.nn.Linear(observations.shape[1], 64), torch.nn.Tanh(), torch.nn.Linear(64, actions.shape[1])]
        self._network = torch.nn.Sequential(*layers)
        optimizer = torch.optim.Adam(self._network.parameters(), lr=1e-2)
        for _ in range(300):
            loss = (self._network(inputs) - actions).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    def make_policy(self, seeds: Any) -> "Cloned":
        return self

    @torch.no_grad()
    def act(self, observations: Any, episode_starts: Any) -> Any:
        inputs = (torch.as_tensor(observations) - self._mean) / self._deviation
        return self._network(inputs).clamp(-1.0, 1.0).numpy()


def score(teacher: Any, agent: Any) -> float:
    seeds = split_seeds("test", TEST_DRAWS)
    scenarios = [load_distribution("wan_mix")(seed) for seed in seeds]
    rollout = make_rollout(replace(teacher, controller=agent).options(scenario=scenarios, world="twin"), seeds)
    try:
        return float(rollout.scores(agent.make_policy).mean())
    finally:
        rollout.close()


def test_a_policy_cloned_from_a_data_set_is_between_random_and_its_teacher(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    command = ["bench", "dataset", "shipped/flow", "--episodes", str(EPISODES), "--output", "bbrgym/flow-v0"]
    assert main(command) == 0
    dataset = minari.load_dataset("bbrgym/flow-v0")
    episodes = list(dataset.iterate_episodes())
    assert dataset.total_episodes == len(episodes) == EPISODES
    assert all(len(one.observations) == len(one.actions) + 1 for one in episodes)
    assert all(one.truncations[-1] and not one.terminations.any() for one in episodes)
    teacher = trained(SHIPPED["shipped/flow"])
    random, cloned, own = (score(teacher, agent) for agent in (Random(), Cloned(episodes), teacher.controller))
    print(f"random {random:.3f}, cloned {cloned:.3f}, teacher {own:.3f}")
    assert random < cloned < own
