# SPDX-License-Identifier: GPL-2.0-only
"""Agents from files: ONNX and the zip files of Stable-Baselines3."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

pytest.importorskip("stable_baselines3", reason="what is loaded")
pytest.importorskip("onnxruntime", reason="what is loaded")

from stable_baselines3 import PPO, SAC

import bbrgym
from bbrgym.agents.deploy.export_agent import export
from bbrgym.envs.tune_vec_env import TuneVecEnv
from bbrgym.errors import ConfigError

pytestmark = pytest.mark.usefixtures("undrawn_file", "operators_once")

HOW: dict[str, Any] = {"world": "twin", "variant": "bbq", "seeds": [1, 2]}
TRAINING: dict[str, Any] = {
    "scenario": "steady",
    "variant": "bbq",
    "agent": {"name": "ppo", "n_steps": 8, "batch_size": 32, "acts": "mean"},
    "total_steps": 64,
    "num_envs": 4,
    "validation": {"draws": 2},
}


def scores(agent: Any, **how: Any) -> list[float]:
    rows = bbrgym.evaluate("steady", ["bbq"], agent=agent, **{**HOW, **how})
    return rows.filter(pl.col("agent") != "fixed")["score"].to_list()


def test_an_exported_file_acts_as_its_run(tmp_path: Path) -> None:
    bbrgym.train(**TRAINING, output_dir=tmp_path / "run")
    file = export(tmp_path / "run", "onnx")
    np.testing.assert_allclose(scores(file), scores(str(tmp_path / "run")), atol=1e-3)


@pytest.mark.slow
def test_an_exported_file_of_a_sampling_agent_acts_by_its_mean(tmp_path: Path) -> None:
    agent = {**TRAINING["agent"], "acts": "sample"}
    bbrgym.train(**{**TRAINING, "agent": agent, "total_steps": 32}, output_dir=tmp_path / "run")
    file = export(tmp_path / "run", "onnx")
    mean = scores(tmp_path / "run" / "model.zip", trust=True)
    np.testing.assert_allclose(scores(file), mean, atol=1e-3)


def test_a_function_of_other_observations_is_one_clear_error(tmp_path: Path) -> None:
    helper = pytest.importorskip("onnx").helper
    seen, taken = (helper.make_tensor_value_info(name, 1, ["N", 5]) for name in "xy")  # 1: float32
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "narrow", [seen], [taken])
    file = tmp_path / "narrow.onnx"
    file.write_bytes(
        helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()
    )
    with pytest.raises(ConfigError, match=r"agent narrow: '.*narrow.onnx' acts on 5 numbers, expected 225, those of"):
        scores(file)


@pytest.mark.parametrize("algorithm", [PPO, SAC])
def test_a_model_of_sb3_acts_from_its_zip_as_in_memory(algorithm: Any, tmp_path: Path) -> None:
    envs = TuneVecEnv(1, world="twin", scenario="steady", variant="bbq", control_interval_s=0.5)
    model = algorithm("MlpPolicy", envs, seed=1)
    model.save(tmp_path / "model.zip")
    envs.close()

    class Mean:
        def predict(self, observation: np.ndarray) -> Any:
            return model.predict(observation, deterministic=True)

    assert scores(tmp_path / "model.zip", trust=True) == scores(Mean())
    with pytest.raises(ConfigError, match="trust=true"):
        scores(tmp_path / "model.zip")


@pytest.mark.parametrize(
    ("name", "says"), [("a.onnx", "is not an ONNX file"), ("a.zip", "is not a zip file"), ("b.zip", "is not a model")]
)
def test_what_is_no_model_is_one_clear_error(name: str, says: str, tmp_path: Path) -> None:
    import zipfile

    (tmp_path / "a.onnx").write_text("nothing")
    (tmp_path / "a.zip").write_text("nothing")
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as file:
        file.writestr("data", "{}")
    with pytest.raises(ConfigError, match=says):
        scores(tmp_path / name, trust=True)
