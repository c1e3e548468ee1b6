# SPDX-License-Identifier: GPL-2.0-only
"""The package's public names: all listed, typed keywords, examples that run."""

import doctest
import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import plain_envs
import pytest

import bbrgym
from bbrgym.agents.training.settings import TrainingSettings
from bbrgym.agents.training.train_agent import TrainingOptions
from bbrgym.envs.observation import FEATURES
from bbrgym.evaluate.evaluation import EvaluationOptions
from bbrgym.evaluate.evaluation_settings import Evaluation

MISTAKEN = """
import bbrgym
bbrgym.evaluate("steady", ["bbr"], world="twin", seeds=[1, 2], draws=3)
bbrgym.evaluate("steady", ["bbr"], sedes=[1])
bbrgym.evaluate("steady", ["bbr"], draws="3")
bbrgym.train(output_dir="runs/mine", total_steps=1000)
bbrgym.train(output_dir="runs/mine", total_stepps=1000)
"""
# Only the modules that declare the keywords are read: all others would take most of a minute.
TYPED = "bbrgym", "bbrgym.evaluate.evaluation", "bbrgym.agents.training.train_agent"

LATE = {
    *("gymnasium", "hydra", "matplotlib", "numpy", "omegaconf", "onnx", "optuna", "pandas", "plotly", "polars"),
    *("pydantic", "ray", "rich", "scipy", "stable_baselines3", "torch", "wandb", "yaml", "zmq"),
}


USED_BY_EVALUATE = {"hydra", "numpy", "omegaconf", "polars", "pydantic", "rich", "yaml"}


def test_all_public_names_are_listed() -> None:
    assert set(dir(bbrgym)) == set(bbrgym.__all__)
    for name in dir(bbrgym):
        assert getattr(bbrgym, name) is not None


@pytest.mark.parametrize(
    ("code", "late"),
    [
        ("import bbrgym", LATE),
        ("from bbrgym.cli.main import _parser; _parser([]).format_help()", LATE),
        ("from bbrgym.cli.listing import listing; list(listing())", LATE - {"rich", "yaml"}),
        ("from bbrgym.cli import hydra_program, evaluate", LATE - USED_BY_EVALUATE),
    ],
)
def test_what_is_not_needed_yet_is_not_imported(code: str, late: set[str]) -> None:
    """`import bbrgym`, `bbrgym --help`, `list` and the start of an evaluation are quick."""
    source = str(Path(bbrgym.__path__[0]).parent)
    asked = f"import sys; sys.path.insert(0, {source!r}); {code}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True, timeout=120)
    assert late & set(done.stdout.split()) == set()


@pytest.mark.parametrize("first", ["bbrgym", "gymnasium", "gymnasium.spaces"])
def test_environments_are_registered_in_either_order(first: str) -> None:
    source = str(Path(bbrgym.__path__[0]).parent)
    code = f"import sys; sys.path.insert(0, {source!r}); import {first}, bbrgym, gymnasium; print(*gymnasium.registry)"
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert [name for name in done.stdout.split() if name.startswith("bbrgym/")] == [
        "bbrgym/Tune-v2",
        "bbrgym/Ns3Gym-v0",
    ]


def test_the_keywords_are_the_fields_of_the_settings() -> None:
    assert set(EvaluationOptions.__annotations__) == set(Evaluation.model_fields) - {"variants"}
    assert set(TrainingOptions.__annotations__) == set(TrainingSettings.model_fields)


def documented() -> dict[str, Any]:
    """Return the public things by name: environments for their folder, the module for its tables."""
    first = ("train", "resume_training", "load_agent")
    names = [*first, *(name for name in dir(bbrgym) if name not in (*first, "TUNABLES", "VARIANTS", "__version__"))]
    found = {name: getattr(bbrgym, name) for name in names}
    found |= {name: importlib.import_module(f"bbrgym.{name}") for name in ("tunables", "envs")}
    places = {"tune_env": "TuneEnv", "tune_vector_env": "TuneVectorEnv", "tune_properties": "TuneProperties"}
    places |= {"ns3gym_env": "Ns3GymEnv", "multi": "TuneMultiEnv"}
    return found | {name: getattr(importlib.import_module(f"bbrgym.envs.{at}"), name) for at, name in places.items()}


@pytest.mark.usefixtures("own_controls")
def test_the_examples_of_all_public_things_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for extra in ("pettingzoo", "zmq"):
        pytest.importorskip(extra, reason="an example needs it")
    monkeypatch.chdir(tmp_path)
    finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner()
    told: list[str] = []
    for name, thing in documented().items():
        tests = finder.find(thing, name, module=False, globs={})
        assert any(test.examples for test in tests), name
        for test in tests:
            runner.run(test, out=told.append)
    assert not told, "".join(told)


def test_mistaken_keywords_are_found_by_mypy(tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="NO MYPY: the types of keywords are not tested here")
    (tmp_path / "mine.py").write_text(MISTAKEN, encoding="utf-8")
    read = "".join(f"[mypy-{module}]\nfollow_imports = silent\n" for module in TYPED)
    (tmp_path / "mypy.ini").write_text(
        f"[mypy]\nfollow_imports = skip\nignore_missing_imports = True\n{read}", encoding="utf-8"
    )
    source = Path(bbrgym.__path__[0]).parent
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path / "cache"), "mine.py"],
        cwd=tmp_path,
        env={"PATH": ""} | ({} if source.name == "site-packages" else {"MYPYPATH": str(source)}),
        capture_output=True,
        text=True,
        timeout=600,
    )
    problems = [line for line in checked.stdout.splitlines() if "error:" in line]
    assert [line.split(":")[1] for line in problems] == ["4", "5", "7"], checked.stdout + checked.stderr
    for problem, mistake in zip(problems, ['"sedes"', '"draws"', '"total_stepps"'], strict=True):
        assert mistake in problem


@pytest.mark.parametrize(
    ("options", "first"),
    [
        ({}, "FEATURE[0]"),
        ({"view": "pooled"}, "mean FEATURE"),
        ({"frame_stack": 3}, "FEATURE[0]@-2"),
        ({"frame_stack": 2, "view": "pooled"}, "mean FEATURE@-1"),
    ],
)
def test_numbers_of_observations_have_names(options: dict[str, Any], first: str) -> None:
    with plain_envs.make("bbrgym/Tune-v2", world="twin", scenario="rtt_fairness", variant="bbq", **options) as env:
        tune: Any = env.unwrapped
        observation, _ = env.reset(seed=1)
        names = tune.observation_names
        assert len(set(names)) == len(names) == len(observation)
        assert (names[0], names[-1]) == (first.replace("FEATURE", FEATURES[0].name), tune.tunables[-1])
        normalised = observation[[names.index(name) for name in tune.tunables]]
        assert normalised == pytest.approx((tune.default_action + 1) / 2)
        if not options:
            assert observation[names.index("startup[0]")] == 1.0
        assert tune.action_names == tune.tunables


def test_an_action_that_chooses_a_setting_has_one_name() -> None:
    options: dict[str, Any] = {"levels": 3, "flat": True}
    with plain_envs.make("bbrgym/Tune-v2", world="twin", scenario="steady", variant="bbr-plus", **options) as env:
        tune: Any = env.unwrapped
        assert tune.action_names == ("setting",)
