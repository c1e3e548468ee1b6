# SPDX-License-Identifier: GPL-2.0-only
"""The plain PyTorch agent: its formulas against other ways to compute them, and that it learns."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny import LEARNABLE, curve, run
from torch import Tensor, nn

from bbrgym.agents.network_agents import alone
from bbrgym.agents.torch_ppo import ActorCritic, Samples, TorchPpo, advantages, improve

pytestmark = pytest.mark.usefixtures("undrawn_file")


def random(*shape: int, seed: int = 0) -> Any:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def model_of(tunables: int = 3, width: int = 5) -> ActorCritic:
    torch.manual_seed(1)
    return ActorCritic(width, width, np.linspace(-0.5, 0.5, tunables, dtype=np.float32), (8,), 0.3)


# ---- formulas -----------------------------------------------------------------------------------------


@given(st.integers(1, 12), st.floats(0, 1), st.floats(0, 1), st.integers(0, 1000))
def test_advantages_are_sums_of_discounted_surprises_up_to_a_run_s_end(
    steps: int, gamma: float, gae_lambda: float, seed: int
) -> None:
    rewards, values = random(steps, 1, seed=seed), random(steps + 1, 1, seed=seed + 1)
    goes_on = (random(steps, 1, seed=seed + 2) < 1.0).double()
    found = advantages(rewards, values, goes_on, gamma, gae_lambda)
    surprises = rewards + gamma * goes_on * values[1:] - values[:-1]
    for t in range(steps):
        expected, weight = 0.0, 1.0
        for later in range(t, steps):
            expected += weight * surprises[later].item()
            weight *= gamma * gae_lambda * goes_on[later].item()
        assert found[t].item() == pytest.approx(expected, abs=1e-9)


def test_probabilities_are_those_of_a_normal_distribution() -> None:
    model, seen, actions = model_of(), random(7, 5).float(), random(7, 3, seed=1).float()
    normal = torch.distributions.Normal(model.mean(seen), model.log_std.exp())
    torch.testing.assert_close(model.log_probability(seen, actions), normal.log_prob(actions).sum(-1))
    torch.testing.assert_close(model.entropy().expand(7), normal.entropy().sum(-1))


def test_what_did_better_than_expected_becomes_more_likely() -> None:
    model = model_of()
    seen, actions = random(64, 5).float(), random(64, 3, seed=1).float()
    before = model.log_probability(seen, actions).detach()
    gains = torch.where(actions[:, 0] > 0, 1.0, -1.0)
    rollout = Samples(seen, actions, before, gains, torch.zeros(64))
    hyperparameters = TorchPpo(batch_size=16, n_epochs=5, learning_rate=1e-3)
    optimizer = torch.optim.Adam(model.parameters(), hyperparameters.learning_rate)
    measured = improve(model, optimizer, rollout, hyperparameters, torch.Generator().manual_seed(1))
    moved = (model.log_probability(seen, actions) - before).detach()
    assert moved[gains > 0].mean() > 0.0 > moved[gains < 0].mean()
    assert measured["train/approx_kl"] > 0.0


def test_an_equal_ratio_of_probabilities_leaves_the_mean_advantage_as_loss() -> None:
    """The first minibatch of a rollout: nothing is clipped, and normalised advantages have mean 0."""
    model = model_of()
    seen, actions = random(32, 5).float(), random(32, 3, seed=1).float()
    rollout = Samples(seen, actions, model.log_probability(seen, actions).detach(), random(32).float(), torch.zeros(32))
    hyperparameters = TorchPpo(batch_size=32, n_epochs=1)
    optimizer = torch.optim.SGD(model.parameters(), 0.0)
    measured = improve(model, optimizer, rollout, hyperparameters, torch.Generator())
    assert measured["train/policy_loss"] == pytest.approx(0.0, abs=1e-6)
    assert (measured["train/clip_fraction"], measured["train/approx_kl"]) == (0.0, pytest.approx(0.0, abs=1e-6))


# ---- trainings ----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("critic", [False, True])
def test_learning_raises_the_score(critic: bool, tmp_path: Path) -> None:
    agent = {"name": "torch_ppo", "n_steps": 12, "batch_size": 96, "learning_rate": 3e-3}
    run(tmp_path / "run", agent, **{**LEARNABLE, "env": {**LEARNABLE["env"], "critic": critic}})
    scores = curve(tmp_path / "run").drop_nulls("validation/score")["validation/score"]
    assert scores[-1] > scores[0] + 0.1


# ---- other agents that act by a network ---------------------------------------------------------------


class Watched(nn.Module):
    """Notes how many networks compute at once, and in how many threads."""

    def __init__(self) -> None:
        super().__init__()
        self.computing, self.most, self.threads = 0, 0, set[int]()

    def forward(self, observation: Tensor) -> Tensor:
        self.computing += 1
        self.most = max(self.most, self.computing)
        for _ in range(100):  # lets others run
            self.threads.add(torch.get_num_threads())
            threading.Event().wait(1e-5)
        self.computing -= 1
        return observation + 1.0


def test_networks_of_runs_side_by_side_compute_one_after_the_other_each_in_one_thread() -> None:
    before = torch.get_num_threads()
    network = Watched()
    inputs = [np.full((1, 2), number, np.float32) for number in range(8)]
    try:
        torch.set_num_threads(2)
        with ThreadPoolExecutor(4) as pool:
            outputs = list(pool.map(lambda one: alone(network, one)[0], inputs))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert [output.tolist() for output in outputs] == [(one + 1.0).tolist() for one in inputs]
    assert (network.most, network.threads) == (1, {1})
