# SPDX-License-Identifier: GPL-2.0-only
"""A policy sets the tunables inside a world as it does when Python calls it between two advances, bit for bit."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import compilers
import numpy as np
import pytest
from build_tree import program
from compiled_policies import CompiledPolicy, Controller, shared_object
from policies import in_whole_units, options_of, random_policy, random_portfolio

import bbrgym
from bbrgym.evaluate.evaluation import run_evaluation
from bbrgym.worlds import TUNABLE_COLUMNS

SCENARIO: dict[str, Any] = {
    "name": "tuned",
    "duration_s": 6.0,
    "warmup_s": 1.0,
    "link": {"rate_mbps": 8.0, "queue": {"size_packets": 40}, "loss": {"kind": "bernoulli", "rate": 0.002}},
    "flows": [
        {"name": "early", "cc": "bbr-mix", "role": "tuned", "rtt_ms": 20.0, "stop_s": 4.3},
        {"name": "late", "cc": "bbr-mix", "role": "tuned", "rtt_ms": 50.0, "start_s": 1.7},
        {"name": "other", "cc": "bbr-mix", "role": "fixed", "rtt_ms": 30.0},
        {"name": "rival", "cc": "cubic", "role": "background", "rtt_ms": 30.0},
    ],
}
TUNED = (0, 1)
TIMES_S = {0: (0.0, 4.3), 1: (1.7, 6.0)}
INTERVAL_S = 0.5
KINDS: dict[str, dict[str, Any]] = {
    "per flow": {"variant": "bbr-mix", "frame_stack": 3},
    "pooled": {"variant": "bbr-mix", "is_per_flow": False, "view": "pooled", "max_tuned": 3, "frame_stack": 2},
    "memory": {"variant": "bbr-mix", "features": "memory"},
    "held": {"variant": "bbr-mix", "features": "memory", "hold_intervals": 3},
    "path": {"variant": "bbr-mix", "features": "path"},
    "each": {"variant": "bbr-mix", "is_per_flow": False, "max_tuned": 3, "action_kind": "relative"},
}


#: The other kinds contain what these do.
SLOW = ("per flow", "memory")
EVERY = [pytest.param(kind, marks=pytest.mark.slow) if kind in SLOW else kind for kind in [*KINDS, "portfolio"]]
ONE = pytest.mark.parametrize("policy", ["held"], indirect=True)


@pytest.fixture(scope="module", params=EVERY)
def policy(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[CompiledPolicy, Path]:
    kind, folder = request.param, tmp_path_factory.mktemp("policy")
    made = random_policy(options_of(**KINDS[kind])) if kind in KINDS else random_portfolio(flows=3, pause=2)
    return CompiledPolicy(made, folder), shared_object(made, folder / "policy.so")


class Steps:
    """The same policy, called from Python between the advances of a world."""

    def __init__(self, compiled: CompiledPolicy, world: bbrgym.World) -> None:
        self.compiled, self.policy, self.world = compiled, compiled.policy, world
        policy = self.policy
        self._columns = [TUNABLE_COLUMNS[tunable.name] for tunable in policy.tunables]
        self._units = np.array([tunable.per_unit for tunable in policy.tunables])
        self._controllers: dict[tuple[int, ...], Controller] = {}
        self._intervals = 0

    def advance(self) -> None:
        for flows in [(flow,) for flow in TUNED] if self.policy.is_per_flow else [TUNED]:
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
            self._controllers[flows] = Controller(self.compiled, values)
        columns = [self.world.flow_fields.index(field.source) for field in self.policy.fields]
        measured = in_whole_units(self.policy, self.world.flow_stats()[list(flows)][:, columns])
        values = self._controllers[flows].decide(measured)
        names = [tunable.name for tunable in self.policy.tunables]
        for flow in flows:
            self.world.set_tunables(flow, dict(zip(names, (values / self._units).tolist(), strict=True)))


def open_world(name: str, path: Path | None = None, scenario: Any = SCENARIO) -> bbrgym.World:
    return bbrgym.make_world(name, scenario, seed=3, options={"policy": path and str(path)})


def state_of(world: bbrgym.World) -> list[bytes]:
    return [one.tobytes() for one in (world.tunables(), world.flow_stats(), world.link_stats(), *world.summary())]


@pytest.mark.parametrize("name", ["twin", pytest.param("ns3", marks=pytest.mark.slow)])
def test_a_world_with_a_policy_equals_steps_of_python(name: str, policy: tuple[CompiledPolicy, Path]) -> None:
    compiled, path = policy
    made = compiled.policy
    with open_world(name, path) as alone, open_world(name) as stepped:
        steps, seen = Steps(compiled, stepped), set()
        while not alone.done:
            alone.advance(INTERVAL_S)
            steps.advance()
            assert state_of(alone) == state_of(stepped)
            seen.add(alone.tunables()[0].tobytes())
        assert len(seen) > (1 if made.identification is not None else 5 // made.hold), "it decides"
        assert not (alone.tunables()[2:3] == alone.tunables()[:1]).all(), "only tuned flows are tuned"


def test_intervals_follow_one_another_within_an_advance(policy: tuple[CompiledPolicy, Path]) -> None:
    with open_world("twin", policy[1]) as one, open_world("twin", policy[1]) as many:
        one.advance(3.0)
        for _ in range(6):
            many.advance(INTERVAL_S)
        assert state_of(one) == state_of(many)
        one.advance(100.0)
        assert one.done


@ONE
def test_an_advance_is_of_whole_intervals(policy: tuple[CompiledPolicy, Path]) -> None:
    with open_world("twin", policy[1]) as world:
        with pytest.raises(ValueError, match=r"is 0\.3.* s, allowed with this policy are multiples of .*0\.5"):
            world.advance(0.3)
        world.advance(INTERVAL_S)
        assert world.now_s == INTERVAL_S


def test_a_run_continues_from_a_snapshot_with_what_the_policy_remembers(policy: tuple[CompiledPolicy, Path]) -> None:
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


@pytest.mark.parametrize("policy", ["pooled", "portfolio"], indirect=True)
def test_the_program_runs_it_without_python(policy: tuple[CompiledPolicy, Path]) -> None:
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
    os.mkfifo(tmp_path / "fifo.so")
    for path in (tmp_path / "fifo.so", tmp_path, Path("/dev/zero")):
        with pytest.raises(
            (bbrgym.ConfigError, bbrgym.WorldError), match=r"it is not a regular file, expected a shared"
        ):
            open_world(name, path)
    empty = tmp_path / "empty.so"
    command = [compilers.compiler(compilers.C), "-shared", "-x", "c", "-", "-o", str(empty)]
    subprocess.run(command, input=b"int nothing;", check=True, timeout=compilers.PATIENCE_S)
    with pytest.raises((bbrgym.ConfigError, bbrgym.WorldError), match=r"empty\.so is not a policy of format 2"):
        open_world(name, empty)


@ONE
@pytest.mark.parametrize("name", ["twin", "ns3"])
def test_a_scenario_without_its_variant_is_refused(name: str, policy: tuple[CompiledPolicy, Path]) -> None:
    flows = [{**flow, "cc": "bbq"} for flow in SCENARIO["flows"]]
    with pytest.raises(ValueError, match="sets tunables of bbr-mix, expected a flow with role tuned and cc bbr-mix"):
        open_world(name, policy[1], {**SCENARIO, "flows": flows})


def test_more_flows_than_it_observes_are_refused(tmp_path: Path) -> None:
    options = options_of(variant="bbr-mix", is_per_flow=False, max_tuned=1)
    path = shared_object(random_policy(options), tmp_path / "one.so")
    with pytest.raises(ValueError, match="observes up to 1 tuned flows, scenario 'tuned' has 2"):
        open_world("twin", path)


LOADS = """
import sys
from bbrgym import _twin
for line in sys.stdin:
    try:
        _twin.Vector(1, 1, 60.0, policy=line.rstrip())
        print("loaded")
    except ValueError as error:
        print(error)
