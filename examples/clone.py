# SPDX-License-Identifier: GPL-2.0-only
"""Behaviour cloning in plain PyTorch, from a data set of a shipped agent's episodes.

usage: pip install '.[offline,train]'; bbrgym bench dataset shipped/flow episodes=200 output=bbrgym/flow-v0
       python examples/clone.py bbrgym/flow-v0 [--draws 64] [--updates 1000]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import minari
import numpy as np
import torch

from bbrgym.agents.base import Agent
from bbrgym.agents.rollout import make_rollout
from bbrgym.evaluate.agent_option import SHIPPED, trained
from bbrgym.evaluate.statistics import Scores
from bbrgym.scenario.distribution import load_distribution, split_seeds

TEACHER = trained(SHIPPED["shipped/flow"])
SCENARIO = "rtt_pairs"  # where random actions are clearly worse than the teacher's: on wan_mix they hardly are


class RandomAgent:
    """Acts anywhere in the ranges."""

    name, is_per_flow = "random", True

    def __init__(self, tunables: int) -> None:
        self._tunables = tunables

    def make_policy(self, seeds: Sequence[int]) -> RandomAgent:
        self._generator = np.random.default_rng(seeds)
        return self

    def act(self, observations: Any, episode_starts: Any) -> Any:  # noqa: ARG002 - they do not matter
        return self._generator.uniform(-1.0, 1.0, (len(observations), self._tunables)).astype(np.float32)


class ClonedAgent:
    """Acts as a network says that was fitted to the teacher's actions by least squares.

    It sees the features alone: with the current tunables, the last numbers of an observation, it would learn to keep
    them.
    """

    name, is_per_flow = "cloned", True

    def __init__(self, observations: Any, actions: Any, updates: int) -> None:
        torch.manual_seed(1)
        tunables = actions.shape[1]
        self._features = observations.shape[1] - tunables
        self._network = torch.nn.Sequential(
            torch.nn.Linear(self._features, 64), torch.nn.Tanh(), torch.nn.Linear(64, tunables)
        )
        inputs, targets = torch.as_tensor(observations[:, : self._features]), torch.as_tensor(actions)
        optimizer = torch.optim.Adam(self._network.parameters(), lr=1e-2)
        for _ in range(updates):
            loss = torch.nn.functional.mse_loss(self._network(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        self.loss = loss.item()

    def make_policy(self, seeds: Sequence[int]) -> ClonedAgent:  # noqa: ARG002 - it draws nothing
        return self

    @torch.no_grad()
    def act(self, observations: Any, episode_starts: Any) -> Any:  # noqa: ARG002 - it remembers nothing
        return self._network(torch.as_tensor(observations[:, : self._features])).clamp(-1.0, 1.0).numpy()


def scores_of(agent: Agent, draws: int) -> list[float]:
    """Return the scores of an agent on test draws."""
    seeds = split_seeds("test", draws)
    scenarios = [load_distribution(SCENARIO)(seed) for seed in seeds]
    rollout = make_rollout(replace(TEACHER, controller=agent).options(scenario=scenarios, world="twin"), seeds)
    try:
        return rollout.scores(agent.make_policy).tolist()
    finally:
        rollout.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("dataset")
    parser.add_argument("--draws", type=int, default=64, help="of the test split, on which agents are scored")
    parser.add_argument("--updates", type=int, default=1000, help="of the network, each on all steps")
    options = parser.parse_args()

    episodes = list(minari.load_dataset(options.dataset).iterate_episodes())
    observations = np.concatenate([one.observations[:-1] for one in episodes])
    actions = np.concatenate([one.actions for one in episodes])
    cloned = ClonedAgent(observations, actions, options.updates)
    print(f"{len(episodes)} episodes, {len(actions)} steps; mean squared distance {cloned.loss:.4f}")
    agents: list[Agent] = [RandomAgent(actions.shape[1]), cloned, TEACHER.controller]
    scores = Scores({one.name: scores_of(one, options.draws) for one in agents})
    for one in agents:
        print(f"{one.name}: score {scores.mean(one.name).text(3)}")
    for one in (agents[0], agents[2]):
        print(f"cloned - {one.name}: {scores.difference('cloned', one.name).text(3)}")


if __name__ == "__main__":
    main()
