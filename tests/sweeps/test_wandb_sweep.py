# SPDX-License-Identifier: GPL-2.0-only
"""The files for `wandb sweep`, as far as they go without a server: W&B's own checks, and the command that its agent
would form from them."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from machine_needs import needs_modules
from small import GRID, scenario

from bbrgym.cli.composition import compose_config

pytestmark = needs_modules("wandb", reason="NO WANDB: conf/wandb_sweep/ is not tested here; pip install '.[wandb]'")

FILES = sorted((Path(__file__).parents[2] / "conf" / "wandb_sweep").glob("*.yaml"))


def agent_command(config: dict[str, Any], values: dict[str, Any]) -> list[str]:
    """What W&B's agent runs, in its words (wandb.wandb_agent.Agent._command_run)."""
    from wandb.sdk.launch.sweeps.utils import create_sweep_command, create_sweep_command_args

    known = create_sweep_command_args({"args": {name: {"value": value} for name, value in values.items()}})
    known["env"] = ["/usr/bin/env"]
    command: list[str] = []
    for word in create_sweep_command(config["command"]):
        is_macro = word.startswith("${") and word.endswith("}")
        command += (known.get(word[2:-1]) or []) if is_macro else [word]
    return command


def ends(parameter: dict[str, Any]) -> tuple[Any, Any]:
    values = parameter.get("values")
    return (values[0], values[-1]) if values else (parameter["min"], parameter["max"])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_is_valid_and_its_command_can_be(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from wandb.apis.public.sweeps import _validate_config_and_fill_distribution

    config = yaml.safe_load(path.read_text(encoding="utf-8"))  # as `wandb sweep` does
    checked = _validate_config_and_fill_distribution(config)
    assert checked["method"] in ("bayes", "grid", "random")
    assert checked["metric"] == {"name": "best_score", "goal": "maximize"}  # as summary.json has it
    monkeypatch.setenv("WANDB_RUN_ID", "abc123")
    for end in (0, 1):
        values = {name: ends(parameter)[end] for name, parameter in checked["parameters"].items()}
        command = agent_command(checked, values)
        assert command[:3] == ["/usr/bin/env", "bbrgym", "train"]
        composed = compose_config("train", command[3:])
        assert composed["output_dir"] == "runs/wandb-abc123"
        assert composed["agent"]["learning_rate"] == values["agent.learning_rate"]
        assert composed["logger"]["name"] == "wandb"


@pytest.mark.slow
def test_the_run_is_the_one_that_the_agent_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"WANDB_RUN_ID": "abc123", "WANDB_SWEEP_ID": "swp456", "WANDB_MODE": "offline"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HOME", str(tmp_path))
    config = {"command": ["train", "logger=wandb", "output_dir=run-${oc.env:WANDB_RUN_ID}", "${args_no_hyphens}"]}
    command = agent_command(config, {"seed": 3})
    done = subprocess.run(
        [sys.executable, "-m", "bbrgym", *command, *GRID, scenario(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "run-abc123" / "wandb").glob("offline-run-*")
    assert folder.name.endswith("-abc123")
    assert (folder / "files" / "output.log").is_file()  # not where a service that others share was started
