# SPDX-License-Identifier: GPL-2.0-only
"""A data set of episodes, loaded by Minari, of which a policy learns to act as its teacher."""

import re
import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from repository import ROOT

from bbrgym.agents.rollout import make_rollout
from bbrgym.agents.shipped import SHIPPED
from bbrgym.cli.main import main
from bbrgym.evaluate.agent_option import trained
from bbrgym.evaluate.statistics import Scores
from bbrgym.scenario.distribution import load_distribution, split_seeds
from bbrgym.worlds.score import Objective

minari = pytest.importorskip("minari", reason="the data set is in its format")
torch = pytest.importorskip("torch", reason="the policy is of PyTorch")

EPISODES, TEST_DRAWS = 40, 16
TUNABLES = 33


class Random:
    """Acts anywhere in the ranges."""

    name, is_per_flow = "random", True

    def make_policy(self, seeds: Any) -> "Random":
        self._generator = np.random.default_rng(seeds)
        return self

    def act(self, observations: Any, episode_starts: Any) -> Any:
        return self._generator.uniform(-1.0, 1.0, (len(observations), TUNABLES)).astype(np.float32)


class Cloned:
    """Takes the one of the teacher's settings that a network, fitted to its choices, finds likeliest.

    It sees the features alone: with the current tunables it would learn to keep them.
    """

    name, is_per_flow = "cloned", True

    def __init__(self, episodes: Any) -> None:
        torch.manual_seed(1)
        observations = torch.as_tensor(np.concatenate([one.observations[:-1, :-TUNABLES] for one in episodes]))
        actions = np.concatenate([one.actions for one in episodes])
        self._settings, chosen = np.unique(actions, axis=0, return_inverse=True)
        width = observations.shape[1]
        layers = [torch.nn.Linear(width, 64), torch.nn.Tanh(), torch.nn.Linear(64, len(self._settings))]
        self._network = torch.nn.Sequential(*layers)
        optimizer = torch.optim.Adam(self._network.parameters(), lr=1e-2)
        for _ in range(200):
            loss = torch.nn.functional.cross_entropy(self._network(observations), torch.as_tensor(chosen.ravel()))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    def make_policy(self, seeds: Any) -> "Cloned":
        return self

    @torch.no_grad()
    def act(self, observations: Any, episode_starts: Any) -> Any:
        return self._settings[self._network(torch.as_tensor(observations[:, :-TUNABLES])).argmax(-1).numpy()]


def scores_of(teacher: Any, agent: Any) -> list[float]:
    """Return the scores on draws where acting at random is clearly worse than the teacher: on wan_mix it hardly is."""
    seeds = split_seeds("test", TEST_DRAWS)
    scenarios = [load_distribution("rtt_pairs")(seed) for seed in seeds]
    rollout = make_rollout(replace(teacher, controller=agent).options(scenario=scenarios, world="twin"), seeds)
    try:
        return rollout.scores(agent.make_policy, Objective())[0].tolist()
    finally:
        rollout.close()


def test_a_policy_cloned_from_a_data_set_is_between_random_and_its_teacher(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    command = ["bench", "dataset", "shipped/flow", f"episodes={EPISODES}", "output=bbrgym/flow-v0"]
    assert main(command) == 0
    dataset = minari.load_dataset("bbrgym/flow-v0")
    episodes = list(dataset.iterate_episodes())
    assert dataset.total_episodes == len(episodes) == EPISODES
    assert all(len(one.observations) == len(one.actions) + 1 for one in episodes)
    assert all(one.truncations[-1] and not one.terminations.any() for one in episodes)
    for is_for_evaluation in (False, True):
        env = dataset.recover_environment(eval_env=is_for_evaluation)
        assert (env.observation_space, env.action_space) == (dataset.observation_space, dataset.action_space)
        observation, _ = env.reset(seed=0)
        assert any(np.array_equal(observation, one.observations[0]) for one in episodes[:3])  # flows of seed 0
        ends = [env.step(env.action_space.sample())[3] for _ in range(len(episodes[0]))]
        assert ends == [False] * (len(ends) - 1) + [True]
        env.close()
    assert main(command) == 2  # there is one
    teacher = trained(SHIPPED["shipped/flow"])
    agents = {"random": Random(), "cloned": Cloned(episodes), "teacher": teacher.controller}
    scores = Scores({name: scores_of(teacher, agent) for name, agent in agents.items()})
    print(*(f"{name} {scores.mean(name).text(3)}" for name in agents))
    assert scores.difference("cloned", "random").low > 0.0
    assert scores.difference("cloned", "teacher").low <= 0.0  # not above it beyond chance
    example = [sys.executable, str(ROOT / "examples" / "clone.py"), "bbrgym/flow-v0", "--draws", "2", "--updates", "5"]
    done = subprocess.run(example, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert re.findall(r"^([\w-]+): score", done.stdout, re.MULTILINE) == ["random", "cloned", "portfolio-multi"]


def test_a_wrong_name_is_one_sentence_before_anything_runs_and_a_full_disk_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    for name in ("mine", "../mine-v0", "a//b-v0/", ""):
        assert main(["bench", "dataset", "no/agent", f"output={name}"]) == 2
        assert capsys.readouterr().err == f"bbrgym: output: is {name!r}, expected a name such as bbrgym/mine-v0\n"
    (tmp_path / ".999999999.partial" / "data").mkdir(parents=True)  # of a process that was killed
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
    try:
        assert main(["bench", "dataset", "shipped/wan", "episodes=1", "output=mine/a-v0"]) == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert capsys.readouterr().err.count("\n") == 1
    assert not list(tmp_path.iterdir())
