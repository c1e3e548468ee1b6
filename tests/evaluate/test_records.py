# SPDX-License-Identifier: GPL-2.0-only
"""The run folder: whole files or none."""

from pathlib import Path

import polars as pl
import pytest

import bbrgym
from bbrgym.evaluate.records import RunFolder, RunRecord
from bbrgym.files import write_atomically

RECORD = RunRecord(pl.DataFrame({"a": [1, 2]}), pl.DataFrame({"b": [1.5, None, 3.0]}), pl.DataFrame({"wall_s": [0.25]}))


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


def test_a_job_comes_back_as_it_was_stored(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.open(resume=False)
    assert not folder.has_job("key")
    folder.store_job("key", RECORD)
    assert folder.has_job("key")
    loaded = folder.load_job("key")
    assert loaded.summary.equals(RECORD.summary)
    assert loaded.timeseries.equals(RECORD.timeseries)
    assert loaded.timing.equals(RECORD.timing)


def test_the_same_table_gives_the_same_bytes(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    pieces = pl.concat([RECORD.timeseries, RECORD.timeseries], rechunk=False)
    folder.write_table("pieces.parquet", pieces)
    folder.write_table("whole.parquet", pl.DataFrame(pieces.to_dict(as_series=False)))
    assert (tmp_path / "pieces.parquet").read_bytes() == (tmp_path / "whole.parquet").read_bytes()


def test_a_folder_in_use_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(bbrgym.ConfigError, match="is not empty, expected a new one, or resume=true"):
        RunFolder(tmp_path).open(resume=False)
    RunFolder(tmp_path).open(resume=True)
    assert (tmp_path / "thesis.txt").read_text() == "precious"


def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(bbrgym.ConfigError, match="output_dir: cannot use"):
        RunFolder(tmp_path / "file" / "run").open(resume=False)


def test_going_on_clears_what_a_kill_left(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.open(resume=False)
    (tmp_path / "jobs" / ".key.summary.parquet.1-1.partial").write_text("half")
    folder.open(resume=True)
    assert list((tmp_path / "jobs").iterdir()) == []


def test_a_damaged_job_is_named(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.open(resume=False)
    folder.store_job("key", RECORD)
    (tmp_path / "jobs" / "key.summary.parquet").write_text("not Parquet")
    with pytest.raises(bbrgym.ConfigError, match="cannot read run key"):
        folder.load_job("key")
