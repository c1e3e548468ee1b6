# SPDX-License-Identifier: GPL-2.0-only
"""What loggers keep of a training, read back."""

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("stable_baselines3", reason="what is logged is a training")
pytest.importorskip("tensorboard", reason="what is tested")

import polars as pl
from machine_needs import needs_modules
from offline import finished_runs, records
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tiny import SHORT, asked, curve, interrupt, run

import bbrgym
from bbrgym.agents.training.train_agent import resume_training
from bbrgym.cli.main import main
from bbrgym.errors import ConfigError, TrainingError
from bbrgym.loggers.logger import LoggedRun, Logger, SeveralLoggers, logged
from bbrgym.loggers.tensorboard import TensorboardSettings
from bbrgym.loggers.wandb import has_login

pytestmark = needs_modules("wandb", reason="what is tested")

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


EVALUATION = ("scenario=steady", "scenario.duration_s=1", "world=twin", "variants=[bbr,cubic]")


@pytest.mark.usefixtures("undrawn")
def test_a_run_without_a_login_asks_nothing_and_carries_commit_code_console_and_provenance(tmp_path: Path) -> None:
    """The standard input of the command stays open."""
    folder = tmp_path / "run"
    own = ["logger=wandb", f"output_dir={folder}"]
    command = [sys.executable, "-m", "bbrgym", "evaluate", *EVALUATION, *own]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT) as process:
        try:
            assert process.wait(120.0) == 0
        finally:
            process.kill()
    (file,) = finished_runs(folder)
    kept = everything(file)
    (origin,) = json.loads((folder / "provenance.json").read_text())
    assert kept["config"]["provenance"] == {
        **origin,
        "packages": [f"{name}=={version}" for name, version in origin["packages"].items()],
    }
    if origin["commit"] != "unknown":
        assert kept["run"].git.commit == origin["commit"]
    (sources,) = (artifact for artifact in kept["artifacts"] if artifact.type == "code")
    names = {entry.path for entry in sources.manifest.contents}
    assert {"bbrgym/runs/run_folder.py", "bbrgym/agents/sb3.py", "bbrgym/conf/train.yaml"} <= names
    assert "steady on twin, one seed" in (file.parent / "files" / "output.log").read_text()


@pytest.mark.usefixtures("undrawn")
def test_a_training_that_breaks_is_finished_as_broken(tmp_path: Path) -> None:
    with pytest.raises(TrainingError):
        run(tmp_path / "run", logger=WANDB, agent=BROKEN)
    (file,) = finished_runs(tmp_path / "run")
    assert everything(file)["exit"] == 1


ENVIRONMENT = {
    "WANDB_PROJECT": "theirs",
    "WANDB_RUN_GROUP": "a group",
    "WANDB_NAME": "a name",
    "WANDB_TAGS": "three,four",
    "WANDB_JOB_TYPE": "a job",
    "WANDB_NOTES": "a note",
    "WANDB_RUN_ID": "abc123",
}


@pytest.mark.usefixtures("undrawn")
def test_the_environment_counts_unless_the_options_say_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    own = {"project": "mine", "group": "ours", "run_name": "first", "tags": ["one"], "job_type": "work", "notes": "no"}
    found = []
    for name, options in (("theirs", {}), ("own", own)):
        folder = run(tmp_path / name, logger={"name": "wandb", "mode": "offline", **options}, total_steps=32)
        (file,) = finished_runs(folder)
        one = everything(file)["run"]
        found.append((one.project, one.run_group, one.display_name, list(one.tags), one.job_type, one.notes))
        assert one.run_id == "abc123"
    assert found[0] == ("theirs", "a group", "a name", ["three", "four"], "a job", "a note")
    assert found[1] == ("mine", "ours", "first", ["one"], "work", "no")


@pytest.mark.usefixtures("undrawn")
def test_a_run_that_has_begun_is_logged_into_and_left_open(tmp_path: Path) -> None:
    import wandb

    own = {"mine": 1, "scenario": "steady", "seed": 77}
    with wandb.init(project="theirs", mode="offline", dir=str(tmp_path), config=own) as begun:
        begun.log({"loss": 3.0})
        folder = run(tmp_path / "run", logger={"name": "wandb", "tags": ["one"]}, total_steps=32)
        assert wandb.run is begun
        begun.log({"loss": 2.0})
        apart = run(tmp_path / "apart", logger={"name": "wandb", "mode": "offline", "project": "mine"}, total_steps=32)
        assert wandb.run is begun
    (file,) = finished_runs(tmp_path)
    kept = everything(file)
    ours = kept["config"].pop("bbrgym")
    assert {name: value for name, value in kept["config"].items() if name != "_wandb"} == own
    assert (ours["total_steps"], ours["scenario"]["name"], ours["seed"]) == (32, "tiny", 1)
    assert [row["loss"] for row in kept["history"] if "loss" in row] == [3.0, 2.0]
    rows = [(row["step"], row["validation/score"]) for row in kept["history"] if "validation/score" in row]
    assert rows == curve(folder).drop_nulls("validation/score").select("step", "validation/score").rows()
    assert (kept["exit"], list(kept["run"].tags)) == (0, ["one"])
    assert not (folder / "wandb").exists()
    (file,) = finished_runs(apart)
    assert everything(file)["run"].project == "mine"


