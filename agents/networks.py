# SPDX-License-Identifier: GPL-2.0-only
"""An agent's actions as a function of what it sees, with nothing else in it: what acts, and what is exported."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from gymnasium import spaces
from torch import Tensor, nn

_LEAST_VARIANCE = 1e-6  # as Stable-Baselines3 has it

Head = Callable[[Tensor], Tensor]
"""From a network's last numbers to actions."""


class Network(nn.Module):
    """[N, numbers] -> actions [N, tunables], or [N] if they are one number.

    Args:
        layers: from observations to the last numbers.
        head: from these to actions.
    """

    inputs = ("observations",)
    outputs = ("actions",)

    def __init__(self, layers: nn.Module, head: Head) -> None:
        super().__init__()
        self._layers = layers
        self._head = head

    def forward(self, observations: Tensor) -> Tensor:
        return self._head(self._layers(observations))

    def first_inputs(self, count: int, width: int) -> tuple[Tensor, ...]:
        """Inputs of the right shapes for so many environments and numbers."""
        return (torch.zeros(count, width),)


class SamplingNetwork(nn.Module):
    """Observations [N, numbers], noise [N, tunables] -> actions [N, tunables].

    Args:
        layers: from observations to the actions' means.
        std: their standard deviations, [tunables].
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
        """How many there are."""
        return self._std.shape[-1]

    def forward(self, observations: Tensor, noise: Tensor) -> Tensor:
        return clipped(self._layers(observations) + self._std * noise)

    def first_inputs(self, count: int, width: int) -> tuple[Tensor, ...]:
        """Inputs of the right shapes for so many environments and numbers."""
        return torch.zeros(count, width), torch.zeros(count, self.tunables)


class StateDependentNetwork(SamplingNetwork):
    """The same where it depends on what is seen how far the actions scatter (`use_sde` of Stable-Baselines3).

    Args:
        layers: from observations to what the rest sees of them.
        means: from that to the actions' means.
        std: what a number of that adds to the standard deviations, [numbers, tunables].
    """

    def __init__(self, layers: nn.Module, means: nn.Module, std: Tensor) -> None:
        super().__init__(layers, std)
        self._means = means

    def forward(self, observations: Tensor, noise: Tensor) -> Tensor:
        latent = self._layers(observations)
        std = (latent.square() @ self._std.square() + _LEAST_VARIANCE).sqrt()
        return clipped(self._means(latent) + std * noise)


class RecurrentNetwork(nn.Module):
    """Observations [N, numbers], whether runs have begun [N] (0 or 1), memory -> actions, memory.

    Memory is two arrays [layers, N, width], zeros or anything at a run's begin.

    Args:
        memory: as PyTorch has it, of which the weights are taken.
        layers: from its outputs to the last numbers.
        head: from these to actions.
    """

    inputs = ("observations", "begun", "hidden", "cell")
    outputs = ("actions", "next_hidden", "next_cell")

    def __init__(self, memory: nn.LSTM, layers: nn.Module, head: Head) -> None:
        super().__init__()
        self._cells = nn.ModuleList(_cell_of(memory, index) for index in range(memory.num_layers))
        self._width = memory.hidden_size
        self._layers = layers
        self._head = head

    def forward(
        self, observations: Tensor, begun: Tensor, hidden: Tensor, cell: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        kept = (1.0 - begun).unsqueeze(-1)
        latent, hiddens, cells = observations, [], []
        for index, layer in enumerate(self._cells):
            latent, remembered = layer(latent, hidden[index] * kept, cell[index] * kept)
            hiddens.append(latent)
            cells.append(remembered)
        return self._head(self._layers(latent)), torch.stack(hiddens), torch.stack(cells)

    def first_inputs(self, count: int, width: int) -> tuple[Tensor, ...]:
        """Inputs of the right shapes for so many environments and numbers, as a run begins."""
        shape = (len(self._cells), count, self._width)
        # Two tensors: one in both places would be taken for one input.
        return torch.zeros(count, width), torch.ones(count), torch.zeros(shape), torch.zeros(shape)


class _Cell(nn.Module):
    """A long short-term memory, written out: what exports it needs nothing to know of it."""

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
    """Of a network that gives means of continuous actions, or a number for how likely each discrete one is."""
    if isinstance(space, spaces.Box):
        return clipped
    if isinstance(space, spaces.MultiDiscrete):
        return _Levels(space.nvec.tolist())
    return largest


def clipped(means: Tensor) -> Tensor:
    """Within the range that actions have."""
    return means.clamp(-1.0, 1.0)


def largest(values: Tensor) -> Tensor:
    """The number of the largest: [N, numbers] -> [N]."""
    return values.argmax(-1)


class _Levels(nn.Module):
    """The most likely level of each tunable."""

    def __init__(self, counts: Sequence[int]) -> None:
        super().__init__()
        self._counts = list(counts)

    def forward(self, logits: Tensor) -> Tensor:
        parts = torch.split_with_sizes(logits, self._counts, dim=-1)
        return torch.stack([one.argmax(-1) for one in parts], dim=-1)
