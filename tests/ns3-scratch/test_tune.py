# SPDX-License-Identifier: GPL-2.0-only
"""ns3-scratch/tune has bbrgym/Tune-v0's formulas once more, in C++: the same runs must look the same in both.

Equal are the simulated times, what the action sets on linear scales and whole numbers, and the setting's coordinates.
Where a logarithm or a power is taken the last bit is the library's choice, NumPy's own or the C library's; so a tunable
on a log scale may differ by rounding in float64, a reward by as much, and an observation, which is rounded to
float32, by one number of that.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from programs import built, needs_build

import bbrgym
from bbrgym.envs.env import TuneEnv
from bbrgym.envs.observation import FEATURES
from bbrgym.envs.options import Options
from bbrgym.envs.task import task_of
from bbrgym.envs.terms import TERMS
from bbrgym.tunables import TUNABLES, VARIANTS

pytestmark = needs_build

FLOAT32_STEP = 2.0**-24  # between numbers just below 1
ROUNDING = 1e-12

TWO = {
    "name": "two",
    "duration_s": 2.05,  # no whole number of intervals
    "link": {"rate_mbps": 8, "queue": {"size_bdp": 1.5}},
    "flows": [
        {"name": "a", "rtt_ms": 20},
        {"name": "b", "rtt_ms": 45, "start_s": 0.45, "stop_s": 1.6},
    ],
}
MIXED = {
    "name": "mixed",
    "duration_s": 2,
    "link": {
        "rate_mbps": 12,
        "queue": {"size_packets": 25},
        "loss": {"kind": "bernoulli", "rate": 0.01},
        "changes": [{"at_s": 1, "rate_mbps": 3}],
    },
    "flows": [
        {"name": "rival", "cc": "cubic", "rtt_ms": 33.3, "role": "fixed"},
        {"name": "cbr", "rtt_ms": 15.7, "app": {"kind": "cbr", "rate_mbps": 1.5}},
        {"name": "late", "rtt_ms": 60, "start_s": 1.2},
        {"name": "more", "rtt_ms": 25, "count": 2},
    ],
}
ABSENT = {
    "name": "absent",
    "duration_s": 1,
    "link": {"rate_mbps": 5, "queue": {"size_bdp": 1}},
    "flows": [
        {"name": "rival", "cc": "reno", "rtt_ms": 30, "role": "fixed"},
        {"name": "unequal", "cc": "cubic", "rtt_ms": 90, "start_s": 0.3, "role": "fixed"},
        {"name": "late", "rtt_ms": 30, "start_s": 0.8},
    ],
}
OUTAGE = {
    "name": "outage",  # half of the time the link carries nothing, so there is no fair share
    "duration_s": 2,
    "link": {"trace": {"times_ms": list(range(0, 400, 2)), "period_ms": 800}, "queue": {"size_packets": 40}},
    "flows": [{"name": "a", "rtt_ms": 20, "count": 2}],
}
ALL_TERMS = {name: 0.5 + 0.25 * place for place, name in enumerate(TERMS)}
TUNED = [name for name, variant in VARIANTS.items() if variant.preset]


@pytest.fixture(scope="module")
def program() -> Path:
    return built("tune-replay")


def replay(
    program: Path, task: Any, seed: int, actions: list[list[float]], folder: Path
) -> subprocess.CompletedProcess[str]:
    path = folder / "task.json"
    path.write_text(task if isinstance(task, str) else json.dumps(task), encoding="utf-8")
    lines = "".join(json.dumps(action) + "\n" for action in actions)
    return subprocess.run(
        [str(program), str(path), str(seed)], input=lines, capture_output=True, text=True, timeout=120, check=False
    )


def assert_same(there: dict[str, Any], observation: Any, info: dict[str, Any], reward: float, is_over: bool) -> None:
    assert there["now_s"] == info["now_s"]
    assert there["done"] == is_over
    np.testing.assert_allclose(there["observation"], observation, rtol=0, atol=FLOAT32_STEP)
    settings_here = observation[-len(info["tunables"]) :]
    np.testing.assert_array_equal((np.array(there["coordinates"], np.float32) + 1) / 2, settings_here)
    for (name, here), value in zip(info["tunables"].items(), there["tunables"], strict=True):
        assert value == pytest.approx(here, rel=ROUNDING if TUNABLES[name].scale == "log" else 0, abs=0), name
    assert there["reward"] == pytest.approx(reward, rel=ROUNDING, abs=ROUNDING)
    assert there["terms"] == pytest.approx(info.get("reward_terms", {}), rel=ROUNDING, abs=ROUNDING)


def compare(program: Path, arguments: dict[str, Any], seed: int, actions_seed: int, folder: Path) -> None:
    """One whole run, by both."""
    env = TuneEnv(world="ns3", isolation="none", **arguments)
    try:
        observation, info = env.reset(seed=seed)
        env.action_space.seed(actions_seed)
        seen = [(observation, info, 0.0, False)]
        actions = []
        while not seen[-1][3]:
            # Ends of ranges and what stays, now and then.
            action = env.action_space.sample()
            action[np.asarray(env.np_random.random(len(action)) < 0.1)] = env.np_random.choice([-1, 0, 1])
            actions.append(action.tolist())
            observation, reward, _, truncated, info = env.step(action)
            seen.append((observation, info, reward, truncated))
    finally:
        env.close()
    done = replay(program, task_of(Options(**arguments)), seed, actions, folder)
    assert done.returncode == 0, done.stderr
    states = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(states) == len(seen)
    for there, (observation, info, reward, is_over) in zip(states, seen, strict=True):
        assert_same(there, observation, info, reward, is_over)


@st.composite
def arguments(draw: st.DrawFn) -> dict[str, Any]:
    variant = draw(st.sampled_from(TUNED))
    names = st.lists(st.sampled_from(sorted(VARIANTS[variant].preset)), min_size=1, unique=True)
    features = st.lists(st.sampled_from([feature.name for feature in FEATURES]), unique=True)
    weights = st.dictionaries(st.sampled_from(sorted(TERMS)), st.floats(-10, 10), min_size=1)
    scenario = draw(st.sampled_from([TWO, MIXED, ABSENT, OUTAGE]))
    return {
        "scenario": scenario,
        "variant": variant,
        "tunables": draw(st.none() | names),
        "control_interval_s": draw(st.sampled_from([0.05, 0.1, 0.3, 0.77])),
        "action_kind": draw(st.sampled_from(["absolute", "relative"])),
        "step_size": draw(st.floats(0.01, 2)),
        "max_change": draw(st.none() | st.floats(0.01, 2)),
        "features": draw(st.none() | features),
        "stack": draw(st.integers(1, 4)),
        "view": draw(st.sampled_from(["each", "pooled"])),
        "max_learners": draw(st.sampled_from([None, 4, 7])),
        "reward": draw(st.sampled_from(["proportional", "power", "goodput", "alpha_fair"]) | weights)
        if draw(st.booleans())
        else {**ALL_TERMS, "alpha": draw(st.sampled_from([0.0, 0.5, 1.0, 2.0, 5.0]))},
        "reward_horizon_s": draw(st.none() | st.floats(0.1, 10)),
    }


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(arguments(), st.integers(0, 2**63 - 1), st.integers(0, 2**32 - 1))
@example({"scenario": TWO, "variant": "bbr-mix", "reward": ALL_TERMS}, 1, 1)
@example({"scenario": MIXED, "variant": "bbr-pg", "reward": ALL_TERMS, "reward_horizon_s": 5.0, "stack": 3}, 2, 2)
@example({"scenario": MIXED, "variant": "bbr-pg", "tunables": ["pg_trand_high_us"], "action_kind": "relative"}, 3, 3)
@example({"scenario": ABSENT, "variant": "bbq", "reward": ALL_TERMS, "view": "pooled", "max_learners": 3}, 4, 4)
@example({"scenario": MIXED, "variant": "bbr-mix", "action_kind": "relative", "max_change": 0.3}, 5, 5)
@example({"scenario": OUTAGE, "variant": "bbr-plus", "reward": ALL_TERMS}, 6, 6)
def test_a_run_looks_as_in_python(
    program: Path, tmp_path: Path, arguments: dict[str, Any], seed: int, actions_seed: int
) -> None:
    compare(program, arguments, seed, actions_seed, tmp_path)


@pytest.mark.parametrize("name", ["cellular", "rtt_fairness"])
def test_shipped_scenarios_look_as_in_python(program: Path, tmp_path: Path, name: str) -> None:
    scenario = bbrgym.load_scenario(name).model_copy(update={"duration_s": 4.0, "warmup_s": 1.0})
    compare(program, {"scenario": scenario, "variant": "bbr-mix", "reward_horizon_s": 2.0}, 11, 12, tmp_path)


@pytest.mark.parametrize(
    "action", [[0.0], [0.0, 0.0, 1.5], [0.0, 0.0, -1.0000002], []], ids=["few", "far", "a bit far", "none"]
)
def test_what_is_no_action_is_refused(program: Path, tmp_path: Path, action: list[float]) -> None:
    task = task_of(Options(scenario=TWO, variant="bbr"))
    done = replay(program, task, 1, [action], tmp_path)
    assert done.returncode == 2
    assert "allowed are 3 numbers in [-1, 1]" in done.stderr


def changed(task: dict[str, Any], path: list[Any], value: Any) -> dict[str, Any]:
    task = json.loads(json.dumps(task))
    place = task
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return task


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        (["format"], 99, "format: is 99, this program reads 1"),
        (["learners"], [], "learners: is empty"),
        (["learners"], [5], "flow 5 is not in the scenario"),
        (["learners"], [0], "flow rival runs reno, which has no bbr_up_gain"),
        (["learners"], [2, 2], "observation.slots: is 1"),
        (["control_interval_s"], 0, "control_interval_s: is 0, expected a number > 0"),
        (["observation", "stack"], 1.5, "observation.stack: is 1.5"),
        (["observation", "slots"], 1e9, "observation.slots: is 1000000000.0"),
        (["observation", "view"], "none", "observation.view: 'none' is unknown"),
        (["observation", "features", 0, "field"], "speed", "no field 'speed' is measured"),
        (["observation", "features", 8, "low"], 0, "low and high are no range of its scale"),
        (["action", "tunables"], [], "action.tunables: is empty"),
        (["action", "tunables", 0, "name"], "gain", "tunable gain: there is none of that name"),
        (["action", "tunables", 0, "scale"], "steep", "'steep' is unknown"),
        (["action", "step"], [1.0], "action.step: expected a number for each tunable"),
        (["reward", "terms", 0, "name"], "luck", "reward.terms: 'luck' is unknown"),
        (["reward", "horizon_s"], -1, "reward.horizon_s: is -1"),
        (["reward"], [], "not what `bbrgym task` writes"),
        (["scenario", "duration_s"], -1, "scenario: duration_s"),
    ],
)
def test_a_wrong_task_is_refused_in_one_line(
    program: Path, tmp_path: Path, path: list[Any], value: Any, problem: str
) -> None:
    task = changed(task_of(Options(scenario=ABSENT, variant="bbr")), path, value)
    done = replay(program, task, 1, [], tmp_path)
    assert done.returncode == 2
    assert problem in done.stderr
    assert done.stderr.count("\n") == 1


def test_what_is_no_json_is_refused(program: Path, tmp_path: Path) -> None:
    done = replay(program, "{", 1, [], tmp_path)
    assert done.returncode == 2
    assert "not what `bbrgym task` writes" in done.stderr
