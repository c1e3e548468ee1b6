# SPDX-License-Identifier: GPL-2.0-only
"""A run in real time that was late is repeated; any other one is not."""

import logging
from typing import Any

import pytest
from short_scenarios import SHORT

from bbrgym.evaluate import runner
from bbrgym.evaluate.evaluation import prepare_evaluation
from bbrgym.worlds import LateRunError, WorldError

LATE = LateRunError("short", 1, 1.0, "packets were late")


def outcomes(errors: list[WorldError], monkeypatch: pytest.MonkeyPatch) -> tuple[list[runner.EvaluationJob], list[Any]]:
    """Return a job, and the list of what its runs raise or return, an error each and then a record; they are taken."""
    left: list[Any] = [*errors, "record"]

    def run_job(*arguments: Any) -> str:
        outcome = left.pop(0)
        if isinstance(outcome, WorldError):
            raise outcome
        return f"{outcome} after {arguments[-1]}"

    monkeypatch.setattr(runner, "run_job", run_job)
    return prepare_evaluation(SHORT, {"variants": ["bbr"], "world": "linux"}).jobs, left


def test_a_late_run_is_repeated(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    jobs, left = outcomes([LATE, LATE], monkeypatch)
    with caplog.at_level(logging.WARNING):
        assert runner.run_all(jobs, 1) == ["record after 2"]
    assert [record.message for record in caplog.records] == [f"{jobs[0].key} is repeated: packets were late"] * 2
    assert not left


@pytest.mark.parametrize(
    ("errors", "says"),
    [
        ([LATE, LATE, LATE], "packets were late"),
        ([LATE, WorldError("short", 1, 0.5, "the worker was killed by SIGKILL")], "SIGKILL"),
    ],
)
def test_a_third_late_run_and_a_broken_run_are_errors(
    errors: list[WorldError], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs, left = outcomes(errors, monkeypatch)
    with pytest.raises(WorldError, match=says):
        runner.run_all(jobs, 1)
    assert left == ["record"]
