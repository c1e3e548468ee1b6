# SPDX-License-Identifier: GPL-2.0-only
"""An episode in real time that was late ends like any other in an environment, and is refused where it is scored."""

import logging

import numpy as np
import plain_envs
import pytest
from late_engine import late_world

from bbrgym.agents.rollout import make_rollout
from bbrgym.envs.options import Options
from bbrgym.worlds import LateRunError

OPTIONS = {"variant": "bbq", "control_interval_s": 0.5}


@pytest.fixture(autouse=True)
def _late_world():
    with late_world():
        yield


def test_a_late_episode_is_truncated_and_the_next_one_begins(short_scenario, caplog):
    arguments = {**OPTIONS, "scenario": short_scenario}
    with (
        plain_envs.make("bbrgym/Tune-v2", world="late", **arguments) as late,
        plain_envs.make("bbrgym/Tune-v2", world="twin", **arguments) as twin,
        caplog.at_level(logging.WARNING),
    ):
        for seed in (1, 2):
            late.reset(seed=seed)
            twin.reset(seed=seed)
            for step in range(6):
                one, other = (env.step(env.unwrapped.default_action) for env in (late, twin))
                assert one[1:4] == other[1:4]
                assert (one[0] == other[0]).all()
                assert one[3] == (step == 5)
    assert [record.getMessage() for record in caplog.records] == [
        f"scenario 'short', seed {seed}, at 3 s: packets were late; the episode is truncated here, its steps count"
        for seed in (1, 2)
    ]


def test_every_late_episode_of_a_vector_is_said(short_scenario, caplog):
    envs = plain_envs.make_vec("bbrgym/Tune-v2", num_envs=3, world="late", scenario=short_scenario, **OPTIONS)
    with caplog.at_level(logging.WARNING):
        envs.reset(seed=1)
        for _ in range(6):
            *_, truncated, _ = envs.step(np.stack([envs.single_action_space.sample()] * 3))
        assert truncated.all()
        assert len({record.getMessage() for record in caplog.records}) == 3
        envs.step(np.stack([envs.single_action_space.sample()] * 3))  # begins the next ones
    envs.close()


def test_a_late_run_has_no_score(short_scenario):
    rollout = make_rollout(Options(**OPTIONS, world="late", scenario=short_scenario), [1])
    tunables = len(rollout.tunables)

    class Middle:
        def act(self, observations, _):
            return np.zeros((len(observations), tunables), np.float32)

    with pytest.raises(LateRunError, match="packets were late"):
        rollout.scores(lambda _: Middle())
    rollout.close()
