# SPDX-License-Identifier: GPL-2.0-only
"""An agent of the user's own: a module, and a file that names its trainer."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tiny import SHORT, asked

import bbrgym
from bbrgym.agents.loading import load_agent
from bbrgym.agents.training.train_agent import resume_training, train
from bbrgym.cli.main import main

pytestmark = pytest.mark.usefixtures("undrawn_file")

MODULE = '''
import json

import numpy as np

from bbrgym.agents.base import Constant
from bbrgym.agents.training.trainer import Trainer
from bbrgym.envs.scaling import TunableScaling
from bbrgym.schema import Float


class Level(Trainer):
    """Sets every tunable to the same normalised value."""

    level: Float = 0.0

    def train(self, run):
        def save(name, about):
            run.folder.write_checkpoint(f"{name}.json", lambda path: path.write_text(json.dumps(about)))

        run.checkpoint(run.settings.total_steps, self.load(run.folder, run.settings, "last"), save)

    def load(self, folder, settings, checkpoint):
        width = len(TunableScaling(settings.variant).names)
        return Constant(settings.agent_name, np.full(width, self.level, np.float32))
'''
FILE = "_target_: own_agent.Level\nname: level\nlevel: 0.25\n"


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the module, which can be imported, and the file."""
    (tmp_path / "own_agent.py").write_text(MODULE)
    (tmp_path / "level.yaml").write_text(FILE)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("own_agent", None)


def test_the_command_trains_it_and_evaluates_it(own: Path) -> None:
    folder = own / "run"
    assert main(["train", *SHORT, f"agent={own / 'level.yaml'}", "agent.level=0.5", f"output_dir={folder}"]) == 0
    assert json.loads((folder / "summary.json").read_text())["agent"] == "level"
    assert bbrgym.load_agent(folder)[0].action.tolist() == [0.5] * len(bbrgym.VARIANTS["bbq"].preset)
    rows = bbrgym.evaluate("steady", ["bbq"], agent=str(folder), world="twin")
    assert rows["agent"].unique(maintain_order=True).to_list() == ["fixed", "level"]


def test_a_folder_runs_no_code_that_is_not_trusted(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = own / "run"
    assert train(output_dir=folder, **asked({"_target_": "own_agent.Level", "name": "mine"}))["agent"] == "mine"
    del sys.modules["own_agent"]
    (own / "own_agent.py").write_text("raise AssertionError('it ran')\n")
    says = r"agent\._target_: is 'own_agent.Level', a class outside bbrgym .*BBRGYM_TRUSTED_MODULES=own_agent"
    with pytest.raises(bbrgym.ConfigError, match=says):
        load_agent(folder)
    with pytest.raises(bbrgym.ConfigError, match=says):
        resume_training(folder)
    (own / "own_agent.py").write_text(MODULE)
    monkeypatch.setenv("BBRGYM_TRUSTED_MODULES", "own_agent")
    assert load_agent(folder)[0].name == "mine"


@pytest.mark.parametrize(
    ("world", "option"), [("twin", "policy"), ("ns3", "policy"), ("linux", "policy"), ("ns3gym", "command")]
)
def test_a_folder_runs_no_program_that_is_not_given(world: str, option: str, own: Path) -> None:
    folder, ran = own / "run", own / "ran"
    train(output_dir=folder, **asked({"_target_": "own_agent.Level", "name": "mine"}))
    config = yaml.safe_load((folder / "config.yaml").read_text())
    config["world"] = {world: {"options": {option: f"touch {ran}"}}}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    says = rf"world\.{world}\.options\.{option}: is 'touch .*, a program named by a run folder; the world would run it"
    with pytest.raises(bbrgym.ConfigError, match=says):
        resume_training(folder)
    with pytest.raises(bbrgym.ConfigError, match=says):
        train(output_dir=own / "more", continue_from=folder, total_steps="+200")
    load_agent(folder)
    assert not ran.exists()


def test_a_file_that_is_no_agent_is_one_clear_line(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (own / "list.yaml").write_text("- 1\n")
    (own / "typo.yaml").write_text(FILE.replace("level: 0.25", "levle: 0.25"))
    for name, says in (
        ("list", "is not a mapping of options"),
        ("typo", "agent.levle: is not a field; did you mean level"),
    ):
        assert main(["train", *SHORT, f"agent={own / name}.yaml", f"output_dir={own / 'run'}"]) == 2
        assert says in capsys.readouterr().err
        assert not (own / "run").exists()
