# SPDX-License-Identifier: GPL-2.0-only
"""benchmarks/test_matrix.py runs what it says under the conditions that it says."""

import importlib
import os
import re
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def matrix(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("test_matrix")


def test_the_tests_that_use_a_compiler_are_found_by_what_they_use(matrix):
    files = matrix.compiling_tests()
    direct, by_a_module, by_their_conftest = "cc/test_fuzz.py", "twin/test_fuzz.py", "tcp/test_sender.py"
    assert {f"tests/{name}" for name in (direct, by_a_module, by_their_conftest)} <= set(files)
    assert "tests/scenario/test_errors.py" not in files


def test_each_compiler_condition_is_what_it_says(matrix):
    with matrix.without_clang() as setting:
        path = dict(setting.environment)["PATH"]
        assert shutil.which("clang", path=path) is None
        assert shutil.which("git", path=path)
    if matrix.sanitizes("clang"):
        with matrix.without_runtime() as setting:
            clang = shutil.which("clang", path=dict(setting.environment)["PATH"])
            assert clang
            assert not matrix.sanitizes(clang)


def test_a_row_holds_the_counts_of_its_run_and_is_not_made_twice(matrix, tmp_path, monkeypatch):
    monkeypatch.setenv("BBRGYM_BUILD_DIR", os.environ.get("BBRGYM_BUILD_DIR", str(tmp_path)))
    outcomes = tmp_path / "test_outcomes.py"
    outcomes.write_text(
        "import pytest\n"
        "def test_passes(): pass\n"
        "@pytest.mark.skip(reason='to be counted')\n"
        "def test_skips(): pass\n"
        "def test_fails(): raise ValueError\n"
        "@pytest.fixture\n"
        "def broken(): raise ValueError\n"
        "def test_has_an_error(broken): pass\n"
    )
    with matrix.pinned() as setting:
        cores, *counts, seconds, load = matrix.run(setting, [str(outcomes)], 300.0)
    assert (cores, counts) == ("1", ["1", "1", "2"])
    assert float(seconds) > 0
    assert re.fullmatch(r"[\d.]+ to [\d.]+", load)
    page = tmp_path / "page.md"
    assert matrix.rows_of(page, "0123abcd", "pinned") == 0
    with page.open("a") as text:
        text.write("| 2026-11-22 | 0123abcd | pinned | 1 | 1 | 1 | 1 | 2 | 3 | 0.1 to 0.2 |\n")
    assert matrix.rows_of(page, "0123abcd", "pinned") == 1
    assert matrix.rows_of(page, "0123abcd", "idle") == matrix.rows_of(page, "4567abcd", "pinned") == 0
