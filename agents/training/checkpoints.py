# SPDX-License-Identifier: GPL-2.0-only
"""Checkpoints as files of PyTorch, in which nothing but tensors, numbers and texts is: loading one runs no code."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from bbrgym.agents.training.folder import TrainingFolder
from bbrgym.agents.training.loop import TrainingRun
from bbrgym.errors import ConfigError

SUFFIX = ".pt"


def save_state(folder: TrainingFolder, checkpoint: str, state: Mapping[str, Any]) -> None:
    """Writes a checkpoint."""
    folder.write_checkpoint(checkpoint + SUFFIX, lambda partial: torch.save(dict(state), partial))


def load_state(folder: TrainingFolder, checkpoint: str) -> dict[str, Any]:
    """Reads a checkpoint.

    Raises:
        ConfigError: there is none, or it cannot be read.
    """
    path = folder.checkpoint(checkpoint + SUFFIX)
    try:
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, pickle.UnpicklingError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"cannot read checkpoint {str(path)!r}: {reason}") from error
    return state


def has_state(folder: TrainingFolder, checkpoint: str) -> bool:
    """Whether there is such a checkpoint."""
    return folder.checkpoint(checkpoint + SUFFIX).exists()


def finite_or_refuse(module: nn.Module, run: TrainingRun, step: int) -> None:
    """Checks the weights.

    Raises:
        TrainingError: one is NaN or infinite.
    """
    for name, parameter in module.named_parameters():
        if not bool(torch.isfinite(parameter).all()):
            raise run.broken(f"a weight of {name}", step)


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """So many threads for what is computed within: sums in another number of parts round otherwise."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
