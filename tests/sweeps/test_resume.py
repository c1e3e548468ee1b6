# SPDX-License-Identifier: GPL-2.0-only
"""Sweeps that are interrupted, and how they go on."""

import shutil
import signal
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from small import GRID, LONG, running_below, scenario, start, states, step_of, summary, sweep
from waiting import wait_until

from bbrgym.cli.sweep import sweep_from
from bbrgym.errors import ConfigError, SweepError
from bbrgym.sweeps.launchers.joblib_jobs import JoblibLauncher
from bbrgym.sweeps.launchers.launcher import Launcher
from bbrgym.sweeps.launchers.submitit_jobs import SubmititLauncher
from bbrgym.sweeps.search import SearchSettings, Study
from bbrgym.sweeps.sweep_folder import SweepFolder

pytest.importorskip("joblib", reason="NO JOBLIB: what starts the jobs; pip install 'bbrgym[train]'")

OPTIONS = [*(one for one in GRID if "_steps" not in one), "log_steps=400", *LONG, "seed=1,2"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sweep that nobody interrupts."""
    folder = tmp_path_factory.mktemp("whole")
    done = sweep(scenario(folder), *OPTIONS, "launcher.n_jobs=2", f"sweep_dir={folder / 'out'}")
    assert done.returncode == 0, done.stderr
    return folder / "out"


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_sweep_goes_on_to_what_it_would_have_been(
    sent: signal.Signals, whole: Path, tmp_path: Path
) -> None:
    out = interrupted_in_the_second_job(sent, tmp_path)
    first = states(out)["seed-1"]
    assert first["status"] == "done"
    assert not (out / "summary.parquet").exists()

    done = sweep(f"resume={out}", "launcher.n_jobs=2")
    assert done.returncode == 0, done.stderr
    assert states(out)["seed-1"] == first  # it did not run again
    assert states(out)["seed-2"]["status"] == "done"
    assert summary(out).equals(summary(whole))
    assert pl.read_parquet(out / "curves.parquet").equals(pl.read_parquet(whole / "curves.parquet"))


def interrupted_in_the_second_job(sent: signal.Signals, folder: Path) -> Path:
    """Return the folder of a sweep that got a signal; begin again where the sweep was quicker than the signal."""
    for attempt in range(5):
        out = folder / f"out-{attempt}"
        begun = start(scenario(folder), *OPTIONS, f"sweep_dir={out}")
        try:
            wait_until(lambda out=out, begun=begun: step_of(out, "seed-2") > 0 or begun.poll() is not None)
            begun.send_signal(sent)
            _, errors = begun.communicate(timeout=120)
        finally:
            begun.kill()
            begun.wait(120.0)
        wait_until(lambda out=out: not running_below(out))  # no job outlives its sweep
        if begun.returncode != 0 and 0 < step_of(out, "seed-2") < 4000:
            break
    assert begun.returncode == (130 if sent is signal.SIGTERM else -sent), errors
    if sent is signal.SIGTERM:
        assert errors.decode().endswith(f"what is finished is kept; bbrgym sweep resume={out} goes on\n")
    return out


def test_a_job_that_takes_too_long_is_ended_and_can_go_on(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = sweep(scenario(tmp_path), *GRID, "job_timeout_s=0.05", f"sweep_dir={out}")
    assert done.returncode == 1
    assert "train timed out: after 0.05 s" in done.stderr
    assert sweep(f"resume={out}", "job_timeout_s=100").returncode == 0
    assert states(out)["train"]["status"] == "done"


@pytest.mark.parametrize(
    ("given", "differs"),
    [
        ([], {}),
        (["launcher.n_jobs=3"], {"n_jobs": 3}),
        (
            ["launcher.parameters.slurm_account=mine"],
            {"parameters": {"slurm_partition": "cpu", "slurm_account": "mine"}},
        ),
        (["launcher=joblib"], None),
        (["launcher=joblib", "launcher.n_jobs=2"], {"n_jobs": 2}),
    ],
)
def test_a_resumed_sweep_keeps_its_launcher(
    given: list[str], differs: dict[str, Any] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[Launcher] = []
    for launcher in (JoblibLauncher, SubmititLauncher):
        monkeypatch.setattr(launcher, "run", lambda self, tasks: ran.append(self) or iter(()))
        monkeypatch.setattr(launcher, "library", None)
    asked = ["launcher=submitit", "launcher.cluster=local", "launcher.parameters.slurm_partition=cpu"]
    sweep_from([scenario(tmp_path), *GRID, *asked, f"sweep_dir={tmp_path / 'out'}"])
    sweep_from([f"resume={tmp_path / 'out'}", *given])
    first, second = ran
    assert isinstance(first, SubmititLauncher)
    is_same = "launcher=joblib" not in given
    expected = first.model_dump() if is_same else JoblibLauncher(name="joblib").model_dump()
    assert second.model_dump() == {**expected, **(differs or {})}
    sweep_from([f"resume={tmp_path / 'out'}"])  # and this one the launcher that was given last
    sweep_from([scenario(tmp_path), *GRID, f"sweep_dir={tmp_path / 'out'}", "resume=true"])
    assert ran[2:] == [second, second]


@pytest.mark.parametrize("name", ["states/train.json", "jobs/train/summary.json", "jobs/train/metrics.parquet"])
def test_a_damaged_file_is_one_clear_error(name: str, swept: Path, tmp_path: Path) -> None:
    out = shutil.copytree(swept, tmp_path / "out")
    for damage in (b"", b"{"):
        (out / name).write_bytes(damage)
        with pytest.raises(ConfigError, match=f"cannot read '.*{name}', it is damaged or missing: ") as caught:
            sweep_from([f"resume={out}"])
        assert "\n" not in str(caught.value)


def test_a_damaged_study_is_one_clear_error(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    path = tmp_path / "study.db"
    path.write_bytes(b"no database" * 1000)
    with pytest.raises(SweepError, match=r"cannot use '.*study.db', Optuna's study of the search: ") as caught:
        Study(path, SearchSettings(params={"seed": "range(1,3)"}))
    assert "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("swept")
    sweep_from([scenario(folder), *GRID, f"sweep_dir={folder / 'out'}"])
    return folder / "out"


def test_a_folder_is_not_overwritten_and_holds_one_sweep(tmp_path: Path) -> None:
    options = [scenario(tmp_path), *GRID, f"sweep_dir={tmp_path / 'out'}"]
    folder = SweepFolder(tmp_path / "out")
    with folder.opened(resume=False), pytest.raises(ConfigError, match="is in use by bbrgym sweep, process"):
        sweep_from(options)
    sweep_from(options)
    with pytest.raises(ConfigError, match="is not empty, expected a new one, or resume=true"):
        sweep_from(options)
    with pytest.raises(ConfigError, match=r"holds job train with .* expected the same options"):
        sweep_from([*(one for one in options if "total_steps" not in one), "resume=true"])
