# SPDX-License-Identifier: GPL-2.0-only
"""Exported agents act as they do inside."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny import AGENTS, run

import bbrgym
from bbrgym.agents.deploy.export_agent import export
from bbrgym.agents.loading import load_agent
from bbrgym.cli.main import main
from bbrgym.envs.options import Options
from bbrgym.envs.tune_batch import TuneBatch
from bbrgym.plugins import load_controller, new_controller
from bbrgym.tunables import VARIANTS, _variants

onnx = pytest.importorskip("onnx", reason="one of the formats")
onnxruntime = pytest.importorskip("onnxruntime", reason="runs that format")

pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning"),
    pytest.mark.usefixtures("undrawn_file", "operators_once"),
]

KINDS = {name: (name, {}) for name in AGENTS if name not in ("torch_ppo", "tqc")}  # as ppo and sac
KINDS |= {
    "sampling": ({"name": "ppo", "n_steps": 8, "batch_size": 32, "acts": "sample"}, {}),
    "critic": ("ppo", {"env": {"critic": True}}),
    "levels": ("ppo", {"action": {"levels": 5, "tunables": ["bbr_up_gain", "bbq_alpha_us", "bbq_latch"]}}),
}


@pytest.fixture(
    scope="module", params=[pytest.param(one, marks=[pytest.mark.slow] if one == "critic" else []) for one in KINDS]
)
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    agent, others = KINDS[request.param]
    return run(tmp_path_factory.mktemp("trained") / "run", agent, total_steps=96, **others)


@pytest.fixture(scope="module")
def brief(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(tmp_path_factory.mktemp("brief") / "run", total_steps=32)


@pytest.mark.usefixtures("own_controls")
def test_a_files_agent_is_exported_where_the_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trained = run(tmp_path / "run", total_steps=32, variant=load_controller(new_controller(tmp_path / "mine.c")))
    _variants.pop("mine.c")  # as in another process
    assert main(["export", str(trained)]) == 2
    assert "variant=mine.c" in capsys.readouterr().err
    assert main(["export", str(trained), f"variant={tmp_path / 'mine.c'}"]) == 0
    assert list((trained / "exported").iterdir())


class Onnx:
    """A file as its users run it."""

    def __init__(self, path: Path) -> None:
        self._session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        self.inputs = {one.name: one.shape for one in self._session.get_inputs()}

    def __call__(self, *inputs: Any) -> list[Any]:
        return self._session.run(None, dict(zip(self.inputs, inputs, strict=True)))


class Torchscript:
    """The same of the other format."""

    def __init__(self, path: Path) -> None:
        self._function = torch.jit.load(str(path))

    @torch.no_grad()
    def __call__(self, *inputs: Any) -> list[Any]:
        outputs = self._function(*map(torch.from_numpy, inputs))
        return [output.numpy() for output in (outputs if isinstance(outputs, tuple) else [outputs])]


class Noise:
    """What an agent that samples draws."""

    def __init__(self, seeds: list[int], tunables: int) -> None:
        self._seeds, self._tunables = seeds, tunables
        self._generators = [None] * len(seeds)

    def of(self, episode_starts: Any) -> Any:
        for index in np.flatnonzero(episode_starts):
            self._generators[index] = np.random.default_rng([self._seeds[index], *b"agent.actions"])
        return np.array([one.standard_normal(self._tunables, np.float32) for one in self._generators])


@pytest.mark.parametrize(("format_", "runs"), [("onnx", Onnx), ("torchscript", Torchscript)])
def test_exported_actions_are_the_agent_s(format_: str, runs: Any, trained: Path) -> None:
    function = runs(export(trained, format_))
    agent, arguments = load_agent(trained)
    for count in (1, 5):
        assert_same_actions(function, agent, arguments, count)


def assert_same_actions(function: Any, agent: Any, arguments: dict[str, Any], count: int) -> None:
    """Over two runs of every environment; continuous actions up to the rounding of sums in another order."""
    batch = TuneBatch(count, Options(**{**arguments, "world": "twin"}))
    policy, seeds = agent.make_policy(range(count)), list(range(count))
    observations, episode_starts = batch.reset(range(count), seeds), np.ones(count, np.bool_)
    noise = Noise(seeds, len(batch.scaling.names))
    memory = np.full((2, 1, count, 8), 7.0, np.float32)  # whatever was there before a run
    for _ in range(9):
        expected = policy.act(observations, episode_starts)
        if getattr(policy, "_generators", None):
            (actions,) = function(observations, noise.of(episode_starts))
        elif agent.name == "recurrent_ppo":
            actions, *memory = function(observations, episode_starts.astype(np.float32), *memory)
        else:
            (actions,) = function(observations)
        assert actions.shape == expected.shape
        if np.issubdtype(expected.dtype, np.floating):
            np.testing.assert_allclose(actions, expected, atol=1e-5, rtol=0)
        else:
            assert np.array_equal(actions, expected)
        batch.simulate(expected)
        observations, episode_starts = batch.observe(), batch.episodes.has_ended
        if episode_starts.any():
            observations = batch.reset(np.flatnonzero(episode_starts).tolist(), [9] * int(episode_starts.sum()))
    batch.episodes.close()


def test_a_file_says_what_it_is(brief: Path) -> None:
    model = onnx.load(export(brief, "onnx"))
    extra = {"bbrgym.json": ""}
    torch.jit.load(str(export(brief, "torchscript")), _extra_files=extra)
    entry, checksum = model.metadata_props
    assert checksum.key == "bbrgym sha256"
    assert (entry.key, json.loads(entry.value)) == ("bbrgym", json.loads(extra["bbrgym.json"]))
    about = json.loads(entry.value)
    assert (about["agent"], about["variant"], about["environment"]["control_interval_s"]) == ("ppo", "bbq", 0.5)
    assert len(about["tunables"]) == len(VARIANTS["bbq"].preset)
    assert Onnx(brief / "exported" / "ppo.onnx").inputs["observations"][0] == "N"


def test_the_command_exports(brief: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.pt"
    asked = ["export", str(brief), "format=torchscript", "checkpoint=last", f"output={file}"]
    assert main(asked) == 0
    assert capsys.readouterr().out == f"exported: {file}\n"
    _, arguments = load_agent(brief)
    (width,) = TuneBatch(1, Options(**{**arguments, "world": "twin"})).observation_space.shape
    assert Torchscript(file)(np.zeros((3, width), np.float32))[0].shape == (3, len(VARIANTS["bbq"].preset))


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"format": "onxn"}, "format: is 'onxn'; did you mean onnx"),
        ({"checkpoint": "first"}, "cannot read checkpoint"),
        ({"run_dir": "nowhere"}, "is not a run folder of bbrgym train"),
    ],
)
def test_what_cannot_be_exported_is_said(asked: dict[str, Any], says: str, brief: Path) -> None:
    with pytest.raises(bbrgym.ConfigError, match=says):
        export(**{"run_dir": brief, **asked})


def test_a_setting_has_no_network(tmp_path: Path) -> None:
    run(
        tmp_path / "run", {"name": "grid", "draws": 1, "levels": 2}, action={"tunables": ["bbr_up_gain"]}, total_steps=8
    )
    with pytest.raises(bbrgym.ConfigError, match="holds agent grid, which has no network to export"):
        export(tmp_path / "run")
