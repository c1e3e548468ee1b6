# SPDX-License-Identifier: GPL-2.0-only
"""The run folder: one owner at a time, whole files or none, on the disk before they have their names."""

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
import special_files

from bbrgym.agents.training.folder import TrainingFolder
from bbrgym.errors import ConfigError
from bbrgym.evaluate.records import EvaluationFolder
from bbrgym.runs.atomic_files import write_atomically, write_text
from bbrgym.runs.run_folder import RunFolder
from bbrgym.sweeps.multirun import MultirunFolder

FOLDERS = [EvaluationFolder, TrainingFolder, MultirunFolder]


# ---- files --------------------------------------------------------------------------------------------


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def fail(partial: Path) -> None:
        partial.write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_atomically(path, fail)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("kind", special_files.KINDS)
def test_what_is_not_a_regular_file_is_not_replaced_by_one(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "out"
    special_files.put_special_file(kind, path)
    before = path.lstat()
    for output in (path, Path("/dev/null")):
        with pytest.raises(
            ConfigError, match=r"' is a (symbolic link|device or a FIFO|folder), expected a regular file"
        ):
            write_text(output, "text")
    assert path.lstat() == before
    assert [one.name for one in tmp_path.iterdir()] == ["out"]


def test_a_file_is_on_the_disk_before_it_has_its_name_and_the_name_thereafter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[tuple[str, bool]] = []
    path = tmp_path / "new" / "deep" / "file"
    fsync = os.fsync

    def record(descriptor: int) -> None:
        flushed.append((str(Path(f"/proc/self/fd/{descriptor}").readlink()), path.exists()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", record)
    write_text(path, "text")
    folders = [str(tmp_path), str(tmp_path / "new")]
    assert flushed[:2] == [(folder, False) for folder in folders]
    (partial, had_name), (folder, has_name) = flushed[2:]
    assert Path(partial).parent == path.parent
    assert partial.endswith(".partial")
    assert (had_name, folder, has_name) == (False, str(path.parent), True)


@pytest.fixture
def small_files() -> Iterator[None]:
    """Files may have 1000 bytes, as on a disk that is nearly full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_table_that_the_disk_has_no_room_for_is_an_os_error_that_names_it(tmp_path: Path, small_files: None) -> None:
    folder = TrainingFolder(tmp_path)
    with pytest.raises(OSError, match=r"File too large: '.*/metrics.parquet'"):
        folder.write_table("metrics.parquet", pl.DataFrame({"step": range(10_000)}))
    assert list(tmp_path.iterdir()) == []


def test_the_same_table_gives_the_same_bytes(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    table = pl.DataFrame({"b": [1.5, None, 3.0]})
    pieces = pl.concat([table, table], rechunk=False)
    folder.write_table("pieces.parquet", pieces)
    folder.write_table("whole.parquet", pl.DataFrame(pieces.to_dict(as_series=False)))
    assert (tmp_path / "pieces.parquet").read_bytes() == (tmp_path / "whole.parquet").read_bytes()


# ---- one owner ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("owner", FOLDERS)
@pytest.mark.parametrize("other", FOLDERS)
def test_a_folder_has_one_owner_whatever_the_commands(
    owner: type[RunFolder], other: type[RunFolder], tmp_path: Path
) -> None:
    folder = owner(tmp_path)
    assert folder.owner() is None
    folder.open(resume=False)
    assert str(other(tmp_path).owner()).startswith(f"bbrgym {owner.command}, process {os.getpid()} on ")
    for resume in (False, True):
        with pytest.raises(ConfigError) as caught:
            other(tmp_path).open(resume=resume)
        said = f"is in use by bbrgym {owner.command}, process {os.getpid()} on "
        assert str(caught.value).startswith(f"{other.option}: {str(tmp_path)!r} {said}")
    folder.close()
    assert folder.owner() is None
    other(tmp_path).open(resume=True)


def test_a_process_that_is_killed_owns_nothing(tmp_path: Path) -> None:
    code = (
        "import os, pathlib, sys; from bbrgym.agents.training.folder import TrainingFolder\n"
        "folder = TrainingFolder(pathlib.Path(sys.argv[1])); folder.open(resume=False); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "run")], timeout=60, check=False)
    assert "bbrgym train" in (tmp_path / "run" / ".lock").read_text()
    assert RunFolder(tmp_path / "run").owner() is None
    TrainingFolder(tmp_path / "run").open(resume=False)  # it held nothing else


def test_a_folder_in_use_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(ConfigError, match="is not empty, expected a new one, or resume=true"):
        EvaluationFolder(tmp_path).open(resume=False)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
    EvaluationFolder(tmp_path).open(resume=True)
    assert (tmp_path / "thesis.txt").read_text() == "precious"


def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="output_dir: cannot use"):
        EvaluationFolder(tmp_path / "file" / "run").open(resume=False)


def test_going_on_clears_what_a_kill_left(tmp_path: Path) -> None:
    left = [".file.1-1.partial", "jobs/.key.summary.parquet.1-1.partial"]
    others = ["jobs/mine.partial", "jobs/running/.lock", "jobs/running/.summary.parquet.2-2.partial"]
    for name in (*left, *others):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("half")
    EvaluationFolder(tmp_path).open(resume=True)
    assert not any((tmp_path / name).exists() for name in left)
    assert all((tmp_path / name).exists() for name in others)


@pytest.mark.parametrize("is_there", [False, True])
def test_an_error_before_anything_is_finished_leaves_the_folder_as_it_was_found(is_there: bool, tmp_path: Path) -> None:
    path = tmp_path / "run"
    if is_there:
        path.mkdir()
    folder = EvaluationFolder(path)

    def refuse(*results: str) -> None:
        with folder.opened(resume=True):
            folder.write_config({"a": 1})
            for name in results:
                folder.write_text(name, "")
            raise ConfigError("wrong")

    with pytest.raises(ConfigError, match="wrong"):
        refuse()
    assert list(tmp_path.rglob("*")) == ([path] if is_there else [])
    with pytest.raises(ConfigError, match="wrong"):
        refuse("jobs/finished.parquet")
    assert (path / "config.yaml").exists()
    with pytest.raises(ConfigError, match="wrong"):
        refuse()
    assert (path / "config.yaml").exists()
