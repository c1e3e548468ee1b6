# SPDX-License-Identifier: GPL-2.0-only
"""Damaged models are refused, whatever byte it is; so are functions that do not act, and networks of no machine's size.

tests/package/test_file_readers.py has the readers of all other files.
"""

import os
import resource
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from special_files import put_special_file
from tiny import SCENARIO
from tiny import run as train

pytest.importorskip("stable_baselines3", reason="what trains")

import torch

import bbrgym
from bbrgym.agents.deploy.export_agent import export
from bbrgym.agents.model_files import load_model
from bbrgym.cli.main import main
from bbrgym.envs.options import Options
from bbrgym.envs.tune_batch import TuneBatch
from bbrgym.errors import ConfigError

pytestmark = pytest.mark.usefixtures("undrawn_file", "operators_once")

AGENTS: dict[str, dict[str, Any]] = {  # one for each format of checkpoints
    "ppo": {"name": "ppo", "hidden": [4], "n_steps": 8, "batch_size": 32, "acts": "mean"},
    "grid": {"name": "grid", "levels": 2, "draws": 1},
}
POSITIONS = 61  # of a file's bytes that are changed, one at a time
of_networks = pytest.mark.parametrize("trained", ["ppo"], indirect=True)


@pytest.fixture(scope="module", params=list(AGENTS))
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp(request.param) / "run", AGENTS[request.param], total_steps=160)


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """Return a copy of a finished training."""
    shutil.copytree(trained, tmp_path / "run")
    return tmp_path / "run"


def checkpoint(run: Path, name: str) -> Path:
    (path,) = (run / "checkpoints").glob(f"{name}.*")
    return path


