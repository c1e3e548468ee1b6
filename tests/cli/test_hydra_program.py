# SPDX-License-Identifier: GPL-2.0-only
"""The commands as programs of Hydra: its flags, your own files, types, and our errors."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from hydra.types import RunMode
from omegaconf import IntegerNode, OmegaConf

from bbrgym.agents.training.settings import TrainingSettings
from bbrgym.cli.composition import Loader, compose_config

pytestmark = pytest.mark.usefixtures("undrawn_file")

Here = Callable[..., tuple[int, str, str]]
SHORT = ["scenario=steady", "scenario.duration_s=1", "variants=[bbr]", "world=twin"]


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A user's own folder: an agent, a reward, a scenario, an experiment and a primary file."""
    files = {
        "agent/mine.yaml": "defaults: [ppo]\nhidden: [7]\n",
        "reward/mine.yaml": "throughput: 2.0\ndelay: 1.0\n",
        "scenario/my_link.yaml": "duration_s: 3\nlink: {rate_mbps: 5, queue: {size_packets: 20}}\n"
        "flows: [{name: a, rtt_ms: 30}]\n",
        "experiment/mine.yaml": "# @package _global_\ndefaults: [override /agent: mine, override /reward: mine]\n"
        "total_steps: 77\n",
        "study.yaml": "defaults: [train, _self_]\nseed: 9\n",
    }
    for name, text in files.items():
        path = tmp_path / "own" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "own"


def test_help_shows_groups_choices_types_and_flags(here: Here) -> None:
    code, out, _ = here("train", "--help", "agent=sac")
    assert code == 0
    for part in ("usage: bbrgym train", "ppo, recurrent_ppo, sac*", "total_steps: a whole number", "--config-dir"):
        assert part in out


@pytest.mark.parametrize("command", ["evaluate", "train", "trace", "serve", "reproduce"])
def test_cfg_job_prints_what_the_command_would_take(command: str, here: Here) -> None:
    code, out, _ = here(command, "--cfg", "job", "--resolve", "world=twin")
    assert code == 0
    assert yaml.safe_load(out) == compose_config(command, ["world=twin"])


def test_cfg_hydra_and_all_and_a_package(here: Here) -> None:
    assert set(yaml.safe_load(here("train", "--cfg", "hydra")[1])) == {"hydra"}
    assert {"hydra", "agent", "seed"} <= set(yaml.safe_load(here("train", "--cfg", "all")[1]))
    shown = here("train", "--cfg", "job", "--package", "agent", "agent.gamma=0.5")[1]
    assert yaml.safe_load(shown)["gamma"] == 0.5