"""


def loaded(paths: list[Path]) -> list[str]:
    """Return what a process says that loads files as policies; none may end it."""
    given = "".join(f"{path}\n" for path in paths)
    command = [sys.executable, "-c", LOADS]
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"{done.returncode} at {paths[len(done.stdout.splitlines())]}: {done.stderr}"
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shared_object(random_policy(options_of(variant="bbq")), tmp_path_factory.mktemp("whole") / "policy.so")


def test_a_policy_that_was_cut_off_or_whose_end_is_zeros_is_refused(whole: Path, tmp_path: Path) -> None:
    content, paths = whole.read_bytes(), []
    sizes = {*range(130), *np.linspace(130, len(content) - 1, 150, dtype=int).tolist()}
    for size in sorted(sizes):
        for name, end in (("cut", b""), ("zeros", bytes(len(content) - size))):
            if content[:size] + end != content:
                paths.append(tmp_path / f"{name}-{size}.so")
                paths[-1].write_bytes(content[:size] + end)
    for path, said in zip(paths, loaded(paths), strict=True):
        is_refused = said.startswith("policy: cannot be loaded: ")
        # Nothing of the last kilobyte is loaded: symbols' names and the headers of what is for the debugger.
        assert is_refused or (path.name.startswith("zeros") and int(path.stem[6:]) > len(content) - 1000), (path, said)


def test_a_policy_with_other_headers_is_refused_or_loaded(whole: Path, tmp_path: Path) -> None:
    """Each byte of the ELF header and of the segments' is changed, in one bit and in all."""
    content, paths = whole.read_bytes(), []
    for place in range(64 + 56 * content[56]):
        for mask in (0x01, 0x80, 0xFF):
            changed = bytearray(content)
            changed[place] ^= mask
            paths.append(tmp_path / f"{place}-{mask}.so")
            paths[-1].write_bytes(changed)
    said = loaded(paths)
    assert all(one == "loaded" or one.startswith("policy: ") for one in said)