def refusal(call: Callable[[], Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


# ---- damage -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["best", "last"])
def test_a_checkpoint_that_was_changed_or_cut_is_refused(run: Path, name: str) -> None:
    path = checkpoint(run, name)
    whole = path.read_bytes()
    for index in {*range(0, len(whole), max(1, len(whole) // POSITIONS)), len(whole) - 2}:
        changed = whole[:index] + bytes([whole[index] ^ (1 << index % 7)]) + whole[index + 1 :]
        if path.suffix == ".json" and changed.lower() == whole.lower():  # 1E-5 is 1e-5
            continue
        path.write_bytes(changed)
        assert f"cannot read checkpoint '{path}'" in refusal(lambda: bbrgym.load_agent(run, name)), index
    for length in (0, 1, 22, 23, len(whole) // 2, len(whole) - 2):  # the end of a text's last line does not count
        path.write_bytes(whole[:length])
        assert str(path) in refusal(lambda: bbrgym.load_agent(run, name))
    path.write_bytes(whole + b"\n\0")
    assert str(path) in refusal(lambda: bbrgym.load_agent(run, name))
    path.write_bytes(whole)
    bbrgym.load_agent(run, name)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *(("best", kind) for kind in ("empty", "missing", "zero", "fifo", "folder", "link")),
        *(("last", kind) for kind in ("empty", "folder", "link")),  # without it a training begins again
    ],
)
def test_a_finished_training_with_a_broken_checkpoint_is_not_resumed(
    run: Path, name: str, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = checkpoint(run, name)
    path.rename(run.parent / "kept")
    if kind == "empty":
        path.touch()
    elif kind == "link":
        path.symlink_to(run.parent / "kept")
    else:
        put_special_file(kind, path)
    assert main(["train", f"resume={run}"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("bbrgym: ")
    assert said.count("\n") == 1


@of_networks
def test_a_model_of_sb3_with_a_changed_byte_is_refused(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = run / "model.zip"
    whole = path.read_bytes()
    table_of_contents = range(len(whole) - 700, len(whole), 7)
    for index in (*range(0, len(whole), len(whole) // POSITIONS), *table_of_contents):
        path.write_bytes(whole[:index] + bytes([whole[index] ^ 16]) + whole[index + 1 :])
        refusal(lambda: load_model(path, is_trusted=True))
    assert main(["train", f"resume={run}"]) == 2
    assert "model.zip" in capsys.readouterr().err
    path.write_bytes(whole)
    load_model(path, is_trusted=True)
    assert main(["train", f"resume={run}"]) == 0


def test_a_lock_that_is_a_link_does_not_empty_another_file(run: Path) -> None:
    victim = run.parent / "thesis.txt"
    victim.write_text("precious")
    (run / ".lock").unlink()
    (run / ".lock").symlink_to(victim)
    assert ".lock" in refusal(lambda: bbrgym.resume_training(run))
    assert victim.read_text() == "precious"
    (run / ".lock").unlink()
    os.link(victim, run / ".lock")
    assert ".lock" in refusal(lambda: bbrgym.resume_training(run))
    assert victim.read_text() == "precious"


# ---- a full disk --------------------------------------------------------------------------------------


@of_networks
@pytest.mark.parametrize("format_", ["torchscript", pytest.param("onnx", marks=pytest.mark.slow), "c"])
def test_an_export_without_room_is_one_sentence_and_leaves_no_file(
    run: Path, format_: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if format_ == "onnx":
        pytest.importorskip("onnxscript", reason="what exports")
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limit[1]))
    try:
        code = main(["export", str(run), f"format={format_}"])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    said = capsys.readouterr().err
    assert (code, said.count("\n")) == (1, 1)
    assert "bbrgym: File too large: " in said
    assert not any((run / "exported").iterdir())


# ---- exported files -----------------------------------------------------------------------------------


@of_networks
@pytest.mark.parametrize("format_", ["torchscript", "onnx"])
def test_an_exported_file_has_a_checksum_and_is_read_as_before(run: Path, format_: str, tmp_path: Path) -> None:
    if format_ == "onnx":
        pytest.importorskip("onnxscript", reason="what exports")
    path = export(run, format_, output=tmp_path / ("model.onnx" if format_ == "onnx" else "model.pt"))
    if format_ == "torchscript":
        warnings.filterwarnings("ignore", "`torch.jit.load` is deprecated", DeprecationWarning)
        about = {"bbrgym.json": ""}
        torch.jit.load(str(path), _extra_files=about)
        assert about["bbrgym.json"]
        return
    whole = path.read_bytes()
    assert load_model(path, is_trusted=False).about["variant"] == "bbq"
    for index in range(0, len(whole), len(whole) // POSITIONS):
        path.write_bytes(whole[:index] + bytes([whole[index] ^ 4]) + whole[index + 1 :])
        refusal(lambda: load_model(path, is_trusted=False))


def _onnx_files() -> dict[str, bytes]:
    onnx = pytest.importorskip("onnx")
    helper, numpy_helper = onnx.helper, onnx.numpy_helper
    (width,) = TuneBatch(1, Options(world="twin", scenario="steady", variant="bbq")).observation_space.shape or ()
    weights = numpy_helper.from_array(np.zeros((width, 8), np.float32), "w")
    other, negative, huge = (type(weights).FromString(weights.SerializeToString()) for _ in range(3))
    other.ClearField("raw_data")
    other.data_location = type(other).EXTERNAL
    for key, value in {"location": "../../../../../etc/passwd", "length": "960"}.items():
        entry = other.external_data.add()
        entry.key, entry.value = key, value
    negative.dims[0], huge.dims[0] = -5, 2**40

    def model(*nodes: Any, kept: Any = weights, inputs: Any = (("x", 1, ["N", width]),), opset: int = 17) -> bytes:
        ports = [[helper.make_tensor_value_info(*one) for one in each] for each in (inputs, [("y", 1, ["N", 8])])]
        graph = helper.make_graph(list(nodes), "g", *ports, [kept])
        imports = [helper.make_opsetid("", opset), helper.make_opsetid("mine", 1)]
        return bytes(helper.make_model(graph, ir_version=8, opset_imports=imports).SerializeToString())

    node = helper.make_node
    acts = node("MatMul", ["x", "w"], ["y"])
    good = model(acts)
    shape = numpy_helper.from_array(np.array([1, 2**40]), "s")
    return {
        "good": good,
        "empty": b"",
        "cut": good[: len(good) // 2],
        "random": np.random.default_rng(1).bytes(4096),
        "another opset": model(acts, opset=99),
        "two inputs": model(node("Add", ["x", "z"], ["y"]), inputs=[("x", 1, ["N", 8]), ("z", 1, ["N", 8])]),
        "no input": model(node("Identity", ["w"], ["y"]), inputs=()),
        "integers": model(node("Cast", ["x"], ["y"], to=1), inputs=[("x", 7, ["N", 8])]),
        "three dimensions": model(node("Identity", ["x"], ["y"]), inputs=[("x", 1, ["N", 2, 4])]),
        "another file's tensor": model(acts, kept=other),
        "negative dimension": model(acts, kept=negative),
        "huge dimension": model(acts, kept=huge),
        "a cycle": model(node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"]), node("Identity", ["b"], ["y"])),
        "unknown operator": model(node("Foo", ["x"], ["y"], domain="mine")),
        "NaN": model(node("MatMul", ["x", "w"], ["z"]), node("Div", ["z", "z"], ["y"])),
        "too large an output": model(node("ConstantOfShape", ["s"], ["y"]), kept=shape),
        "text": model(node("Cast", ["x"], ["y"], to=8)),
        "one batch": model(acts, inputs=[("x", 1, [7, width])]),
    }


def evaluate(model: Path) -> None:
    bbrgym.evaluate(SCENARIO, [], agent=model, world="twin", variant="bbq", draws=1)


def test_an_onnx_file_that_does_not_act_is_one_sentence(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="what runs it")
    path = tmp_path / "m.onnx"
    for kind, content in _onnx_files().items():
        path.write_bytes(content)
        if kind == "good":
            evaluate(path)
            continue
        said = refusal(lambda: evaluate(path))
        assert "agent" in said, kind
        assert "root:" not in said, kind
