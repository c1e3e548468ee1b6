# SPDX-License-Identifier: GPL-2.0-only
"""Sweeps of trainings that take a second or two, most of it the start of a process."""

import contextlib
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import psutil

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
LONG = ["total_steps=4000", "checkpoint_steps=200"]  # many checkpoints
EVALUATION = ["command=evaluate", "scenario.duration_s=1", "world=twin", "variants=[bbr]"]


def scenario(folder: Path) -> str:
    """An override that names a scenario's file."""
    path = folder / "small.yaml"
    path.write_text(SCENARIO, encoding="utf-8")
    return f"scenario={path}"


def sweep(*overrides: str) -> subprocess.CompletedProcess[str]:
    """The command in this process, where all is imported already; its jobs have processes of their own."""
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        code = main(["sweep", *overrides])
    return subprocess.CompletedProcess(["bbrgym", "sweep", *overrides], code, out.getvalue(), errors.getvalue())


def start(*overrides: str) -> subprocess.Popen[bytes]:
    """A sweep that will be interrupted."""
    return subprocess.Popen(
        [sys.executable, "-m", "bbrgym", "sweep", *overrides],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def step_of(folder: Path, job: str) -> int:
    """How far a job's last checkpoint is."""
    path = folder / "jobs" / job / "summary.json"
    return json.loads(path.read_text())["step"] if path.exists() else 0


def running_below(folder: Path, jobs: str = "jobs") -> list[int]:
    """Processes whose command names something below a folder."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        is_it = any(str(folder / jobs) in argument for argument in process.info["cmdline"] or ())
        if is_it and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process.pid)
    return found


def states(folder: Path) -> dict[str, dict[str, Any]]:
    return {path.stem: json.loads(path.read_text()) for path in sorted((folder / "states").glob("*.json"))}


def summary(folder: Path) -> pl.DataFrame:
    """Without what a clock says."""
    table = pl.read_parquet(folder / "summary.parquet")
    return table.select(name for name in table.columns if not name.endswith("_s"))
