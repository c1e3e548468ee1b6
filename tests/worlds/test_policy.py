# SPDX-License-Identifier: GPL-2.0-only
"""A compiled policy sets the tunables inside a world as Python's steps with the same policy do, bit for bit."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import compilers
import numpy as np
import pytest
from build_tree import program
from policies import options_of, random_policy, random_portfolio, shared_object

import bbrgym
from bbrgym.agents.training.integer_policy import IntegerController, IntegerPolicy
from bbrgym.agents.training.integer_tables import Q16
from bbrgym.worlds import TUNABLE_COLUMNS

SCENARIO: dict[str, Any] = {
    "name": "tuned",
    "duration_s": 6.0,
    "warmup_s": 1.0,
    "link": {"rate_mbps": 8.0, "queue": {"size_packets": 40}, "loss": {"kind": "bernoulli", "rate": 0.002}},
    "flows": [
        {"name": "early", "cc": "bbr-mix", "role": "learner", "rtt_ms": 20.0, "stop_s": 4.3},
        {"name": "late", "cc": "bbr-mix", "role": "learner", "rtt_ms": 50.0, "start_s": 1.7},
        {"name": "other", "cc": "bbr-mix", "role": "fixed", "rtt_ms": 30.0},
        {"name": "rival", "cc": "cubic", "role": "background", "rtt_ms": 30.0},
    ],
}
LEARNERS = (0, 1)
TIMES_S = {0: (0.0, 4.3), 1: (1.7, 6.0)}
INTERVAL_S = 0.5
KINDS: dict[str, dict[str, Any]] = {
    "per flow": {"variant": "bbr-mix", "stack": 3},
    "pooled": {"variant": "bbr-mix", "is_per_flow": False, "view": "pooled", "max_learners": 3, "stack": 2},
    "memory": {"variant": "bbr-mix", "features": "memory"},
    "held": {"variant": "bbr-mix", "features": "memory", "hold_intervals": 3},
    "each": {"variant": "bbr-mix", "is_per_flow": False, "max_learners": 3, "action_kind": "relative"},
}


PORTFOLIOS: dict[str, dict[str, Any]] = {
    "portfolio of each flow": {"is_per_flow": True, "looks": 2},
    "portfolio of all flows": {"flows": 3, "looks": 2},
}


@pytest.fixture(scope="module", params=[*KINDS, *PORTFOLIOS])
def policy(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[IntegerPolicy, Path]:
    kind = request.param
    made = random_portfolio(**PORTFOLIOS[kind]) if kind in PORTFOLIOS else random_policy(options_of(**KINDS[kind]))
    return made, shared_object(made, tmp_path_factory.mktemp("policy") / "policy.so")


class Steps:
    """The same policy, run in Python between the advances of a world."""

    def __init__(self, policy: IntegerPolicy, world: bbrgym.World) -> None:
        self.policy, self.world = policy, world
        self._columns = [TUNABLE_COLUMNS[tunable.name] for tunable in policy.tunables]
        self._units = np.array([Q16 if tunable.unit == "ratio" else 1 for tunable in policy.tunables])
        self._controllers: dict[tuple[int, ...], IntegerController] = {}
        self._intervals = 0

    def advance(self) -> None:
        for flows in [(flow,) for flow in LEARNERS] if self.policy.is_per_flow else [LEARNERS]:
            start_s, stop_s = TIMES_S[flows[0]]
            step_s = self.policy.hold * INTERVAL_S
            begins = self._intervals % self.policy.hold == 0 and start_s < self.world.now_s + step_s
            if not self.policy.is_per_flow or ((flows in self._controllers or begins) and self.world.now_s < stop_s):
                self._act(flows)
        self._intervals += 1
        self.world.advance(INTERVAL_S)

    def _act(self, flows: tuple[int, ...]) -> None:
        if flows not in self._controllers:
            values = np.rint(self.world.tunables()[flows[0], self._columns] * self._units).astype(np.int64)
            self._controllers[flows] = IntegerController(self.policy, values[None])
        columns = [self.world.flow_fields.index(field.source) for field in self.policy.fields]
        measured = self.world.flow_stats()[list(flows)][:, columns] * [field.per_unit for field in self.policy.fields]
        values = self._controllers[flows].decide(np.floor(measured + 0.5).astype(np.int64)[None])[0]
        names = [tunable.name for tunable in self.policy.tunables]
        for flow in flows:
            self.world.set_tunables(flow, dict(zip(names, (values / self._units).tolist(), strict=True)))


def open_world(name: str, path: Path | None = None, scenario: Any = SCENARIO) -> bbrgym.World:
    return bbrgym.make_world(name, scenario, seed=3, options={"policy": path and str(path)})


def state_of(world: bbrgym.World) -> list[bytes]:
    return [one.tobytes() for one in (world.tunables(), world.flow_stats(), world.link_stats(), *world.summary())]


@pytest.mark.parametrize("name", ["twin", "ns3"])
def test_a_world_with_a_policy_equals_steps_of_python(name: str, policy: tuple[IntegerPolicy, Path]) -> None:
    made, path = policy
    with open_world(name, path) as alone, open_world(name) as stepped:
        steps, seen = Steps(made, stepped), set()
        while not alone.done:
            alone.advance(INTERVAL_S)
            steps.advance()
            assert state_of(alone) == state_of(stepped)
            seen.add(alone.tunables()[0].tobytes())
        assert len(seen) > (1 if made.probe is not None else 5 // made.hold), "it decides"
        assert not (alone.tunables()[2:3] == alone.tunables()[:1]).all(), "only learners are tuned"


def test_both_worlds_are_equal(policy: tuple[IntegerPolicy, Path]) -> None:
    with open_world("twin", policy[1]) as twin, open_world("ns3", policy[1]) as ns3:
        while not twin.done:
            twin.advance(INTERVAL_S)
            ns3.advance(INTERVAL_S)
            assert twin.tunables().tobytes() == ns3.tunables().tobytes()
        np.testing.assert_array_equal(twin.summary()[0], ns3.summary()[0])


def test_intervals_follow_one_another_within_an_advance(policy: tuple[IntegerPolicy, Path]) -> None:
    with open_world("twin", policy[1]) as one, open_world("twin", policy[1]) as many:
        one.advance(3.0)
        for _ in range(6):
            many.advance(INTERVAL_S)
        assert state_of(one) == state_of(many)
        one.advance(100.0)
        assert one.done


def test_an_advance_is_of_whole_intervals(policy: tuple[IntegerPolicy, Path]) -> None:
    with open_world("twin", policy[1]) as world:
        with pytest.raises(ValueError, match=r"is 0\.3.* s, allowed with this policy are multiples of .*0\.5"):
            world.advance(0.3)
        world.advance(INTERVAL_S)
        assert world.now_s == INTERVAL_S


def test_a_run_continues_from_a_snapshot_with_what_the_policy_remembers(policy: tuple[IntegerPolicy, Path]) -> None:
    with open_world("twin", policy[1]) as world:
        world.advance(2.0)
        snapshot = world.save()
        world.advance(2.0)
        expected = state_of(world)
        world.restore(snapshot)
        world.advance(2.0)
        assert state_of(world) == expected
        world.reset()
        world.advance(4.0)
        assert state_of(world) == expected


def test_the_program_runs_it_without_python(policy: tuple[IntegerPolicy, Path]) -> None:
    command = [program("bbrgym-scenario"), "-", "--seed", "3", "--policy", str(policy[1]), "--json"]
    scenario = bbrgym.load_scenario(SCENARIO).resolved_json()
    done = subprocess.run(command, input=scenario, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    with open_world("ns3", policy[1]) as world:
        world.advance(6.0)
        rows = world.summary()[0]
    printed = [[np.nan if x is None else x for x in one.values()] for one in json.loads(done.stdout)["flows"].values()]
    np.testing.assert_array_equal(printed, rows)


# ---- errors -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["twin", "ns3"])
def test_what_is_no_policy_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises((bbrgym.ConfigError, bbrgym.WorldError), match=r"policy: cannot be loaded: .*nowhere\.so"):
        open_world(name, tmp_path / "nowhere.so")
    empty = tmp_path / "empty.so"
    command = [compilers.compiler(compilers.C), "-shared", "-x", "c", "-", "-o", str(empty)]
    subprocess.run(command, input=b"int nothing;", check=True, timeout=compilers.PATIENCE_S)
    with pytest.raises((bbrgym.ConfigError, bbrgym.WorldError), match=r"empty\.so is no policy of format 2"):
        open_world(name, empty)


@pytest.mark.parametrize("name", ["twin", "ns3"])
def test_a_scenario_without_its_variant_is_refused(name: str, policy: tuple[IntegerPolicy, Path]) -> None:
    flows = [{**flow, "cc": "bbq"} for flow in SCENARIO["flows"]]
    with pytest.raises(ValueError, match="sets tunables of bbr-mix, expected a flow with role learner and cc bbr-mix"):
        open_world(name, policy[1], {**SCENARIO, "flows": flows})


def test_more_flows_than_it_observes_are_refused(tmp_path: Path) -> None:
    options = options_of(variant="bbr-mix", is_per_flow=False, max_learners=1)
    path = shared_object(random_policy(options), tmp_path / "one.so")
    with pytest.raises(ValueError, match="observes up to 1 learner flows, scenario 'tuned' has 2"):
        open_world("twin", path)