@pytest.mark.parametrize(
    "info", ["all", *(pytest.param(one, marks=pytest.mark.slow) for one in ("config", "defaults", "searchpath"))]
)
def test_info_says_what_hydra_knows(info: str, own: Path) -> None:
    """In a process of its own, since it sets up the logging."""
    arguments = ["train", "--info", info, "--config-dir", str(own), "scenario.link.rate_mbps=3"]
    done = subprocess.run(
        [sys.executable, "-m", "bbrgym", *arguments], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    if info in ("searchpath", "all"):
        assert f"file://{own}" in done.stdout
    if info.startswith("defaults"):
        assert "proportional" in done.stdout


def test_files_of_one_s_own_are_chosen_by_name(here: Here, own: Path) -> None:
    options = ["--config-dir", str(own), "agent=mine", "reward=mine", "scenario=my_link", "agent.gamma=0.5"]
    code, out, errors = here("train", "--cfg", "job", *options)
    assert code == 0, errors
    config = yaml.safe_load(out)
    assert (config["agent"]["hidden"], config["agent"]["gamma"], config["agent"]["name"]) == ([7], 0.5, "ppo")
    assert config["reward"] == {"throughput": 2.0, "delay": 1.0}
    assert (config["scenario"]["name"], config["scenario"]["duration_s"]) == ("my_link", 3)
    assert here("train", "--cfg", "job", "agent=mine")[0] == 2


def test_an_experiment_is_a_whole_command(here: Here, own: Path) -> None:
    for name in ("--config-dir", "--config-path"):
        code, out, errors = here("train", "--cfg", "job", name, str(own), "experiment=mine", "seed=3")
        assert code == 0, errors
        config = yaml.safe_load(out)
        assert (config["total_steps"], config["seed"], config["agent"]["hidden"]) == (77, 3, [7])


def test_a_swept_choice_with_a_launcher_of_its_own_is_refused(here: Here, own: Path, tmp_path: Path) -> None:
    (own / "experiment" / "cluster.yaml").write_text(
        "# @package _global_\ndefaults: [override /hydra/launcher: joblib]\n"
    )
    params = "defaults: [train, _self_]\nhydra: {sweeper: {params: {experiment: 'mine,cluster'}}}\n"
    (own / "sweep.yaml").write_text(params)
    for swept in ("experiment=mine,cluster", "--config-name=sweep"):
        code, _, err = here("train", "-m", "--config-dir", str(own), f"hydra.sweep.dir={tmp_path / 'many'}", swept)
        assert code == 2
        assert err.startswith("bbrgym: experiment=cluster: brings hydra/launcher=joblib, which cannot differ between")
    assert not (tmp_path / "many").exists()


@pytest.mark.parametrize("command", [["train", "--cfg", "job"], ["evaluate", *SHORT], ["scenario", "steady"]])
def test_a_broken_plugin_of_hydra_is_one_sentence_with_its_package(command: list[str], tmp_path: Path) -> None:
    for name, text in {
        "hydra_plugins/old_sweeper/config.py": "raise ValueError('mutable default')\n",
        "hydra_plugins/old_sweeper/__init__.py": "",
        "hydra_old_sweeper-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: hydra-old-sweeper\nVersion: 1.0\n",
        "hydra_old_sweeper-1.0.dist-info/RECORD": "hydra_plugins/old_sweeper/config.py,,\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    run = [sys.executable, "-m", "bbrgym", *command]
    done = subprocess.run(run, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False)
    said = "Hydra's plugin hydra_plugins.old_sweeper.config, of the package hydra-old-sweeper, cannot be imported: "
    said = f"bbrgym: {said}ValueError: mutable default; upgrade or uninstall it\n"
    assert (done.returncode, done.stderr) == (2, said)


def test_another_primary_file(here: Here, own: Path) -> None:
    code, out, errors = here("train", "--cfg", "job", "--config-dir", str(own), "--config-name", "study", "agent=sac")
    assert code == 0, errors
    config = yaml.safe_load(out)
    assert (config["seed"], config["agent"]["name"]) == (9, "sac")


EXPERIMENTS = sorted((Path(__file__).parents[2] / "conf" / "experiment").glob("*.yaml"))


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.stem)
def test_a_shipped_experiment_says_its_command_and_composes(path: Path) -> None:
    found = re.search(r"bbrgym (\w+) (?:-m )?(experiment=\w+)$", path.read_text(), re.MULTILINE)
    assert found
    assert found[2] == f"experiment={path.stem}"
    assert compose_config(found[1], [found[2]])


def test_hydra_run_dir_is_the_run_folder(here: Here, tmp_path: Path) -> None:
    code, out, errors = here("evaluate", *SHORT, "hydra.run.dir=out")
    assert code == 0, errors
    assert "run folder: out" in out
    assert (tmp_path / "out" / "summary.parquet").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("chdir", ["false", "true"])
def test_references_of_hydra_are_to_the_options_given(chdir: str, here: Here, tmp_path: Path) -> None:
    own = ["hydra.run.dir='${scenario.name}/${hydra:job.name}'", "+hydra.job.env_set.OF_JOB=${seeds[0]}", "seeds=[3]"]
    told = "+hydra.callbacks.told={_target_: told.Told, path: ${hydra:runtime.cwd}/told}"
    code, _, errors = here("evaluate", *SHORT, *own, told, f"hydra.job.chdir={chdir}")
    assert code == 0, errors
    assert (tmp_path / "steady" / "evaluate" / "summary.parquet").exists()
    assert not list((tmp_path / "steady" / "evaluate").rglob("evaluate"))
    lines = (tmp_path / "told").read_text().splitlines()
    assert lines == ["run_start", "job_start 3", "job_end COMPLETED", "run_end"]


def test_options_have_types_in_the_composed_configuration() -> None:
    config = Loader(models=[TrainingSettings]).load_configuration("train", ["total_steps=2e3"], RunMode.RUN)
    assert isinstance(config._get_node("total_steps"), IntegerNode)
    assert OmegaConf.to_container(config)["total_steps"] == 2000  # type: ignore[call-overload, index]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["seed=many"], "seed: is 'many', expected a whole number"),
        (["total_steps=1.5"], "total_steps: is 1.5, expected a whole number"),
        (["threads=[1]"], "threads: is [1], expected a whole number, or null"),
        (["variant=null"], "variant: is None, expected a text"),
        (["seed=1,2"], "seed: is 1,2, several values, expected one"),
        (["experiment=none"], "experiment: is 'none'"),
        (["--config-name", "trian"], "--config-name: is 'trian'; did you mean train or trace?"),
        (["--config-dir", "nowhere"], "--config-dir: is 'nowhere', expected a folder"),
        (["--config-path", "nowhere"], "--config-path: is 'nowhere', expected a folder"),
        (["--cfg", "job", "--info", "all"], "--cfg and --info: expected one of them"),
        (["--resolve"], "--resolve: expected with --cfg or --help"),
        (["--shell-completion", "install=cmd"], "--shell-completion: No completion plugin for 'cmd' found"),
        (["hydra.run.dir=x", "output_dir=y"], "output_dir: is 'y' with hydra.run.dir, expected one of them"),
        (["hydra/launcher=none"], "hydra/launcher=none"),
        (["hydra.run.dir=${nope}"], "Interpolation key 'nope' not found"),
        (["+hydra.callbacks.x._target_=nope.Nope"], "Error locating target 'nope.Nope'"),
        (["hydra.job.env_copy=[NOPE]"], "hydra.job.env_copy: 'NOPE' is not a variable of the environment"),
    ],
)
def test_a_wrong_flag_or_type_is_one_clear_line(arguments: list[str], says: str, here: Here, tmp_path: Path) -> None:
    code, out, errors = here("train", *arguments)
    assert (code, out, errors.count("\n")) == (2, "", 1), errors
    assert errors.startswith("bbrgym: ")
    assert says in errors


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("bbrgym ev", "evaluate"),
        ("bbrgym train agent=recurrent", "agent=recurrent_ppo"),
        ("bbrgym train agent=sac agent.learning_r", "agent.learning_rate="),
        ("bbrgym train hydra/laun", "hydra/launcher="),
        ("bbrgym train nonsense", ""),
        ("bbrgym list x", ""),
    ],
)
def test_the_shell_s_completion_answers(line: str, found: str, here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMP_LINE", line)
    code, out, errors = here("-sc", "query=bash")
    assert (code, errors) == (0, "")
    assert found in out.split() if found else out.split() == []


@pytest.mark.parametrize("shell", ["bash", "fish", "zsh"])
def test_the_shell_s_completion_is_installed(shell: str, here: Here) -> None:
    code, out, errors = here("-sc", f"install={shell}")
    assert (code, errors) == (0, "")
    assert "complete" in out
