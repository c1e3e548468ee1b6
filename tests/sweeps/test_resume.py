# SPDX-License-Identifier: GPL-2.0-only
"""Multiruns that are interrupted, and how they go on."""

import contextlib
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import psutil
import pytest
from small import (
    ENDLESS,
    GRID,
    LONG,
    multirun,
    running_below,
    scenario,
    started,
    states,
    step_of,
    summary,
    wait_for_a_checkpoint,
)
from waiting import PATIENCE_S, wait_until

pytestmark = pytest.mark.usefixtures("undrawn_file")

OPTIONS = [*LONG, "seed=1,2"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The multirun that nobody interrupts."""
    folder = tmp_path_factory.mktemp("whole")
    done = multirun(scenario(folder), *OPTIONS, f"hydra.sweep.dir={folder / 'out'}")
    assert done.returncode == 0, done.stderr
    return folder / "out"


@pytest.mark.parametrize(
    "sent", [signal.SIGINT, *(pytest.param(one, marks=pytest.mark.slow) for one in (signal.SIGTERM, signal.SIGKILL))]
)
def test_an_interrupted_multirun_goes_on_to_what_it_would_have_been(
    sent: signal.Signals, whole: Path, tmp_path: Path
) -> None:
    out = interrupted_in_the_second_job(sent, tmp_path)
    first = states(out)["seed-1"]
    assert first["status"] == "done"
    assert states(out).get("seed-2", {"status": "interrupted"})["status"] == "interrupted"
    assert not (out / "summary.parquet").exists()

    done = multirun(scenario(tmp_path), *OPTIONS, f"hydra.sweep.dir={out}")
    assert done.returncode == 0, done.stderr
    assert not running_below(out)  # no job outlives its multirun
    assert states(out)["seed-1"] == first  # it did not run again
    assert states(out)["seed-2"]["status"] == "done"
    assert (out / "seed-2" / "job.log").read_text().count("$ bbrgym train") == 2
    assert summary(out).equals(summary(whole))
    assert pl.read_parquet(out / "curves.parquet").equals(pl.read_parquet(whole / "curves.parquet"))


def interrupted_in_the_second_job(sent: signal.Signals, folder: Path) -> Path:
    """Return the folder of a multirun that got a signal; begin again where it was quicker than the signal."""
    for attempt in range(5):
        out = folder / f"out-{attempt}"
        with started(scenario(folder), *OPTIONS, f"hydra.sweep.dir={out}") as begun:
            wait_for_a_checkpoint(out, "seed-2", begun)
            begun.send_signal(sent)
            _, errors = begun.communicate(timeout=PATIENCE_S)
        if sent is not signal.SIGKILL:  # the next one waits for what a killed one leaves
            wait_until(lambda out=out: not running_below(out))
        if begun.returncode != 0 and 0 < step_of(out, "seed-2") < 4000:
            break
    assert begun.returncode == (-sent if sent is signal.SIGKILL else 130), errors
    if sent is not signal.SIGKILL:
        assert b"what is finished is kept; bbrgym train -m" in errors
        assert errors.endswith(b" goes on\n")
    return out


def test_a_job_that_takes_too_long_is_ended_and_can_go_on(tmp_path: Path) -> None:
    out = f"hydra.sweep.dir={tmp_path / 'out'}"
    options = [scenario(tmp_path), *GRID, out]
    done = multirun(*options, "+hydra.job.env_set.BBRGYM_JOB_TIMEOUT_S='0.05'")
    assert done.returncode == 1
    assert "train timed out: after 0.05 s" in done.stderr
    assert multirun(*options).returncode == 0
    assert states(tmp_path / "out")["train"]["status"] == "done"


def test_a_damaged_end_of_a_job_is_not_run_over(whole: Path, tmp_path: Path) -> None:
    out = shutil.copytree(whole, tmp_path / "out")
    (out / "seed-1" / "job.json").write_bytes(b"{")
    done = multirun(scenario(whole.parent), *OPTIONS, f"hydra.sweep.dir={out}")
    assert done.returncode == 2
    assert f"bbrgym: cannot read '{out / 'seed-1' / 'job.json'}', it is damaged or missing: " in done.stderr


@contextlib.contextmanager
def stopped(out: Path) -> Iterator[None]:
    """The only job of a multirun takes no processor time meanwhile."""
    (job,) = map(psutil.Process, running_below(out))
    job.suspend()
    try:
        yield
    finally:
        job.resume()


def test_the_same_multirun_at_once_harms_no_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bbrgym.sweeps.jobs._OTHERS_S", 1.0)
    out = tmp_path / "out"
    with started(scenario(tmp_path), *ENDLESS, f"hydra.sweep.dir={out}") as begun:
        wait_for_a_checkpoint(out, "train", begun)
        with stopped(out):
            done = multirun(scenario(tmp_path), *ENDLESS, f"hydra.sweep.dir={out}")
        assert done.returncode == 2
        assert f"bbrgym: hydra.sweep.dir: '{out / 'train'}' is in use by bbrgym train, process" in done.stderr
        assert not states(out)
        assert begun.poll() is None
        before = step_of(out, "train")
        wait_until(lambda: step_of(out, "train") > before)
        begun.terminate()
        begun.communicate(timeout=PATIENCE_S)
    wait_until(lambda: not running_below(out))
