# SPDX-License-Identifier: GPL-2.0-only
"""Checkpoints as files of PyTorch that hold only tensors, numbers and text, so that loading one runs no code."""

from __future__ import annotations

import os
import pickle
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from bbrgym.agents.training.folder import TrainingFolder
from bbrgym.agents.training.loop import TrainingRun, state_of
from bbrgym.errors import ConfigError, one_line
from bbrgym.runs.checksum import add_checksum, check_checksum
from bbrgym.untrusted_files import MAX_TABLE_BYTES, FileError, opened

SUFFIX = ".pt"


def save_state(folder: TrainingFolder, checkpoint: str, about: Mapping[str, Any], state: Mapping[str, Any]) -> None:
    """Write a checkpoint: the training's description, and the trainer's state."""
    kept = {"about": dict(about), "state": dict(state)}
    folder.write_checkpoint(checkpoint + SUFFIX, lambda partial: _save(kept, partial))


def _save(kept: Mapping[str, Any], path: Path) -> None:
    try:
        with path.open("w+b") as file:
            torch.save(kept, file)
            add_checksum(file)
    except RuntimeError as error:  # PyTorch's, on closing a file that it could not write
        if isinstance(error.__context__, OSError):
            raise error.__context__ from error
        raise


def has_state(folder: TrainingFolder, checkpoint: str) -> bool:
    """Return whether there is such a checkpoint."""
    return os.path.lexists(folder.checkpoint(checkpoint + SUFFIX))


def restore_state(
    folder: TrainingFolder, checkpoint: str, restore: Callable[[Mapping[str, Any]], object]
) -> dict[str, Any]:
    """Read a checkpoint, and call ``restore`` with the trainer's state.

    Returns:
        What the training said about it, for `TrainingRun.resume`.

    Raises:
        ConfigError: there is no such checkpoint, it cannot be read, or it holds the state of something else.
    """
    path = folder.checkpoint(checkpoint + SUFFIX)
    try:
        with opened(path, MAX_TABLE_BYTES, below=folder.path) as file, warnings.catch_warnings(action="ignore"):
            check_checksum(file, path)
            kept: Any = torch.load(file, map_location="cpu", weights_only=True)
    except FileError as error:
        raise ConfigError(f"cannot read checkpoint {str(path)!r}: {error.reason}") from error
    except (pickle.UnpicklingError, EOFError, OSError, RuntimeError, ValueError, LookupError) as error:
        raise ConfigError(
            f"cannot read checkpoint {str(path)!r}: it is damaged, or holds more than tensors, numbers and text, which "
            f"could run code"
        ) from error
    try:
        restore(kept["state"])
        return vars(state_of(kept["about"]))
    except (LookupError, TypeError, AttributeError, ValueError, RuntimeError) as error:
        raise ConfigError(
            f"checkpoint {str(path)!r} holds something else than config.yaml says: {_reason(error)}"
        ) from error


def finite_or_refuse(module: nn.Module, run: TrainingRun, step: int) -> None:
    """Raise TrainingError if a weight of a network is NaN or infinite."""
    for name, parameter in module.named_parameters():
        if not bool(torch.isfinite(parameter).all()):
            raise run.broken(f"a weight of {name}", step)


def _reason(error: BaseException) -> str:
    return one_line(error)[:300] or type(error).__name__