#: Of the right name and format, and too short to be read further.
SMALL = "const int bbrgym_policy = 2; const struct bbrgym_policy other = {"


#: A change of the table, and what is said of it.
MISTAKES = (
    (".interval_us = POLICY_INTERVAL_US", ".interval_us = 0", r"interval_us is 0, allowed are 1 to"),
    (".state_bytes = sizeof(struct policy_state)", ".state_bytes = 1ull << 50", r"state_bytes is 1125\d+, allowed"),
    (".field_count = POLICY_FIELD_COUNT", ".field_count = 1u << 31", r"field_count is 2147483648, allowed"),
    (".tunable_count = POLICY_TUNABLE_COUNT", ".tunable_count = 0", r"tunable_count is 0, allowed"),
    (".variant = POLICY_VARIANT", '.variant = "bbr9"', r"variant is 'bbr9', which is none"),
    (".variant = POLICY_VARIANT", ".variant = (const char *)-1", r"variant is missing"),
    (".variant = POLICY_VARIANT", '.variant = "cubic"', r"which is not a tunable of cubic"),
    (".fields = policy_field_columns", ".fields = 0", r"fields are not in it"),
    (".tunables = policy_tunable_columns", ".tunables = (const void *)8", r"tunables are not in it"),
    (".begin = policy_entry_begin", ".begin = 0", r"begin or decide is not a function of it"),
    (".decide = policy_entry_decide", ".decide = 0", r"begin or decide is not a function of it"),
    ("{ source, per_unit },", "{source, 0},", r"per_unit is 0, allowed are 1 to"),
    ("{ #name, per_unit },", "{ 0, per_unit },", r"the name of a tunable is missing"),
    ("{ source, per_unit },", '{"weather", per_unit},', r"observes 'weather', which no world measures"),
    ("const struct bbrgym_policy bbrgym_policy = {", SMALL, r"is not a policy of format 2"),
)


def test_a_table_that_cannot_be_is_refused_before_any_call(whole: Path, tmp_path: Path) -> None:
    header, paths = whole.with_suffix(".h").read_text(), []
    for number, (before, after, _) in enumerate(MISTAKES):
        assert before in header
        changed = header.replace(before, after)
        if after == SMALL:
            changed = changed.replace("extern const struct bbrgym_policy bbrgym_policy;", "")
        source = tmp_path / f"{number}.c"
        source.write_text(changed)
        paths.append(source.with_suffix(".so"))
        command = [compilers.compiler(compilers.C), "-shared", "-fPIC", "-w", "-DBBRGYM_POLICY_ENTRY", str(source)]
        subprocess.run([*command, "-o", str(paths[-1])], check=True, timeout=compilers.PATIENCE_S)
    for (_, _, problem), said in zip(MISTAKES, loaded(paths), strict=True):
        assert re.search(problem, said), said


def test_an_evaluation_s_interval_that_does_not_fit_is_one_sentence(whole: Path, tmp_path: Path) -> None:
    words = ["evaluate", "world=twin", f"world.twin.options.policy={whole}", "interval_s=0.3", "variants=[bbq]"]
    command = [sys.executable, "-m", "bbrgym", *words, "scenario=steady", "scenario.duration_s=2", "output_dir=out"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=tmp_path)
    # on a busy machine the bar of the runs may have appeared before
    sentences = [line for line in done.stderr.splitlines() if not line.startswith("0/1 runs")]
    assert (done.returncode, len(sentences)) == (2, 1), done.stderr
    assert re.match(r"bbrgym: advance: the duration is 0\.3\d* s, .* interval, 0\.5\d* s \(interval_s of", sentences[0])


def test_harm_is_measured_against_runs_without_the_policy(whole: Path) -> None:
    flows = [{"name": "mine", "rtt_ms": 20.0}, {"name": "other", "rtt_ms": 20.0, "cc": "cubic"}]
    scenario = {
        "name": "beside",
        "duration_s": 4.0,
        "link": {"rate_mbps": 10.0, "queue": {"size_bdp": 2.0}},
        "flows": flows,
    }
    found = [
        run_evaluation(
            scenario, {"variants": ["bbq"], "interval_s": 0.5, "world": {"twin": {"options": {"policy": policy}}}}
        )
        for policy in (None, str(whole))
    ]
    assert found[0].references.equals(found[1].references)
    assert found[0].summary["goodput_mbps"].to_list() != found[1].summary["goodput_mbps"].to_list()
