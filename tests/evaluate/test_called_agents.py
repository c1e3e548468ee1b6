# SPDX-License-Identifier: GPL-2.0-only
"""Agents of your own: functions, objects with predict, and their import paths."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml

import bbrgym
from bbrgym.cli.main import main
from bbrgym.errors import ConfigError
from bbrgym.evaluate.evaluation import prepare_evaluation
from bbrgym.evaluate.records import EvaluationFolder
from bbrgym.evaluate.resume import resumed_config

pytestmark = pytest.mark.usefixtures("undrawn_file")

HOW: dict[str, Any] = {"world": "twin", "variant": "bbq", "seeds": [1, 2]}
MODULE = """
import numpy as np
def act(observation):
    return np.full(8, -1.0, np.float32)
nothing = 3
class Class: ...
"""


def low(observation: np.ndarray) -> np.ndarray:
    """The lowest value of each tunable."""
    assert observation.ndim == 1
    return np.full(8, -1.0, np.float32)


class Low:
    def predict(self, observation: np.ndarray) -> tuple[np.ndarray, None]:
        return low(observation), None


def results(agent: Any, **how: Any) -> pl.DataFrame:
    return bbrgym.evaluate("steady", ["bbq"], agent=agent, **{**HOW, **how}).filter(pl.col("agent") != "fixed")


def test_a_function_an_object_and_a_path_act_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_low_agent.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    one, two, three = (results(agent) for agent in (low, Low(), "my_low_agent:act"))
    assert one["agent"].unique().to_list() == ["low"]
    assert two["agent"].unique().to_list() == ["Low"]
    assert three["agent"].unique().to_list() == ["act"]
    assert one["score"].to_list() == two["score"].to_list() == three["score"].to_list()
    preset = bbrgym.evaluate("steady", ["bbq"], **HOW)
    assert one["score"].to_list() != preset["score"].to_list()


def test_a_function_or_an_object_is_named_alike_in_every_process(tmp_path: Path) -> None:
    rows = bbrgym.evaluate("steady", ["bbq"], agent=Low(), output_dir=tmp_path, **HOW)
    assert yaml.safe_load((tmp_path / "config.yaml").read_text())["agent"] == f"{__name__}:Low"
    assert bbrgym.evaluate("steady", ["bbq"], agent=Low(), output_dir=tmp_path, resume=True, **HOW).equals(rows)
    settings = {"variants": ["bbq"], **HOW}
    assert prepare_evaluation("steady", settings, agent=low).config["agent"] == f"{__name__}:low"


def test_a_resumed_folder_runs_no_code_that_is_not_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    (tmp_path / "my_found_agent.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    folder = tmp_path / "run"
    bbrgym.evaluate("steady", ["bbq"], output_dir=folder, **HOW)
    whole = yaml.safe_load((folder / "config.yaml").read_text())
    again = ["evaluate", f"output_dir={folder}", "resume=true"]
    worlds = {"twin": {"options": {"policy": "theirs.so"}}, "ns3gym": {"options": {"command": f"touch {folder}/ran"}}}
    for changed, says in (
        ({"agent": "my_found_agent:act"}, "agent: is 'my_found_agent:act', code that only a file names"),
        ({"agent": "builtins:input"}, "agent: is 'builtins:input', code that only a file names"),
        ({"agent": {"a": ["random", "my_found_agent:act"]}}, "BBRGYM_TRUSTED_MODULES=my_found_agent"),
        ({"trust": True}, "so its agents may run code; if you trust them, give trust=true"),
        ({"world": {"twin": worlds["twin"]}}, "world.twin.options.policy: is 'theirs.so', a program named by a run"),
        ({"world": {"ns3gym": worlds["ns3gym"]}}, "world.ns3gym.options.command: is 'touch "),
    ):
        (folder / "config.yaml").write_text(yaml.safe_dump({**whole, **changed}))
        assert main(again) == 2
        assert says in capsys.readouterr().err
    assert "my_found_agent" not in sys.modules
    assert not (folder / "ran").exists()
    asked = {**whole, "agent": "my_found_agent:act"}
    (folder / "config.yaml").write_text(yaml.safe_dump(asked))
    assert resumed_config(asked, ["agent"], EvaluationFolder(folder)) == asked


def test_what_is_no_agent_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    (tmp_path / "my_other_agent.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    for path, says in {
        "my_other_agent:nothing": "expected a function, or an object with predict",
        "my_other_agent:missing": "has no attribute 'missing'",
        "my_other_agent:Class": "'my_other_agent:Class', expected a function, or an object with predict",
        "no_such_module_of_mine:act": "No module named 'no_such_module_of_mine'",
        "gone.onnx": "is 'gone.onnx', but there is no such run folder or model's file",
        "runs/gone": "is 'runs/gone', but there is no such run folder or model's file",
        "actt": "a run folder, a model's file, or a function as my_module:act",
    }.items():
        with pytest.raises(ConfigError, match=says):
            results(path)
    with pytest.raises(ConfigError, match=r"agent: is '.*Low'; allowed are"):
        results(Low)
    assert main(["evaluate", "agent=no_such_module_of_mine:act", f"output_dir={tmp_path / 'out'}"]) == 2
    assert capsys.readouterr().err.startswith("bbrgym: agent: is 'no_such_module_of_mine:act'")


@pytest.mark.parametrize("action", [np.zeros(3), np.full(8, 7.0), np.full(8, np.nan), "no", None])
def test_an_action_that_does_not_fit_names_its_agent(action: Any) -> None:
    def mine(observation: np.ndarray) -> Any:
        return action

    with pytest.raises(ConfigError, match=r"^agent mine: action: array.*, allowed are 8 numbers in \[-1, 1\]"):
        results([low, mine], seeds=[1])
