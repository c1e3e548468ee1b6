# SPDX-License-Identifier: GPL-2.0-only
"""The examples run from beginning to end, on few steps."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from repository import ROOT

pytest.importorskip("stable_baselines3", reason="the notebook trains with it")

EXAMPLES = ROOT / "examples"
#: Packages, and arguments with which the example is short.
FEW_STEPS = {
    "ppo.py": (["torch"], "--total-steps 64 --num-envs 2 --num-steps 16 --minibatches 2 --test-episodes 2"),
    "rllib_ppo.py": (["ray", "lz4", "pyarrow", "tensorboardX", "tree"], "--iterations 1 --batch 16 --runners 0"),
    "trackers.py mlflow": (["mlflow"], "--total-steps 1024 --scenario steady"),
    "trackers.py trackio": (["trackio"], "--total-steps 1024 --scenario steady"),
    "torchrl_ppo.py": (["torchrl"], "--total-steps 32 --batch 16"),
}


@pytest.mark.parametrize("name", FEW_STEPS)
def test_an_example_runs(name: str, tmp_path: Path) -> None:
    packages, arguments = FEW_STEPS[name]
    lacking = [package for package in packages if find_spec(package) is None]
    if lacking:
        pytest.skip(f"NO {', '.join(lacking).upper()}: examples/{name} is not run here")
    command = [sys.executable, *str(EXAMPLES / name).split(), *arguments.split()]
    environment = {
        **os.environ,
        "MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path}/m.db",
        "TRACKIO_DIR": str(tmp_path / "t"),
    }
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=500, check=False, cwd=tmp_path, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"(step|steps) +\d+ ", done.stdout)


def test_the_agent_in_one_file_is_short_and_needs_no_agent_of_the_package() -> None:
    text = (EXAMPLES / "ppo.py").read_text(encoding="utf-8")
    assert text.count("\n") <= 250
    assert "bbrgym.agents" not in text


def test_the_notebook_runs_from_top_to_bottom() -> None:
    nbformat = pytest.importorskip("nbformat", reason="the notebook needs nbformat")
    nbclient = pytest.importorskip("nbclient", reason="the notebook needs nbclient")
    notebook = nbformat.read(EXAMPLES / "first_steps.ipynb", as_version=4)
    for cell in notebook.cells:
        cell.source = cell.source.replace("TOTAL_STEPS = 20_000", "TOTAL_STEPS = 512")
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(EXAMPLES)}}).execute()
    texts = [output.text for cell in notebook.cells for output in cell.get("outputs", ()) if "text" in output]
    assert sum("mean reward" in text for text in texts) == 2
