# SPDX-License-Identifier: GPL-2.0-only
"""Loads models from files: ONNX, and the zip files of Stable-Baselines3."""

from __future__ import annotations

import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from bbrgym.agents.training.about import KEY
from bbrgym.errors import ConfigError, MissingExtraError

SUFFIXES = (".onnx", ".zip")
"""Of the files that `load_model` takes."""

_NOISE = "noise"  # input of a function that samples, see `bbrgym export`

#: What loading a file raises that is not such a model, or needs a class that is not there.
_BROKEN = (ValueError, KeyError, TypeError, AttributeError, ImportError, RuntimeError, pickle.UnpicklingError)


class OnnxModel:
    """A function in an ONNX file, from observations [N, numbers] to actions [N, ...].

    One that also takes ``noise`` [N, numbers], of which a sampling agent's actions are made, acts by its mean.

    Attributes:
        about: description that `bbrgym export` wrote, see `bbrgym.agents.training.about`. Default: empty.

    Raises:
        ConfigError: the file is none, or the function has other inputs than observations and noise.
        MissingExtraError: onnxruntime is not installed.
    """

    def __init__(self, path: Path) -> None:
        try:
            import onnxruntime
        except ModuleNotFoundError as error:
            raise MissingExtraError(f"agent {path}", "onnx", error) from error
        try:
            self._session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        except Exception as error:  # the runtime has no class of its own that it always raises
            raise ConfigError(f"agent: {str(path)!r} is no ONNX file that can be run: {error}") from error
        self._input, *others = [one.name for one in self._session.get_inputs()]
        if others not in ([], [_NOISE]):
            inputs = ", ".join([self._input, *others])
            raise ConfigError(
                f"agent: {str(path)!r} has the inputs {inputs}, expected observations, or {_NOISE} beside"
            )
        shape = self._session.get_inputs()[1].shape[1:] if others else ()
        width = (self._session.get_inputs()[0].shape or [None])[-1]  # a text where any number will do
        self._path, self._width = str(path), width if isinstance(width, int) else None
        self._others = {name: np.zeros((1, *shape), np.float32) for name in others}
        about = self._session.get_modelmeta().custom_metadata_map.get(KEY, "{}")
        self.about: dict[str, Any] = json.loads(about)

    def predict(self, observation: NDArray[np.float32]) -> NDArray[Any]:
        """Return the action for one observation.

        Raises:
            ConfigError: the function takes something else.
        """
        flat = np.asarray(observation, np.float32).reshape(1, -1)
        if self._width not in (None, flat.shape[1]):
            raise ConfigError(
                f"{self._path!r} acts on {self._width} numbers, expected {flat.shape[1]}, those of the environment "
                f"with its defaults"
            )
        actions: NDArray[Any] = np.asarray(self._session.run(None, {self._input: flat, **self._others})[0])
        action: NDArray[Any] = actions[0]
        return action


class Sb3Policy:
    """The policy in a zip file that a model of Stable-Baselines3 saved, whatever its algorithm.

    Loading it unpickles, which can run any code: only files that the user trusts.

    Attributes:
        about: description that `bbrgym train` wrote, see `bbrgym.agents.training.about`. Default: empty.

    Raises:
        ConfigError: the file is none of Stable-Baselines3's, or needs a class that cannot be imported.
        MissingExtraError: Stable-Baselines3 is not installed.
    """

    def __init__(self, path: Path) -> None:
        try:
            from stable_baselines3.common.save_util import load_from_zip_file
        except ModuleNotFoundError as error:
            raise MissingExtraError(f"agent {path}", "train", error) from error
        try:
            self._policy = _restored(*load_from_zip_file(path, device="cpu")[:2])
            self.about: dict[str, Any] = _about_in(path)
        except _BROKEN as error:
            raise ConfigError(
                f"agent: {str(path)!r} is no model of Stable-Baselines3 that can be loaded: {error}"
            ) from error
        self._policy.set_training_mode(False)
        self._path = path

    def predict(self, observation: Any) -> NDArray[Any]:
        """Return the action for one observation: the mean where the policy draws.

        Raises:
            ConfigError: the policy observes something else.
        """
        parts = self._policy.observation_space
        expected = parts["actor"] if isinstance(parts, spaces.Dict) and "actor" in parts.spaces else parts
        if observation.shape != expected.shape:
            raise ConfigError(
                f"{str(self._path)!r} acts on observations of shape {expected.shape}, expected {observation.shape}, "
                f"those of the environment with its defaults"
            )
        if isinstance(parts, spaces.Dict):  # the actor's action does not depend on what only the critic observes
            zeros = {name: np.zeros(part.shape or (), np.float32) for name, part in parts.items()}
            observation = {**zeros, "actor": observation}
        action: NDArray[Any] = self._policy.predict(observation, deterministic=True)[0]
        return action


def _about_in(path: Path) -> dict[str, Any]:
    """Return the description of the agent in a model's file; empty if it has none."""
    with zipfile.ZipFile(path) as archive:
        if f"{KEY}.json" not in archive.namelist():
            return {}
        about: dict[str, Any] = json.loads(archive.read(f"{KEY}.json"))
        return about


def _restored(data: Any, weights: Any) -> Any:
    """Return the policy of what a model's file holds.

    Raises:
        ValueError: it holds no model.
    """
    if not isinstance(data, dict) or "policy" not in weights:
        raise ValueError("it holds no model")
    spaces = data["observation_space"], data["action_space"]
    policy = data["policy_class"](*spaces, lambda _: 0.0, **data["policy_kwargs"])
    policy.load_state_dict(weights["policy"])
    return policy


def load_model(path: Path, *, is_trusted: bool) -> OnnxModel | Sb3Policy:
    """Load the model in a file.

    Args:
        path: file; its suffix tells the format.
        is_trusted: whether the user lets it run code.

    Raises:
        ConfigError: the file is none of its format, or it would run code and is not trusted.
        MissingExtraError: a package that the format needs is not installed.
    """
    if path.suffix == ".onnx":
        return OnnxModel(path)
    if not zipfile.is_zipfile(path):
        raise ConfigError(f"agent: {str(path)!r} is no zip file of Stable-Baselines3's")
    if not is_trusted:
        raise ConfigError(
            f"agent: {str(path)!r} holds pickles, which run code when they are loaded; trust=true if you trust it"
        )
    return Sb3Policy(path)