def test_another_tracker_in_its_place_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = ModuleType("trackio")
    other.run, other.Artifact = None, object  # it has much of what W&B has
    monkeypatch.setitem(sys.modules, "wandb", other)
    with pytest.raises(ConfigError, match=r"^logger: is wandb, whose place trackio has taken, .*examples/trackers.py"):
        run(tmp_path / "run", logger="wandb", total_steps=32)


@pytest.mark.usefixtures("undrawn")
def test_wandb_mode_is_respected_and_jobs_of_one_process_have_runs_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = []
    for mode in ("offline", "disabled", "offline"):
        monkeypatch.setenv("WANDB_MODE", mode)
        folder = run(tmp_path / f"run-{len(kept)}-{mode}", logger="wandb", seed=1 + len(kept), total_steps=32)
        kept += [everything(file) for file in finished_runs(folder, count=int(mode == "offline"))]
    assert [one["config"]["seed"] for one in kept] == [1, 2]
    assert len({one["run"].run_id for one in kept}) == 2


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


# ---- several ------------------------------------------------------------------------------------------


def test_several_loggers_are_told_the_same_of_a_resumed_training(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    several = {"csv": {}, "wandb": {"mode": "offline", "code": False}, "tensorboard": {}}
    interrupt(folder, 230, asked(logger=several))
    resume_training(folder)  # its config.yaml is read again
    without = run(tmp_path / "without")  # a logger changes nothing in the training
    for name in ("metrics.parquet", "validation.parquet"):
        assert (without / name).read_bytes() == (folder / name).read_bytes()
    expected = curve(folder)

    first, second = (everything(file) for file in finished_runs(folder, 2))
    assert first["run"].run_id == second["run"].run_id
    assert (first["exit"], second["exit"]) == (1, 0)
    assert sorted(one.type for one in second["artifacts"]) == ["model", "run_table"]
    rows = [row for one in (first, second) for row in one["history"] if "validation/score" in row]
    scores = {row["step"]: row["validation/score"] for row in rows}
    assert sorted(scores.items()) == expected.drop_nulls("validation/score").select("step", "validation/score").rows()

    events = EventAccumulator(str(folder / "tensorboard"), purge_orphaned_data=True).Reload()
    for name in ("validation/score", "rollout/reward", "train/loss"):
        shown = [(event.step, pytest.approx(event.value, rel=1e-6)) for event in events.Scalars(name)]
        assert expected.drop_nulls(name).select("step", name).rows() == shown
    assert "curve" in events.Tags()["images"]
    texts = events.Tags()["tensors"]
    assert {"config/text_summary", "validation/text_summary", "exit_code/text_summary"} <= set(texts)

    kept = pl.read_csv(folder / "csv" / "metrics.csv")
    assert set(kept.columns) == {*expected.columns, "time/steps_per_s"}
    for name in expected.columns:
        assert kept[name].to_list() == pytest.approx(expected[name].to_list())
    assert pl.read_csv(folder / "csv" / "validation.csv")["step"].unique().to_list() == [320]
    outcome = dict(pl.read_csv(folder / "csv" / "summary.csv", infer_schema=False).iter_rows())
    assert float(outcome["best_score"]) == json.loads((folder / "summary.json").read_text())["best_score"]
    (folder / "csv" / "metrics.csv").write_text("a,b\n1,2\n")
    with pytest.raises(bbrgym.ConfigError, match=r"cannot read '.*csv/metrics.csv', it is damaged"):
        resume_training(folder)


def test_the_command_takes_several_and_says_how_to_sync(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short = ["agent.n_steps=2", "agent.batch_size=4", "agent.n_epochs=1", "total_steps=8"]
    own = ["logger=[wandb,csv]", "logger.wandb.mode=offline", "logger.wandb.tags=[one]", f"output_dir={tmp_path}/a b"]
    assert main(["train", *SHORT, *short, *own]) == 0
    (file,) = finished_runs(tmp_path / "a b")
    line = f"kept offline: wandb sync '{file.parent}' uploads it"
    assert capsys.readouterr().out.splitlines().count(line) == 1
    assert list(everything(file)["run"].tags) == ["one"]
    assert (tmp_path / "a b" / "csv" / "metrics.csv").exists()


def test_an_evaluation_is_logged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loggers = ["logger=[wandb,tensorboard,csv]", "logger.wandb.mode=offline", "logger.wandb.group=mine"]
    folder = tmp_path / "run"
    assert main(["evaluate", *EVALUATION, *loggers, f"output_dir={folder}"]) == 0
    assert f"wandb sync {folder}/wandb/offline-run-" in capsys.readouterr().out
    (file,) = finished_runs(folder)
    kept = everything(file)
    assert (kept["run"].job_type, kept["run"].run_group) == ("evaluate", "mine")
    assert kept["config"]["variants"] == ["bbr", "cubic"]
    summary = pl.read_parquet(folder / "summary.parquet")
    scores = dict(summary.select("variant", "score").unique().iter_rows())
    assert {name: kept["summary"][f"twin/{name}/score"] for name in scores} == scores
    written = pl.read_csv(folder / "csv" / "metrics.csv")
    assert {name: written[f"twin/{name}/score"].item() for name in scores} == pytest.approx(scores)
    assert pl.read_csv(folder / "csv" / "runs.csv")["entrant"].to_list() == ["bbr", "cubic"]
    events = EventAccumulator(str(folder / "tensorboard")).Reload()
    assert "figures/goodput" in events.Tags()["images"]
    assert (folder / "report.html").exists()
    assert main(["evaluate", f"output_dir={folder}", "resume=true"]) == 0  # and without loggers again


def test_an_evaluation_in_python_is_logged(tmp_path: Path) -> None:
    short = {**bbrgym.load_scenario("steady").model_dump(), "duration_s": 1.0, "warmup_s": 0.0}
    with pytest.raises(bbrgym.ConfigError, match=r"logger: is 'csv' without output_dir"):
        bbrgym.evaluate(short, ["bbr"], world="twin", logger="csv")
    loggers = {"csv": {}, "wandb": {"mode": "offline", "code": False}}
    rows = bbrgym.evaluate(short, ["bbr"], world="twin", output_dir=tmp_path, logger=loggers)
    (file,) = finished_runs(tmp_path)
    assert everything(file)["summary"]["twin/bbr/score"] == rows["score"].mean()
    assert pl.read_csv(tmp_path / "csv" / "runs.csv")["score"].mean() == pytest.approx(rows["score"].mean())


@pytest.mark.parametrize(
    ("command", "options", "says"),
    [
        ("train", ["logger=[wandb,wnb]"], "logger: is 'wnb'; "),
        ("train", ["logger=[csv,csv]"], "logger: is ['csv', 'csv'], expected at least one of csv, none, "),
        ("evaluate", ["logger=[wandb,csv]", "logger.wandb.tag=[x]"], "logger.wandb.tag: is not a field; did you mean"),
        ("evaluate", ["logger=wandb", "logger.mode=on"], "logger.mode: is 'on', expected one of"),
        ("train", ["logger=none", "logger.project=x"], "logger.project: is not a field"),
    ],
)
def test_a_wrong_option_is_one_clear_line(
    command: str, options: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, *options, f"output_dir={tmp_path / 'run'}"]) == 2
    assert capsys.readouterr().err.startswith(f"bbrgym: {says}")
    assert not (tmp_path / "run").exists()


# ---- any ----------------------------------------------------------------------------------------------


class _Full(Logger):
    def __init__(self) -> None:
        self.ended: list[int] = []

    def finish(self, exit_code: int) -> None:
        self.ended.append(exit_code)
        raise OSError("no space left")


def test_each_of_several_loggers_is_finished_though_one_cannot_be() -> None:
    loggers = [_Full(), _Full()]
    with pytest.raises(OSError, match="no space left"):
        SeveralLoggers(loggers).finish(1)
    assert [one.ended for one in loggers] == [[1], [1]]


def test_a_table_comes_whole(tmp_path: Path) -> None:
    table = pl.DataFrame({"seed": range(200), "score": [0.5] * 200})
    with logged(TensorboardSettings(), LoggedRun("train", "name", "group", {}, tmp_path)) as logger:
        logger.table(3, "mine", table)
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    (event,) = events.Tensors("mine/text_summary")
    assert event.step == 3
    assert len(event.tensor_proto.string_val[0].decode().splitlines()) == 202
