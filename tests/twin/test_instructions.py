# SPDX-License-Identifier: GPL-2.0-only
"""The twin's instructions per packet against their history, benchmarks/twin_instructions.csv."""

import csv
import importlib
import shutil
from pathlib import Path

import pytest
from machine_needs import needs

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def benchmark(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("twin_instructions")


# It compiles the twin as the build does, and runs it in valgrind; by a compiler without a line in the history twice.
@pytest.mark.slow
@pytest.mark.timeout(1800)
@needs("valgrind")
@pytest.mark.skipif(not shutil.which("g++"), reason="the history is of g++")
def test_a_packet_takes_no_more_instructions_than_recorded(benchmark, tmp_path):
    allowed = benchmark.allowed_by(benchmark.HISTORY, tmp_path)
    assert benchmark.risen_runs(benchmark.counted(ROOT, tmp_path), allowed) == []


def test_without_a_line_of_the_compiler_the_last_revision_is_counted(benchmark, tmp_path, monkeypatch):
    monkeypatch.setattr(benchmark, "compiler", lambda: "another")
    monkeypatch.setattr(benchmark, "sources_of", lambda revision, folder: folder / revision)
    monkeypatch.setattr(benchmark, "counted", lambda sources, folder: [sources])
    with benchmark.HISTORY.open(encoding="utf-8", newline="") as lines:
        history = csv.DictReader(lines)
        last = list(history)[-1]["revision"]
    assert benchmark.allowed_by(benchmark.HISTORY, tmp_path) == [tmp_path / last]
    assert history.fieldnames[4:] == [str(run) for run in benchmark.RUNS]


def test_a_history_that_allows_nothing_is_an_error(benchmark, tmp_path):
    history = tmp_path / "history.csv"
    with history.open("w", encoding="utf-8", newline="") as lines:
        csv.writer(lines).writerows([["revision", "compiler"], ["no-such-revision", "another"]])
    with pytest.raises(RuntimeError, match=r"no-such-revision cannot be counted: .*expected a clone with its history"):
        benchmark.allowed_by(history, tmp_path)


def test_the_last_line_of_the_same_compiler_counts(benchmark, tmp_path):
    history = tmp_path / "history.csv"
    with history.open("w", encoding="utf-8", newline="") as lines:
        writer = csv.writer(lines)
        writer.writerow(["revision", "committed", "compiler", "counted", *map(str, benchmark.RUNS)])
        for compiler, count in (("one", 100.0), ("one", 90.0), ("other", 50.0)):
            writer.writerow(["0123abcd", "2026-01-01", compiler, "2026-01-02", *[count] * len(benchmark.RUNS)])
    assert benchmark.last_recorded(history, "one") == [90.0] * len(benchmark.RUNS)
    assert benchmark.last_recorded(history, "a third") == []


def test_five_percent_more_is_told_run_by_run(benchmark):
    recorded = [100.0] * len(benchmark.RUNS)
    within, beyond = [104.9] * len(benchmark.RUNS), [100.0, 105.1, *[90.0] * (len(benchmark.RUNS) - 2)]
    assert benchmark.risen_runs(within, recorded) == []
    (sentence,) = benchmark.risen_runs(beyond, recorded)
    assert sentence.startswith(
        "cubic, 100 Mbit/s, 2, 10 s, 0: 105 instructions per packet, recorded are 100: 1.051 times"
    )
