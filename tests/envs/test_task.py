# SPDX-License-Identifier: GPL-2.0-only
"""A task says all that an environment is made of. What C++ makes of it is in tests/ns3/test_tune.py."""

from __future__ import annotations

import json
from typing import Any

import pytest

import bbrgym
from bbrgym.envs.action import NOT_BELOW
from bbrgym.envs.env import TuneEnv
from bbrgym.envs.observation import FEATURES
from bbrgym.envs.options import Options
from bbrgym.envs.reward import Reward, reward_names
from bbrgym.envs.task import task_of
from bbrgym.errors import ConfigError
from bbrgym.tunables import TUNABLES, VARIANTS
from bbrgym.worlds import make_world

TUNED = [name for name, variant in VARIANTS.items() if variant.preset]


def task(**options: Any) -> dict[str, Any]:
    """As it is after a way through a file."""
    made = task_of(Options(**options))
    back: dict[str, Any] = json.loads(json.dumps(made, allow_nan=False))
    assert back == made
    return back


def test_every_feature_is_written_as_it_is_declared() -> None:
    written = task(variant="bbr")["observation"]["features"]
    assert [feature["name"] for feature in written] == [feature.name for feature in FEATURES]
    for there, feature in zip(written, FEATURES, strict=True):
        assert there.items() <= vars(feature).items()


@pytest.mark.parametrize("variant", TUNED)
def test_every_tunable_is_written_as_it_is_declared(variant: str) -> None:
    written = task(variant=variant)["action"]["tunables"]
    assert [tunable["name"] for tunable in written] == list(VARIANTS[variant].preset)
    for there in written:
        tunable = TUNABLES[there["name"]]
        assert (there["low"], there["high"]) == (tunable.low, tunable.high)
        assert there["scale"] == ("whole" if tunable.unit in ("count", "mode", "switch") else tunable.scale)
        lower = NOT_BELOW.get(tunable.name)
        assert there["not_below"] == (lower and {"name": lower, "preset": VARIANTS[variant].preset[lower]})


@pytest.mark.parametrize("name", reward_names())
def test_every_preset_of_rewards_is_written(name: str) -> None:
    written = task(reward=name, reward_horizon_s=2.5)["reward"]
    assert {term["name"]: term["weight"] for term in written["terms"]} == Reward(name).weights
    assert (written["alpha"], written["horizon_s"]) == (Reward(name).alpha, 2.5)


def test_the_scenario_has_the_variant_and_can_be_run_as_it_is() -> None:
    written = task(scenario="rtt_fairness", variant="bbr-plus")
    flows = written["scenario"]["flows"]
    assert [flows[index]["cc"] for index in written["learners"]] == ["bbr-plus"] * len(written["learners"])
    world = make_world("twin", bbrgym.load_scenario("rtt_fairness"))
    try:
        assert [flow["name"] for flow in flows] == list(world.flow_names)
    finally:
        world.close()


@pytest.mark.parametrize("view", ["each", "pooled"])
def test_slots_are_the_environments(view: str) -> None:
    options: dict[str, Any] = {"scenario": "rtt_fairness", "max_learners": 5, "view": view, "stack": 2}
    written = task(**options)["observation"]
    env = TuneEnv(**options)
    try:
        assert (written["slots"], written["view"], written["stack"]) == (env.max_learners, view, 2)
    finally:
        env.close()


def test_steps_and_limits_are_the_controls() -> None:
    written = task(variant="bbr-mix", action_kind="relative", step_size=0.2, max_change=0.5)["action"]
    for tunable, step, limit in zip(written["tunables"], written["step"], written["limit"], strict=True):
        switches = tunable["scale"] == "whole" and tunable["high"] - tunable["low"] == 1
        assert (step, limit) == ((1.0, 1.0) if switches else (step, limit))
        assert tunable["scale"] == "whole" or (step, limit) == (0.2, 0.5)
    assert task(variant="bbr")["action"]["step"] is None
    assert task(variant="bbr")["action"]["limit"] is None


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"levels": 3}, "levels: 3, a task has continuous actions only"),
        ({"levels": 3, "flat": True}, "levels: 3"),
        ({"critic": True}, "critic: True"),
        ({"scenario": "wan_mix"}, "scenario: is a distribution"),
        ({"scenario": lambda seed: "steady"}, "scenario: is a distribution or several"),
        ({"scenario": ["steady", "lossy"]}, "scenario: is a distribution or several"),
        ({"scenario": "rtt_fairness", "max_learners": 1}, "max_learners: 1, but scenario 'rtt_fairness' has 2"),
        ({"features": ["speed"]}, "features: 'speed'"),
        ({"reward": "luck"}, "reward: 'luck'"),
        ({"step_size": 3}, "step_size: 3"),
    ],
)
def test_what_a_task_cannot_say_is_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        task_of(Options(**options))
