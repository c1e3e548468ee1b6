# SPDX-License-Identifier: GPL-2.0-only
"""Policies as functions from observations to actions: what acts, and what is exported."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from gymnasium import spaces
from torch import Tensor, nn

Head = Callable[[Tensor], Tensor]
"""Function from the output of a network's last layer, [N, numbers], to actions, [N, ...]."""


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Compute in ``count`` threads within the context: another number rounds sums differently."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class Network(nn.Module):
    """Deterministic policy: observations [N, numbers] -> actions [N, tunables], or [N] if an action is one number."""

    inputs = ("observations",)
    outputs = ("actions",)

    def __init__(self, layers: nn.Module, head: Head) -> None:
        super().__init__()
        self.layers = layers
        self.head = head

    def forward(self, observations: Tensor) -> Tensor:
        return self.head(self.layers(observations))

    def first_inputs(self, count: int, width: int) -> tuple[Tensor, ...]:
        """Return zeros as inputs for ``count`` environments with observations of ``width`` numbers."""
        return (torch.zeros(count, width),)


class Sb3Network(Network):
    """Any Stable-Baselines3 policy as a network that returns the policy's likeliest action."""

    def forward(self, observations: Tensor) -> Tensor:
        policy: Any = self.layers
        return self.head(policy._predict(observations, deterministic=True))


class SamplingNetwork(nn.Module):
    """Gaussian policy: observations [N, numbers], standard normal noise [N, tunables] -> actions [N, tunables].

    The layers lead to the means of actions, whose standard deviations are [tunables].
    """

    inputs = ("observations", "noise")
    outputs = ("actions",)

    def __init__(self, layers: nn.Module, std: Tensor) -> None:
        super().__init__()
        self._layers = layers
        self._std: Tensor
        self.register_buffer("_std", std.detach().clone())

    @property
    def tunables(self) -> int:
        """Return the number of tunables."""
        return self._std.shape[-1]

    def forward(self, observations: Tensor, noise: Tensor) -> Tensor:
        return clipped(self._layers(observations) + self._std * noise)

    def first_inputs(self, count: int, width: int) -> tuple[Tensor, ...]:
        """Return zeros as inputs for ``count`` environments with observations of ``width`` numbers."""
        return torch.zeros(count, width), torch.zeros(count, self.tunables)


class RecurrentNetwork(nn.Module):
    """Recurrent policy: observations [N, numbers], episode_starts [N], memory -> actions, memory.

    Begun is 1 where an episode begins, else 0. Memory is two arrays [layers, N, width]; their values do not matter
    where an episode begins.
    """

    inputs = ("observations", "episode_starts", "hidden", "cell")
    outputs = ("actions", "next_hidden", "next_cell")

    def __init__(self, memory: nn.LSTM, layers: nn.Module, head: Head) -> None:
        super().__init__()
        self._cells = nn.ModuleList(_cell_of(memory, index) for index in range(memory.num_layers))
        self._width = memory.hidden_size
        self._layers = layers
        self._head = head

    def forward(
        self, observations: Tensor, episode_starts: Tensor, hidden: Tensor, cell: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        kept = (1.0 - episode_starts).unsqueeze(-1)
        latent, hiddens, cells = observations, [], []
        for index, layer in enumerate(self._cells):
            latent, remembered = layer(latent, hidden[index] * kept, cell[index] * kept)
            hiddens.append(latent)
            cells.append(remembered)
        return self._head(self._layers(latent)), torch.stack(hiddens), torch.stack(cells)

    def first_inputs(self, count: int, width: int) -> tuple[Tensor, ...]:
        """Return inputs at the beginning of ``count`` episodes with observations of ``width`` numbers."""
        shape = (len(self._cells), count, self._width)
        # Two tensors: an exporter would take the same one in both places for one input.
        return torch.zeros(count, width), torch.ones(count), torch.zeros(shape), torch.zeros(shape)


class _Cell(nn.Module):
    """LSTM cell written out in basic operations, which every exporter knows."""

    def __init__(self, from_input: nn.Linear, from_hidden: nn.Linear) -> None:
        super().__init__()
        self._from_input = from_input
        self._from_hidden = from_hidden

    def forward(self, latent: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        gates = self._from_input(latent) + self._from_hidden(hidden)
        let_in, keep, new, let_out = gates.chunk(4, dim=-1)
        remembered = keep.sigmoid() * cell + let_in.sigmoid() * new.tanh()
        return let_out.sigmoid() * remembered.tanh(), remembered


def _cell_of(memory: nn.LSTM, index: int) -> _Cell:
    linears = []
    for source in ("ih", "hh"):
        weight, bias = getattr(memory, f"weight_{source}_l{index}"), getattr(memory, f"bias_{source}_l{index}")
        linear = nn.Linear(weight.shape[1], weight.shape[0])
        linear.weight, linear.bias = weight, bias
        linears.append(linear)
    return _Cell(*linears)


# ---- heads --------------------------------------------------------------------------------------------


def head_of(space: spaces.Space[object]) -> Head:
    """Return the head for an action space: clip means of continuous actions, or take the likeliest discrete one."""
    if isinstance(space, spaces.Box):
        return clipped
    if isinstance(space, spaces.MultiDiscrete):
        return _Levels(space.nvec.tolist())
    return largest


def clipped(means: Tensor) -> Tensor:
    """Clip actions to their range, [-1, 1]."""
    return means.clamp(-1.0, 1.0)


def largest(values: Tensor) -> Tensor:
    """Return the index of the largest value: [N, numbers] -> [N]."""
    return values.argmax(-1)


class _Levels(nn.Module):
    """Takes the likeliest level of each tunable: [N, levels of all tunables] -> [N, tunables]."""

    def __init__(self, counts: Sequence[int]) -> None:
        super().__init__()
        self._counts = list(counts)

    def forward(self, logits: Tensor) -> Tensor:
        parts = torch.split_with_sizes(logits, self._counts, dim=-1)
        return torch.stack([one.argmax(-1) for one in parts], dim=-1)
