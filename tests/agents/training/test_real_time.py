# SPDX-License-Identifier: GPL-2.0-only
"""Training in real time: environments that the cores allow, late runs, and a training on this machine's kernel."""

import logging
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_world import ANY_LATENESS, needs_bpf
from late_engine import late_world
from tiny import asked

from bbrgym import train
from bbrgym.agents.training.settings import parse_training
from bbrgym.agents.trials import Trials
from bbrgym.errors import ConfigError
from bbrgym.scenario.files import load_scenario
from bbrgym.worlds import LateRunError, runs_at_once

STEPS = 60
INTERVAL_S = 0.05
SCENARIO = {
    "name": "kernel",
    "duration_s": 4.0,
    "link": {"rate_mbps": 20.0, "queue": {"size_bdp": 1.0}},
    "flows": [{"name": "tuned", "cc": "bbr", "role": "tuned", "rtt_ms": 20.0}],
}


def in_real_time(**others: Any) -> dict[str, Any]:
    return asked(**{"world": "linux", "num_envs": None, "threads": None, **others})


def test_the_cores_bound_the_environments() -> None:
    assert parse_training(in_real_time()).num_envs == max(1, len(os.sched_getaffinity(0)) // 2)
    assert parse_training(asked(num_envs=None)).num_envs == 128


def test_more_environments_than_the_cores_allow_are_refused(tmp_path: Path) -> None:
    most = runs_at_once(["linux"])
    problem = rf"^num_envs: is {most + 1}, expected at most {most} with world=linux: each runs in real time"
    with pytest.raises(ConfigError, match=problem):
        train(output_dir=tmp_path / "run", **in_real_time(num_envs=most + 1))
    assert not (tmp_path / "run").exists()
    assert parse_training(in_real_time(num_envs=most + 1)).num_envs == most + 1  # an agent of a larger machine


def test_a_validation_in_real_time_is_refused() -> None:
    problem = r"^validation\.world: is 'linux', which runs in real time, expected ns3 or twin .*: a validation runs"
    with pytest.raises(ConfigError, match=problem):
        parse_training(asked(validation={"world": "linux"}))


def test_a_late_run_of_a_setting_is_repeated(caplog: pytest.LogCaptureFixture) -> None:
    scenario = load_scenario(SCENARIO)
    with (
        late_world(),
        caplog.at_level(logging.WARNING),
        Trials([scenario] * 2, [1, 2], "bbq", world="late") as trials,
        pytest.raises(LateRunError, match="seed 1, at 4 s: packets were late"),
    ):
        trials.scores(np.zeros(len(trials.action.names), np.float32))
    late = "a run is repeated: scenario 'kernel', seed 1, at 4 s: packets were late"
    assert [record.getMessage() for record in caplog.records] == [late] * 2


@needs_bpf
@pytest.mark.slow
@pytest.mark.parametrize("agent", ["ppo", "torch_ppo"])
def test_an_agent_is_trained_in_the_kernel(agent: str, tmp_path: Path) -> None:
    settings = in_real_time(
        agent=agent,
        scenario=SCENARIO,
        world={"linux": {"options": ANY_LATENESS}},
        env={"control_interval_s": INTERVAL_S},
        total_steps=STEPS,
    )
    summary = train(output_dir=tmp_path / "run", **settings)
    assert summary["step"] >= STEPS
    assert np.isfinite(summary["best_score"])
    assert summary["wall_s"] - summary["validation_s"] > INTERVAL_S * STEPS  # in real time


@needs_bpf
def test_a_late_episode_does_not_end_a_training(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        settings = in_real_time(
            scenario=SCENARIO | {"duration_s": 0.5},
            world={"linux": {"options": {"max_late_share": 0.0}}},
            env={"control_interval_s": 0.1},
            total_steps=16,
        )
        assert train(output_dir=tmp_path / "run", **settings)["step"] >= 16
    messages = [record.getMessage() for record in caplog.records]
    late = [message for message in messages if "packets were written more than 1 ms late" in message]
    assert all(message.endswith("the episode is truncated here, its steps count") for message in late)
