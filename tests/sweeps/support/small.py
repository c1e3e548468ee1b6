# SPDX-License-Identifier: GPL-2.0-only
"""Multiruns of trainings that take a second or two, most of it the start of a process."""

import contextlib
import importlib.util
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import psutil
import pytest
from waiting import wait_until

from bbrgym.cli.main import main

SCENARIO = """\
name: small
variables: {rate_mbps: {log_uniform: [1, 4]}}
duration_s: 2.0
link: {rate_mbps: {value: rate_mbps}, queue: {size_packets: {integer: [5, 30]}}}
flows: [{name: flow, rtt_ms: {uniform: [10, 50]}}]
"""
GRID = [
    *("variant=bbq", "agent=grid", "agent.draws=2", "agent.levels=1000", "action.tunables=[bbq_alpha_us]"),
    *("total_steps=80", "checkpoint_steps=16", "log_steps=8", "validation.draws=2"),
]
NO_LEVELS = [one for one in GRID if "levels" not in one]
#: A training of many checkpoints.
LONG = [*(one for one in GRID if "_steps" not in one), "log_steps=400", "total_steps=4000", "checkpoint_steps=200"]
#: One that does not end within a quarter of an hour.
ENDLESS = [
    *("variant=bbq", "agent=grid", "agent.draws=100", "agent.levels=200", "action.tunables=[bbq_alpha_us,bbq_beta]"),
    *("total_steps=100_000_000", "checkpoint_steps=16", "log_steps=8", "validation.draws=2"),
]


def scenario(folder: Path) -> str:
    """An override that names a scenario's file."""
    path = folder / "small.yaml"
    path.write_text(SCENARIO, encoding="utf-8")
    return f"scenario={path}"


def multirun(*overrides: str, command: str = "train") -> subprocess.CompletedProcess[str]:
    """The command in this process, where all is imported already; its jobs have processes of their own."""
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        code = main([command, "-m", *overrides])
    return subprocess.CompletedProcess(overrides, code, out.getvalue(), errors.getvalue())


@contextlib.contextmanager
def started(*overrides: str) -> Iterator[subprocess.Popen[bytes]]:
    """A multirun that will be interrupted, in a process that has ended when the context is left."""
    command = [sys.executable, "-m", "bbrgym", "train", "-m", *overrides]
    null = subprocess.DEVNULL
    with subprocess.Popen(command, stdin=null, stdout=null, stderr=subprocess.PIPE) as begun:
        try:
            yield begun
        finally:
            begun.kill()


def wait_for_a_checkpoint(out: Path, job: str, begun: subprocess.Popen[bytes]) -> None:
    wait_until(lambda: step_of(out, job) > 0 or begun.poll() is not None)


def needs_launcher(plugin: str) -> None:
    """Skip a test where a launcher of Hydra's is not installed."""
    if importlib.util.find_spec(f"hydra_plugins.hydra_{plugin}_launcher") is None:
        pytest.skip(f"NO HYDRA-{plugin.upper()}-LAUNCHER: hydra/launcher={plugin} is not tested here")


def step_of(out: Path, job: str) -> int:
    """How far a job's last checkpoint is."""
    path = out / job / "summary.json"
    return int(json.loads(path.read_text())["step"]) if path.exists() else 0


def running_below(folder: Path) -> list[int]:
    """Processes whose command names something below a folder, the multirun's own and a launcher's not among them."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        words = process.info["cmdline"] or ()
        is_it = "-m" in words and any(f"output_dir={folder}/" in word for word in words)
        if is_it and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process.pid)
    return found


def states(out: Path) -> dict[str, dict[str, Any]]:
    return {path.parent.name: json.loads(path.read_text()) for path in sorted(out.glob("*/job.json"))}


def summary(out: Path) -> pl.DataFrame:
    """Without what a clock says."""
    table = pl.read_parquet(out / "summary.parquet")
    return table.select(name for name in table.columns if not name.endswith("_s"))
