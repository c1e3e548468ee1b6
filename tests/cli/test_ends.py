# SPDX-License-Identifier: GPL-2.0-only
"""Commands that are interrupted at an awkward moment, or that the machine has no threads for."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from owners import SOMEBODY

LONG = ("evaluate", "world=twin", "scenario=steady", "scenario.duration_s=2000", "variants=[bbr]", "output_dir=out")
SHORT = ("evaluate", "world=twin", "scenario=steady", "scenario.duration_s=2", "variants=[bbr]", "output_dir=out")


def run(program: str, *arguments: str, folder: Path, before: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    command = [*before, sys.executable, "-c", program, *arguments]
    environment = {**os.environ, "BBRGYM_FIGURES": "none"}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, cwd=folder, env=environment
    )


DISCARDED = """
import gc, os, signal, sys, threading, time
from bbrgym.cli.main import program

class Rubbish:
    def __init__(self):
        self.itself = self
    def __del__(self):
        times.append(time.monotonic())
        os.kill(os.getpid(), getattr(signal, sys.argv.pop(1)) if len(times) == 1 else signal.SIGCONT)
        while time.monotonic() < times[0] + 0.05:  # also when the interrupt comes again
            pass

times = []
from bbrgym.evaluate import runner
wait = runner.wait
def wait_with_rubbish(*arguments, **options):
    if not times:
        Rubbish()
        gc.collect()
    return wait(*arguments, **options)
runner.wait = wait_with_rubbish
signal.signal(signal.SIGINT, signal.default_int_handler)
program()
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_an_interrupt_that_arrives_in_a_destructor_ends_the_command(name: str, tmp_path: Path) -> None:
    code = DISCARDED.replace("sys.argv.pop(1)", repr(name))
    done = run(code, *LONG, folder=tmp_path)
    assert done.returncode == 130, done.stderr
    assert "Exception ignored" not in done.stderr
    assert done.stderr.endswith("what is finished is kept; bbrgym evaluate output_dir=out resume=true goes on\n")


LIMITED = """
import os, resource, sys
from bbrgym.cli import evaluate, main
import bbrgym.report.report, bbrgym._twin, polars
kind, left = getattr(resource, sys.argv[1]), int(sys.argv[2])
if sys.argv[1] == "RLIMIT_AS":
    left += int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(kind, (left, left))
sys.argv[1:3] = []
main.program()
"""


@pytest.mark.parametrize("left_mb", [20, *(pytest.param(one, marks=pytest.mark.slow) for one in (10, 40))])
def test_too_little_memory_for_the_threads_of_polars_is_one_line_before_the_work(left_mb: int, tmp_path: Path) -> None:
    done = run(LIMITED, "RLIMIT_AS", str(left_mb * 10**6), *SHORT, folder=tmp_path)
    assert done.returncode == 1, done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert "out of memory" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("threads", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_too_few_threads_are_one_line_before_the_work(threads: int, tmp_path: Path) -> None:
    done = run(LIMITED, "RLIMIT_NPROC", str(threads), *SHORT, folder=tmp_path, before=SOMEBODY)
    assert done.returncode == 1, done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert "cannot start its threads" in done.stderr
    assert list(tmp_path.iterdir()) == []
