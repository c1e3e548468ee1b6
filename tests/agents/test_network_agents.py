# SPDX-License-Identifier: GPL-2.0-only
"""Agents that act by a network."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch import Tensor, nn

from bbrgym.agents.network_agents import alone


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
