# SPDX-License-Identifier: GPL-2.0-only
"""The records of finished runs in a run folder."""

from pathlib import Path

import polars as pl
import pytest

import bbrgym
from bbrgym.evaluate.records import EvaluationFolder, RunRecord

RECORD = RunRecord(pl.DataFrame({"a": [1, 2]}), pl.DataFrame({"b": [1.5, None, 3.0]}), pl.DataFrame({"wall_s": [0.25]}))


def test_a_job_comes_back_as_it_was_stored(tmp_path: Path) -> None:
    folder = EvaluationFolder(tmp_path / "run")
    folder.open(resume=False)
    assert not folder.has_job("key")
    folder.store_job("key", RECORD)
    assert folder.has_job("key")
    loaded = folder.load_job("key")
    assert loaded.summary.equals(RECORD.summary)
    assert loaded.timeseries.equals(RECORD.timeseries)
    assert loaded.timing.equals(RECORD.timing)


def test_a_damaged_job_is_named(tmp_path: Path) -> None:
    folder = EvaluationFolder(tmp_path)
    folder.open(resume=False)
    folder.store_job("key", RECORD)
    (tmp_path / "jobs" / "key.summary.parquet").write_text("not Parquet")
    with pytest.raises(bbrgym.ConfigError, match="cannot read run key"):
        folder.load_job("key")
