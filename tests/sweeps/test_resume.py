# SPDX-License-Identifier: GPL-2.0-only
"""Sweeps that are interrupted, and how they go on."""

import signal
from pathlib import Path

import polars as pl
import pytest
from small import GRID, LONG, running_below, scenario, start, states, step_of, summary, sweep
from waiting import wait_until

from bbrgym.cli.sweep import sweep_from
from bbrgym.errors import ConfigError

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
        if begun.returncode != 0 and 0 < step_of(out, "seed-2") < 16000:
            break
    assert begun.returncode == (130 if sent is signal.SIGTERM else -sent), errors
    return out


def test_a_job_that_takes_too_long_is_ended_and_can_go_on(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = sweep(scenario(tmp_path), *GRID, "job_timeout_s=0.05", f"sweep_dir={out}")
    assert done.returncode == 1
    assert "train timed out: after 0.05 s" in done.stderr
    assert sweep(f"resume={out}", "job_timeout_s=100").returncode == 0
    assert states(out)["train"]["status"] == "done"


def test_a_folder_is_not_overwritten_and_holds_one_sweep(tmp_path: Path) -> None:
    options = [scenario(tmp_path), *GRID, f"sweep_dir={tmp_path / 'out'}"]
    sweep_from(options)
    with pytest.raises(ConfigError, match="is not empty, expected a new one, or resume=true"):
        sweep_from(options)
    with pytest.raises(ConfigError, match=r"holds job train with .* expected the same options"):
        sweep_from([*(one for one in options if "total_steps" not in one), "resume=true"])
