# SPDX-License-Identifier: GPL-2.0-only
"""A run in real time that was late is repeated; any other one is not."""

import logging
from typing import Any

import pytest

from bbrgym.evaluate import runner
from bbrgym.evaluate.evaluation import prepare_evaluation
from bbrgym.worlds import WorldError

SCENARIO: dict[str, Any] = {
    "name": "short",
    "duration_s": 1.0,
    "link": {"rate_mbps": 10.0, "queue": {"size_bdp": 1.0}},
    "flows": [{"name": "flow", "rtt_ms": 20.0}],
}


@pytest.mark.parametrize(("world", "late", "attempts"), [("linux", 2, 3), ("linux", 3, 3), ("twin", 1, 1)])
def test_a_late_run_is_repeated(
    world: str, late: int, attempts: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tried = []

    def run_job(job: runner.EvaluationJob, *_: Any) -> str:
        tried.append(job)
        if len(tried) <= late:
            raise WorldError(job.scenario.name, job.seed, 1.0, "packets were late")
        return "record"

    monkeypatch.setattr(runner, "run_job", run_job)
    jobs = prepare_evaluation(SCENARIO, {"variants": ["bbr"], "world": world}).jobs
    with caplog.at_level(logging.WARNING):
        if late < attempts:
            assert runner.run_all(jobs, 1) == ["record"]
        else:
            with pytest.raises(WorldError, match="packets were late"):
                runner.run_all(jobs, 1)
    assert len(tried) == attempts
    assert [record.message for record in caplog.records] == [f"{jobs[0].key} is repeated: packets were late"] * (
        attempts - 1
    )
