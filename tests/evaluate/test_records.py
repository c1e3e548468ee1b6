# SPDX-License-Identifier: GPL-2.0-only
"""The records of finished runs in a run folder."""

from pathlib import Path

import polars as pl
import pytest

import bbrgym
from bbrgym.evaluate.records import JOB_COLUMNS, SUMMARY_SCHEMA, TIMING_SCHEMA, EvaluationFolder, RunRecord

SERIES = pl.DataFrame({name: [1] for name in JOB_COLUMNS["timeseries"]})
RECORD = RunRecord(pl.DataFrame(schema=SUMMARY_SCHEMA), SERIES, pl.DataFrame(schema=TIMING_SCHEMA))


def test_a_job_comes_back_as_it_was_stored_and_a_damaged_one_is_named(tmp_path: Path) -> None:
    folder = EvaluationFolder(tmp_path / "run")
    folder.open(resume=False)
    assert not folder.has_job("key")
    folder.store_job("key", RECORD)
    assert folder.has_job("key")
    loaded = folder.load_job("key")
    assert all(getattr(loaded, part).equals(getattr(RECORD, part)) for part in JOB_COLUMNS)
    (tmp_path / "run" / "jobs" / "key.summary.parquet").write_text("not Parquet")
    with pytest.raises(bbrgym.ConfigError, match="cannot read run key"):
        folder.load_job("key")
