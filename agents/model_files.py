# SPDX-License-Identifier: GPL-2.0-only
"""Loads models from files: ONNX, and the zip files of Stable-Baselines3."""

from __future__ import annotations

import pickle
import re
import warnings
import zipfile
import zlib
from dataclasses import fields
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from bbrgym.agents.training.about import KEY
from bbrgym.envs.options import Options
from bbrgym.errors import ConfigError, MissingExtraError
from bbrgym.runs.checksum import check_checksum
from bbrgym.tunables import VARIANTS
from bbrgym.untrusted_files import opened, parse_json, read_bytes

SUFFIXES = (".onnx", ".zip")
"""Of the files that `load_model` takes."""

MAX_MODEL_BYTES = 2**31 - 1  # what protobuf allows
_NOISE = "noise"  # input of a function that samples, see `bbrgym export`
_MAX_NOISE = 4096
_FLOATS = "tensor(float)"
_OF_OTHER_FILES = b"\x0a\x08location"  # key of a tensor that is kept in another file
_FATAL = 4  # of the runtime's log
_PROBLEMS = (
    (r"opset", "its opset is unknown to onnxruntime"),
    (r"no op registered|not a registered|custom op", "it has an operator that onnxruntime has not"),
    (r"not acyclic|cycle", "its graph has a cycle"),
)
_CODE = re.compile(r"\[ONNXRuntimeError\] : \d+ : ([A-Z_]+)")

#: Arguments of an agent's environment that its file may give.
_ARGUMENTS = {field.name for field in fields(Options)} - {
    *("world", "scenario", "variant", "reward", "isolation", "timeout_s", "world_options"),
    *("render_mode", "flow_capacity", "threads"),
}

#: What loading a file raises that is not such a model, or needs a class that is not there.
_BROKEN = (
    *(ValueError, KeyError, TypeError, AttributeError, ImportError, RuntimeError, EOFError),
    *(pickle.UnpicklingError, zipfile.BadZipFile, zlib.error),
)


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
        model = read_bytes(path, MAX_MODEL_BYTES)
        check_checksum(BytesIO(model), path, is_needed=False)
        if _OF_OTHER_FILES in model:
            raise ConfigError(f"agent: {str(path)!r} has tensors in other files, expected all in one")
        settings = onnxruntime.SessionOptions()
        settings.log_severity_level = _FATAL  # what is wrong is said once, below
        try:  # from memory: a model from a path may name tensors in any other file
            self._session = onnxruntime.InferenceSession(model, settings, providers=["CPUExecutionProvider"])
        except Exception as error:  # the runtime has no class of its own that it always raises
            raise ConfigError(f"agent: {str(path)!r} is not an ONNX file that can be run{_code_of(error)}") from error
        self._path = str(path)
        inputs = {one.name: one for one in self._session.get_inputs()}
        self._input, *others = [*inputs, ""]
        if others not in ([""], [_NOISE, ""]) or not self._session.get_outputs():
            raise ConfigError(
                f"agent: {self._path!r} has {len(inputs)} inputs, expected observations, or {_NOISE} beside, and an "
                f"output"
            )
        shapes = {name: list(one.shape or [None, None]) for name, one in inputs.items()}  # texts where any will do
        if any(one.type != _FLOATS for one in inputs.values()) or any(len(shape) != 2 for shape in shapes.values()):
            raise ConfigError(f"agent: {self._path!r} has other inputs than float32 [N, numbers]")
        width, drawn = shapes[self._input][1], shapes.get(_NOISE, [None, 1])[1]
        if not (isinstance(drawn, int) and 0 < drawn <= _MAX_NOISE):
            raise ConfigError(f"agent: {self._path!r} takes {_NOISE} of any width, expected a fixed one")
        self._width = width if isinstance(width, int) else None
        self._others = {_NOISE: np.zeros((1, drawn), np.float32)} if _NOISE in inputs else {}
        self.about = _about(self._session.get_modelmeta().custom_metadata_map.get(KEY, "{}"), path)
        check_checksum(BytesIO(model), path, is_needed=bool(self.about))

    def predict(self, observation: NDArray[np.float32]) -> NDArray[Any]:
        """Return the action for one observation.

        Raises:
            ConfigError: the function takes something else, fails, or returns something else than numbers.
        """
        flat = np.asarray(observation, np.float32).reshape(1, -1)
        if self._width not in (None, flat.shape[1]):
            raise ConfigError(
                f"{self._path!r} acts on {self._width} numbers, expected {flat.shape[1]}, those of the environment "
                f"with its defaults"
            )
        try:
            actions: NDArray[Any] = np.asarray(self._session.run(None, {self._input: flat, **self._others})[0])
        except Exception as error:  # see above
            raise ConfigError(f"{self._path!r} cannot be run{_code_of(error)}") from error
        if not np.issubdtype(actions.dtype, np.number) or actions.ndim == 0 or len(actions) != 1:
            raise ConfigError(
                f"{self._path!r} returns {actions.dtype} of shape {actions.shape}, expected a row of numbers"
            )
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
            with opened(path, MAX_MODEL_BYTES) as file:
                self.about = _about_in(file, path)
                check_checksum(file, path, is_needed=bool(self.about))
                with warnings.catch_warnings(action="ignore"):  # of classes of other versions, refused below if needed
                    self._policy = _restored(*load_from_zip_file(file, device="cpu")[:2])
        except _BROKEN as error:
            raise ConfigError(
                f"agent: {str(path)!r} is not a model of Stable-Baselines3 that can be loaded: {type(error).__name__}"
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


def _about_in(file: BinaryIO, path: Path) -> dict[str, Any]:
    """Return the description of the agent in a model's file, whose parts are checked; empty if it has none."""
    with zipfile.ZipFile(file) as archive:
        if sum(one.file_size for one in archive.infolist()) > MAX_MODEL_BYTES or archive.testzip() is not None:
            raise ValueError("a part of it is damaged or too large")
        return _about(archive.read(f"{KEY}.json"), path) if f"{KEY}.json" in archive.namelist() else {}


def _about(text: str | bytes, path: Path) -> dict[str, Any]:
    """Return the description of an agent."""
    try:
        about = parse_json(text)
    except ValueError:
        about = None
    environment = about.get("environment", {}) if isinstance(about, dict) else None
    if (
        not isinstance(about, dict)
        or not isinstance(environment, dict)
        or not set(environment) <= _ARGUMENTS
        or about.get("variant", next(iter(VARIANTS))) not in VARIANTS
    ):
        raise ConfigError(f"agent: {str(path)!r} holds a description of an agent that is none of bbrgym export")
    return about


def _code_of(error: Exception) -> str:
    """Return the kind of an error of ONNX Runtime, whose own words may quote the file."""
    found = _CODE.search(str(error))
    known = [words for pattern, words in _PROBLEMS if re.search(pattern, str(error), re.IGNORECASE)]
    return f": {[*known, found[1].lower().replace('_', ' ')][0]}" if found and (known or found[1] != "FAIL") else ""


def _restored(data: Any, weights: Any) -> Any:
    """Return the policy of what a model's file holds."""
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
    with opened(path, MAX_MODEL_BYTES) as file:
        if not zipfile.is_zipfile(file):
            raise ConfigError(f"agent: {str(path)!r} is not a zip file of Stable-Baselines3")
    if not is_trusted:
        raise ConfigError(
            f"agent: {str(path)!r} holds pickles, which run code when they are loaded; trust=true if you trust it"
        )
    return Sb3Policy(path)
