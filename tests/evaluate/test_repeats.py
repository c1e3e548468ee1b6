# SPDX-License-Identifier: GPL-2.0-only
"""A run in real time that was late is repeated; any other one is not."""

import logging
from typing import Any

import pytest

from bbrgym.evaluate import runner
from bbrgym.evaluate.evaluation import prepare_evaluation
from bbrgym.worlds import LateRunError, WorldError

SCENARIO: dict[str, Any] = {
    "name": "short",
    "duration_s": 1.0,
    "link": {"rate_mbps": 10.0, "queue": {"size_bdp": 1.0}},
    "flows": [{"name": "flow", "rtt_ms": 20.0}],
}
LATE = LateRunError("short", 1, 1.0, "packets were late")


def outcomes(errors: list[WorldError], monkeypatch: pytest.MonkeyPatch) -> tuple[list[runner.EvaluationJob], list[Any]]:
    """Return a job, and the list of what its runs raise or return, an error each and then a record; they are taken."""
    left: list[Any] = [*errors, "record"]

    def run_job(*_: Any, late_repeats: int) -> str:
        outcome = left.pop(0)
        if isinstance(outcome, WorldError):
            raise outcome
        return f"{outcome} after {late_repeats}"

    monkeypatch.setattr(runner, "run_job", run_job)
    return prepare_evaluation(SCENARIO, {"variants": ["bbr"], "world": "linux"}).jobs, left


def test_a_late_run_is_repeated(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    jobs, left = outcomes([LATE, LATE], monkeypatch)
    with caplog.at_level(logging.WARNING):
        assert runner.run_all(jobs, 1) == ["record after 2"]
    assert [record.message for record in caplog.records] == [f"{jobs[0].key} is repeated: packets were late"] * 2
    assert not left


def test_a_third_late_run_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs, left = outcomes([LATE, LATE, LATE], monkeypatch)
    with pytest.raises(LateRunError, match="packets were late"):
        runner.run_all(jobs, 1)
    assert left == ["record"]


def test_a_broken_run_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs, left = outcomes([LATE, WorldError("short", 1, 0.5, "the worker was killed by SIGKILL")], monkeypatch)
    with pytest.raises(WorldError, match="SIGKILL"):
        runner.run_all(jobs, 1)
    assert left == ["record"]
