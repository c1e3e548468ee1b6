# SPDX-License-Identifier: GPL-2.0-only
"""What loggers keep of a training, read back."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("stable_baselines3", reason="what is logged is a training")
pytest.importorskip("wandb", reason="what is tested")
pytest.importorskip("tensorboard", reason="what is tested")

import polars as pl
from offline import finished_runs, records
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tiny import asked, curve, interrupt, run

import bbrgym
from bbrgym.agents.training.loggers.logger import LoggedRun, logged
from bbrgym.agents.training.loggers.tensorboard import TensorboardSettings
from bbrgym.agents.training.loggers.wandb import has_login
from bbrgym.agents.training.train_agent import resume_training
from bbrgym.errors import TrainingError

WANDB = {"name": "wandb", "mode": "offline", "tags": ["one", "two"]}
BROKEN = {**asked()["agent"], "learning_rate": 1e30, "max_grad_norm": 1e30}


def everything(file: Path) -> dict[str, Any]:
    """Config, history (rows), summary, and what there is of the run itself."""
    found: dict[str, Any] = {"config": {}, "history": [], "summary": {}, "artifacts": [], "exit": None}
    for record in records(file):
        kind = record.WhichOneof("record_type")
        if kind == "run":
            found["run"] = record.run
            found["config"] |= {item.key: json.loads(item.value_json) for item in record.run.config.update}
        elif kind == "history":
            found["history"].append(
                {item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
            )
        elif kind == "summary":
            found["summary"] |= {item.key: json.loads(item.value_json) for item in record.summary.update}
        elif kind == "artifact" or (kind == "request" and record.request.HasField("log_artifact")):
            found["artifacts"].append(record.artifact if kind == "artifact" else record.request.log_artifact.artifact)
        elif kind == "exit":
            found["exit"] = record.exit.exit_code
    return found


# ---- Weights & Biases ---------------------------------------------------------------------------------


def test_an_offline_run_holds_config_history_summary_and_the_checkpoint(tmp_path: Path) -> None:
    folder = run(tmp_path / "run", logger=WANDB)
    (file,) = finished_runs(folder)
    kept = everything(file)
    assert kept["config"]["seed"] == 1
    assert kept["config"]["agent"]["n_steps"] == 8
    assert kept["config"]["scenario"]["name"] == "tiny"
    assert (kept["run"].project, kept["run"].run_group, kept["run"].job_type) == ("bbrgym", "ppo-bbq-tiny", "train")
    assert (kept["run"].display_name, list(kept["run"].tags)) == ("ppo-bbq-tiny-1", ["one", "two"])
    for name in ("validation/score", "rollout/reward", "train/loss"):
        rows = [(row["step"], row[name]) for row in kept["history"] if name in row]
        assert rows == curve(folder).drop_nulls(name).select("step", name).rows()
    outcome = json.loads((folder / "summary.json").read_text())
    assert {name: kept["summary"][name] for name in outcome} == outcome
    (last,) = (row for row in kept["history"] if "curve.path" in row)
    (table,) = (row for row in kept["history"] if "validation.path" in row)
    assert (file.parent / "files" / last["curve.path"]).read_bytes().startswith(b"\x89PNG")
    rows = json.loads((file.parent / "files" / table["validation.path"]).read_text())
    scores = pl.read_parquet(folder / "validation.parquet").filter(pl.col("step") == 320)
    assert rows["columns"] == scores.columns
    assert [tuple(row) for row in rows["data"]] == scores.rows()
    (model,) = (artifact for artifact in kept["artifacts"] if artifact.type == "model")
    assert [entry.path for entry in model.manifest.contents] == ["best.pt"]
    assert kept["exit"] == 0


def test_a_training_that_breaks_is_finished_as_broken(tmp_path: Path) -> None:
    with pytest.raises(TrainingError):
        run(tmp_path / "run", logger=WANDB, agent=BROKEN)
    (file,) = finished_runs(tmp_path / "run")
    assert everything(file)["exit"] == 1


def test_jobs_of_one_process_have_runs_of_their_own(tmp_path: Path) -> None:
    folders = [run(tmp_path / str(seed), logger=WANDB, seed=seed, total_steps=32) for seed in (1, 2)]
    kept = [everything(file) for folder in folders for file in finished_runs(folder)]
    assert [one["config"]["seed"] for one in kept] == [1, 2]
    assert len({one["run"].run_id for one in kept}) == 2


def test_a_resumed_training_is_the_same_run(tmp_path: Path) -> None:
    interrupt(tmp_path, 230, asked(logger=WANDB))
    resume_training(tmp_path)
    first, second = (everything(file) for file in finished_runs(tmp_path, 2))
    assert first["run"].run_id == second["run"].run_id
    assert (first["exit"], second["exit"]) == (1, 0)
    steps = sorted({row["step"] for one in (first, second) for row in one["history"] if "validation/score" in row})
    assert steps == curve(tmp_path).drop_nulls("validation/score")["step"].to_list()


@pytest.mark.parametrize("mode", ["disabled", "offline"])
def test_wandb_mode_is_respected(mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", mode)
    run(tmp_path / "run", logger="wandb", total_steps=32)
    finished_runs(tmp_path / "run", count=int(mode == "offline"))


def test_without_a_login_it_neither_asks_nor_waits(tmp_path: Path) -> None:
    """As a command whose standard input stays open."""
    code = f"from tiny import run; from pathlib import Path; run(Path({str(tmp_path / 'run')!r}), logger='wandb')"
    path = ":".join(sys.path)
    process = subprocess.Popen(
        [sys.executable, "-c", f"import sys; sys.path[:] = {path!r}.split(':'); {code}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        assert process.wait(120.0) == 0
    finally:
        process.kill()
        process.communicate()
    finished_runs(tmp_path / "run")


def test_a_login_is_an_environment_variable_or_the_host_s_entry_in_netrc(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not has_login()
    (tmp_path / "netrc").write_text("machine api.wandb.ai login user password secret\n")
    assert has_login()
    monkeypatch.setenv("WANDB_BASE_URL", "https://wandb.example.org:8080")
    assert not has_login()
    monkeypatch.setenv("WANDB_API_KEY", "secret")
    assert has_login()


# ---- TensorBoard --------------------------------------------------------------------------------------


def test_tensorboard_shows_the_curve_of_a_resumed_training_once(tmp_path: Path) -> None:
    interrupt(tmp_path, 230, asked(logger="tensorboard"))
    resume_training(tmp_path)
    events = EventAccumulator(str(tmp_path / "tensorboard"), purge_orphaned_data=True).Reload()
    for name in ("validation/score", "rollout/reward", "train/loss"):
        shown = [(event.step, pytest.approx(event.value, rel=1e-6)) for event in events.Scalars(name)]
        assert curve(tmp_path).drop_nulls(name).select("step", name).rows() == shown
    assert "curve" in events.Tags()["images"]
    texts = events.Tags()["tensors"]
    assert {"config/text_summary", "validation/text_summary", "exit_code/text_summary"} <= set(texts)


# ---- any ----------------------------------------------------------------------------------------------


def test_a_logger_changes_nothing_in_the_training(tmp_path: Path) -> None:
    one, other = run(tmp_path / "none"), run(tmp_path / "tensorboard", logger="tensorboard")
    for name in ("metrics.parquet", "validation.parquet"):
        assert (one / name).read_bytes() == (other / name).read_bytes()


@pytest.mark.parametrize(
    ("logger", "says"),
    [
        ({"name": "wnb"}, "logger: is 'wnb'; "),
        ({"name": "wandb", "mode": "on"}, "logger.mode: is 'on', expected one of 'online', 'offline' or 'disabled'"),
        ({"name": "wandb", "tag": ["x"]}, "logger.tag: is no field; did you mean tags"),
        ({"name": "none", "project": "x"}, "logger.project: is no field"),
    ],
)
def test_a_wrong_setting_is_one_clear_error(logger: dict[str, Any], says: str, tmp_path: Path) -> None:
    with pytest.raises(bbrgym.ConfigError, match=says):
        run(tmp_path / "run", logger=logger)
    assert not (tmp_path / "run").exists()


def test_a_table_comes_whole(tmp_path: Path) -> None:
    table = pl.DataFrame({"seed": range(200), "score": [0.5] * 200})
    with logged(TensorboardSettings(), LoggedRun("train", "name", "group", {}, tmp_path)) as logger:
        logger.table(3, "mine", table)
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    (event,) = events.Tensors("mine/text_summary")
    assert event.step == 3
    assert len(event.tensor_proto.string_val[0].decode().splitlines()) == 202


def test_a_record_that_is_being_written_is_left_out(tmp_path: Path) -> None:
    (file,) = finished_runs(run(tmp_path / "run", logger=WANDB, total_steps=32))
    whole, cut = file.read_bytes(), tmp_path / "cut.wandb"
    counts = []
    for length in range(7, len(whole) + 1, 101):
        cut.write_bytes(whole[:length])
        counts.append(len(list(records(cut))))
    assert counts == sorted(counts)
    assert counts[0] == 0
    assert len(list(records(file))) >= counts[-1] > 0
