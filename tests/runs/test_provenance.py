# SPDX-License-Identifier: GPL-2.0-only
"""Provenance of results in a run folder."""

import json
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from repository import ROOT, tracked

import bbrgym
from bbrgym.cli.main import main
from bbrgym.runs import provenance
from bbrgym.runs.run_folder import RunFolder

SHORT = ["scenario=steady", "scenario.duration_s=1", "world=twin", "variants=[bbr]"]


class Folder(RunFolder):
    command = "mine"


@pytest.fixture(autouse=True)
def nothing_kept() -> None:
    provenance._commit.cache_clear()


def test_a_checkout_says_its_commit_and_whether_it_was_changed() -> None:
    if Path(bbrgym.__path__[0]).parent.name == "site-packages":
        pytest.skip("an installed wheel: see the test of its file")
    tracked()  # skips where there is no git
    git = ["git", "-c", "safe.directory=*", "-C", str(ROOT)]
    head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True, timeout=60).stdout
    said = provenance.provenance()
    assert said["commit"] == head.strip()
    assert isinstance(said["is_dirty"], bool)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('{"commit": "0a1b", "is_dirty": false}', ("0a1b", False)),
        ('{"commit": "unknown", "is_dirty": null}', ("unknown", None)),
        ("{", ("unknown", None)),
        (None, ("unknown", None)),
    ],
)
def test_a_wheel_says_what_it_was_built_from(
    content: str | None, expected: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site-packages" / "bbrgym"
    package.mkdir(parents=True)
    if content is not None:
        (package / "built_from.json").write_text(content)
    monkeypatch.setattr(provenance, "_PACKAGE", package)
    said = provenance.provenance()
    assert (said["commit"], said["is_dirty"]) == expected
    provenance._commit.cache_clear()


def test_the_build_writes_the_commit() -> None:
    text = (ROOT / "CMakeLists.txt").read_text()
    assert "include(cmake/BuiltFrom.cmake)" in text
    built = Path(bbrgym.__path__[0]) / "built_from.json"
    if built.exists():  # an installed wheel
        assert set(json.loads(built.read_text())) == {"commit", "is_dirty"}


@pytest.mark.parametrize("content", ['{"commit": "0a1b", "is_dirty": false}', None])
def test_an_sdist_hands_its_commit_on(content: str | None, tmp_path: Path) -> None:
    cmake = shutil.which("cmake") or pytest.skip("cmake is not installed")
    source = tmp_path / "source"
    source.mkdir()
    (source / "CMakeLists.txt").write_text(
        f"cmake_minimum_required(VERSION 3.21)\nproject(built NONE)\ninclude({ROOT / 'cmake' / 'BuiltFrom.cmake'})\n"
    )
    if content is not None:
        (source / "built_from.json").write_text(content)
    build = tmp_path / "build"
    for arguments in (["-S", source, "-B", build], ["--install", build, "--prefix", tmp_path]):
        subprocess.run([cmake, *map(str, arguments)], check=True, timeout=60, capture_output=True)
    expected = content or '{"commit": "unknown", "is_dirty": null}'
    assert json.loads((tmp_path / "bbrgym" / "built_from.json").read_text()) == json.loads(expected)


@pytest.mark.usefixtures("undrawn")
def test_an_evaluation_says_machine_packages_and_the_exact_command(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bbrgym", "evaluate", *SHORT, f"output_dir={tmp_path / 'a folder'}"]
    subprocess.run(command, check=True, timeout=300, capture_output=True)
    (said,) = json.loads((tmp_path / "a folder" / "provenance.json").read_text())
    assert (said["version"], said["python"]) == (bbrgym.__version__, platform.python_version())
    assert (said["platform"], said["packages"]["numpy"]) == (platform.platform(), np.__version__)
    assert said["command"].endswith(f"-m bbrgym evaluate scenario=steady scenario.duration_s=1 world=twin "
                                    f"'variants=[bbr]' 'output_dir={tmp_path}/a folder'")  # fmt: skip
    assert said["cpu"]
    assert said["cores"] >= 1


@pytest.mark.usefixtures("undrawn")
def test_a_repeated_command_adds_nothing_and_another_version_an_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Folder(tmp_path / "run")
    for argument in ("first", "again"):
        monkeypatch.setattr(sys, "orig_argv", ["bbrgym", argument])
        with folder.opened(resume=True):
            folder.write_config({})
    assert [one["command"] for one in folder.read_provenance()] == ["bbrgym first"]
    monkeypatch.setattr(provenance, "__version__", "9.9")
    with folder.opened(resume=True):
        folder.write_config({})
    assert [one["version"] for one in folder.read_provenance()] == [bbrgym.__version__, "9.9"]


@pytest.mark.usefixtures("undrawn")
def test_a_damaged_file_is_one_clear_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", *SHORT, f"output_dir={tmp_path}"]) == 0
    (tmp_path / "provenance.json").write_text("{}")
    capsys.readouterr()
    assert main(["evaluate", f"output_dir={tmp_path}", "resume=true"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"bbrgym: cannot read '{tmp_path}/provenance.json', it is damaged or missing")
