# SPDX-License-Identifier: GPL-2.0-only
"""Many runs stepped together are each the run alone, bit for bit, in however many threads."""

import math
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from native_simulation import FLOW_STATS, FLOW_SUMMARY, LINK_STATS, LINK_SUMMARY, TUNABLES, arrays_for
from owners import SOMEBODY, nothing_left
from twin_harness import Simulation, flow, resolved_json, scenario

import bbrgym
from bbrgym import _twin

CODEL = {"kind": "codel", "size_bdp": 3.0}
ON_OFF = {"kind": "onoff", "rate_mbps": 8.0, "on_s": 0.3, "off_s": 0.2, "random": True}
SCENARIOS = [
    scenario(flow("a"), duration_s=2.0),
    scenario(flow("a", cc="bbr-pg"), flow("b", cc="cubic", rtt_ms=70.0), duration_s=3.0, queue=CODEL),
    scenario(flow("a", cc="bbr-mix"), duration_s=1.5, loss={"kind": "bernoulli", "rate": 0.02}),
    scenario(*[flow(f"f{i}", cc="bbq", rtt_ms=25.0 + i, start_s=0.1 * i) for i in range(5)], duration_s=2.5),
    scenario(flow("a", cc="reno", app=ON_OFF), flow("b", cc="bbr-acd"), duration_s=2.0, rate_mbps=30.0, stack="ns3"),
    scenario(flow("a", cc="cubic"), duration_s=1.0, rate_mbps=0.5),
]
CAPACITY = 5


class Vector:
    """The native vector with arrays of its own."""

    def __init__(self, worlds: int, threads: int = 1, capacity: int = CAPACITY) -> None:
        self.flows = [0] * worlds
        self.native = _twin.Vector(worlds, threads, math.inf)
        self.lay_out(arrays_for(worlds, capacity))

    def lay_out(self, arrays):
        rows = arrays.rows(slice(None))
        self.native.lay_out(arrays.shape.flows, *rows)
        self.tunables, self.flow_stats, self.link_stats, self.now_s, self.done = rows

    def reset(self, index, mapping, seed):
        self.native.reset(index, resolved_json(mapping), seed)
        self.flows[index] = len(bbrgym.load_scenario(mapping).resolved().flows)

    def advance(self, seconds, mask=None):
        self.native.advance(seconds, np.ones(len(self.now_s), np.bool_) if mask is None else mask)

    def summary(self, index):
        flows = np.zeros((self.flows[index], len(FLOW_SUMMARY)))
        link = np.zeros(len(LINK_SUMMARY))
        self.native.summary(index, flows, link)
        return flows.tobytes() + link.tobytes()

    def shown(self, index):
        """What Simulation.shown gives, and that the rest is NaN."""
        flows = self.flows[index]
        assert np.isnan(self.tunables[index, flows:]).all()
        assert np.isnan(self.flow_stats[index, flows:]).all()
        tables = (self.tunables[index, :flows], self.flow_stats[index, :flows], self.link_stats[index])
        clock = f"{float(self.now_s[index])!r} {bool(self.done[index])}".encode()
        return b"".join([*(table.tobytes() for table in tables), self.summary(index), clock])


@pytest.fixture
def make():
    made = []

    def make_one(scenarios=SCENARIOS, **options):
        made.append(Vector(len(scenarios), **options))
        for index, mapping in enumerate(scenarios):
            made[-1].reset(index, mapping, seed=10 + index)
        return made[-1]

    yield make_one
    for vector in made:
        vector.native.close()


def alone(index):
    return Simulation(SCENARIOS[index], seed=10 + index)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_each_is_what_it_is_alone(make, threads):
    vector = make(threads=threads)
    singles = [alone(index) for index in range(len(SCENARIOS))]
    gain = TUNABLES.index("bbr_cwnd_gain")
    for step in range(40):
        for index, single in enumerate(singles):
            assert vector.shown(index) == single.shown()
            if not np.isnan(single.tunables[0, gain]):
                single.tunables[0, gain] = vector.tunables[index, 0, gain] = 1.5 + (step + index) % 3 / 2
            single.advance(0.08)
        vector.advance(0.08)
    assert vector.done.all()
    for index, single in enumerate(singles):
        assert vector.shown(index) == single.shown()


@pytest.mark.parametrize("threads", [1, 3])
def test_only_the_chosen_advance(make, threads):
    vector = make(threads=threads)
    singles = [alone(index) for index in range(len(SCENARIOS))]
    random = np.random.default_rng(1)
    for _ in range(30):
        mask = random.integers(0, 2, len(SCENARIOS)).astype(np.bool_)
        vector.advance(0.05, mask)
        for index, single in enumerate(singles):
            if mask[index]:
                single.advance(0.05)
            assert vector.shown(index) == single.shown()


def test_a_reset_is_of_one_and_forgets(make):
    vector = make(threads=2)
    for round_ in range(3):
        vector.advance(0.7)
        for index in range(len(SCENARIOS)):  # each takes over another's scenario, larger or smaller
            vector.reset(index, SCENARIOS[(index + round_) % len(SCENARIOS)], seed=round_)
        single = Simulation(SCENARIOS[(2 + round_) % len(SCENARIOS)], seed=round_)
        assert vector.shown(2) == single.shown()
        vector.advance(0.4)
        single.advance(0.4)
        assert vector.shown(2) == single.shown()


def test_the_same_scenario_with_another_seed_needs_no_text(make):
    vector = make()
    vector.advance(0.7)
    vector.tunables[2, 0, TUNABLES.index("bbr_cwnd_gain")] = 3.0  # never in force, and gone
    vector.native.reset(2, None, 77)
    single = Simulation(SCENARIOS[2], seed=77)
    assert vector.shown(2) == single.shown()
    vector.advance(0.7)
    single.advance(0.7)
    assert vector.shown(2) == single.shown()


def test_snapshots_pass_between_worlds_and_simulations(make):
    vector = make(threads=2)
    vector.advance(0.5)
    snapshot = vector.native.save(3)
    at_save = vector.shown(3)
    vector.advance(0.5)
    later = vector.shown(3)
    vector.native.restore(0, snapshot)  # another world, which had fewer flows
    vector.flows[0] = vector.flows[3]
    assert vector.shown(0) == at_save
    single = alone(3)
    single.native.restore(0, snapshot)
    assert single.shown() == at_save
    single.advance(0.5)
    vector.advance(0.5, np.arange(6) == 0)
    assert single.shown() == vector.shown(0) == later

    single = alone(1)
    single.advance(1.0)
    vector.native.restore(4, single.native.save(0))
    vector.flows[4] = 2
    assert vector.shown(4) == single.shown()


def test_a_wrong_tunable_is_an_error_and_the_others_advance(make):
    vector = make(threads=3)
    for index in (1, 4):
        vector.tunables[index, 0, TUNABLES.index("plus_alpha")] = 9.0
    with pytest.raises(ValueError, match="flow 'a': bbr-pg has no tunable plus_alpha"):  # the first one's
        vector.advance(0.5)
    assert vector.now_s.tolist() == [0.5, 0.0, 0.5, 0.5, 0.0, 0.5]
    vector.tunables[(1, 4), 0, TUNABLES.index("plus_alpha")] = np.nan
    vector.advance(0.5)
    assert vector.now_s.tolist() == [1.0, 0.5, 1.0, 1.0, 0.5, 1.0]


def test_a_bad_scenario_leaves_the_world_to_be_reset(make):
    vector = make()
    with pytest.raises(ValueError, match=r"is not JSON"):
        vector.native.reset(1, "{", 1)
    vector.advance(0.5)
    assert vector.now_s[1] == 0.5  # it goes on: nothing was begun
    with pytest.raises(ValueError, match=r"flows\[0\]\.cc: is 'ns3-bbr', .* need the ns3 world"):
        vector.native.reset(1, resolved_json(scenario(flow(cc="ns3-bbr"))), 1)
    with pytest.raises(RuntimeError, match="world 1 does not run: reset it first"):
        vector.native.save(1)
    vector.reset(1, SCENARIOS[1], 11)
    vector.advance(0.5)
    single = Simulation(SCENARIOS[1], 11)
    single.advance(0.5)
    assert vector.shown(1) == single.shown()


def test_what_does_not_run_cannot_be_used():
    vector = Vector(2, threads=2)
    mask = np.ones(2, np.bool_)
    for use in (
        lambda: vector.native.reset(0, None, 1),
        lambda: vector.native.save(0),
        lambda: vector.native.advance(0.1, mask),
        lambda: vector.summary(0),
    ):
        with pytest.raises(RuntimeError, match="world 0 does not run: reset it first"):
            use()
    vector.native.advance(0.1, np.zeros(2, np.bool_))


def test_there_is_room_for_so_many_flows():
    vector = Vector(1, capacity=1)
    vector.reset(0, SCENARIOS[0], 1)
    with pytest.raises(ValueError, match="scenario 'test' has 2 flows, expected at most 1"):
        vector.reset(0, SCENARIOS[1], 1)
    with pytest.raises(ValueError, match="restore: the snapshot has 2 flows, expected at most 1"):
        vector.native.restore(0, alone(1).native.save(0))
    vector.advance(0.5)
    assert vector.now_s[0] == 0.5


@pytest.mark.parametrize("name", ["save", "summary", "restore", "reset", "trace_acks", "ack_trace"])
def test_an_index_is_that_of_a_world(make, name):
    vector = make()
    more = {
        "trace_acks": [0, 1],
        "ack_trace": [0],
        "reset": [resolved_json(SCENARIOS[0]), 1],
        "restore": [vector.native.save(0)],
        "summary": [np.zeros((1, len(FLOW_SUMMARY))), np.zeros(len(LINK_SUMMARY))],
        "save": [],
    }
    with pytest.raises(IndexError, match="world 6 of 6"):
        getattr(vector.native, name)(6, *more[name])


@pytest.mark.parametrize("which", range(5))
@pytest.mark.parametrize("damage", ["shape", "type", "order", "readonly"])
def test_a_wrong_array_is_an_error(which, damage):
    names = ["tunables", "flow_stats", "link_stats", "now_s", "done"]
    given = [np.zeros((2, 3, len(TUNABLES))), np.zeros((2, 3, len(FLOW_STATS))), np.zeros((2, len(LINK_STATS)))]
    given += [np.zeros(2), np.zeros(2, np.bool_)]
    array = given[which]
    if damage == "shape":
        array = array[:1]
    elif damage == "type":
        array = array.astype(np.float32)
    elif damage == "order":
        array = np.zeros((2 * len(array), *array.shape[1:]), array.dtype)[::2]
    else:
        array.flags.writeable = False
    given[which] = array
    expected = rf"^({names[which]}|tunables): expected a writable C-contiguous (float64|bool) array"
    with pytest.raises(ValueError, match=expected):
        _twin.Vector(2, 1, 60.0).lay_out(3, *given)


def test_a_mask_is_one_byte_a_world(make):
    vector = make()
    for mask in (np.ones(5, np.bool_), np.ones(6), [True] * 6):
        with pytest.raises(ValueError, match=r"mask: expected a writable C-contiguous bool array of shape \[6\]"):
            vector.native.advance(0.1, mask)
    assert not vector.now_s.any()


@pytest.mark.parametrize(("worlds", "threads"), [(0, 1), (1, 0)])
def test_nothing_is_not_enough(worlds, threads):
    with pytest.raises(ValueError, match="num_worlds and threads: expected at least 1"):
        _twin.Vector(worlds, threads, 60.0)


def test_arrays_need_room_for_a_flow():
    with pytest.raises(ValueError, match="flow_capacity: expected at least 1"):
        _twin.Vector(1, 1, 60.0).lay_out(0, *arrays_for(1, 0).rows(slice(None)))


def test_a_vector_without_arrays_says_so():
    with pytest.raises(RuntimeError, match=r"has no arrays: call lay_out\(\) first"):
        _twin.Vector(1, 1, 60.0).reset(0, resolved_json(SCENARIOS[0]), 1)


def test_runs_go_on_in_other_arrays(make):
    vector, expected = make(), make()
    for each in (vector, expected):
        each.advance(0.5)
    former = [
        array.copy() for array in (vector.tunables, vector.flow_stats, vector.link_stats, vector.now_s, vector.done)
    ]
    vector.lay_out(arrays_for(len(SCENARIOS), CAPACITY + 2))
    with pytest.raises(AssertionError):
        vector.shown(0)
    larger = arrays_for(len(SCENARIOS), CAPACITY + 2)
    larger.fill(former)
    vector.lay_out(larger)
    for _ in range(2):
        assert [vector.shown(i) for i in range(len(SCENARIOS))] == [expected.shown(i) for i in range(len(SCENARIOS))]
        for each in (vector, expected):
            each.advance(0.5)


def test_a_closed_vector_says_so(make):
    vector = make(threads=2)
    vector.native.close()
    vector.native.close()
    for use in (vector.advance, vector.summary, vector.native.save, lambda index: vector.native.reset(index, None, 1)):
        with pytest.raises(RuntimeError, match="closed"):
            use(0)


FEW_THREADS = """
import resource
from bbrgym import _twin, make_world
from bbrgym.worlds import make_vector_world
resource.setrlimit(resource.RLIMIT_NPROC, (5, 5))
for _ in range(3):
    try:
        _twin.Vector(50, 50, 60.0)
    except RuntimeError as error:
        print(error)
try:
    make_vector_world("twin", 50, ["steady"] * 50, threads=50)
except Exception as error:
    print(type(error).__name__, error)
with make_world("twin", "steady") as world:
    world.advance(0.5)
"""


def test_threads_that_the_system_refuses_are_an_error_and_none_is_left():
    done = subprocess.run(
        [*SOMEBODY, sys.executable, "-c", FEW_THREADS], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    text = r"cannot start thread \d+ of 50 \(threads sets how many\): Resource temporarily unavailable"
    *each, of_world = done.stdout.splitlines()
    assert len(each) == 3
    assert all(re.fullmatch(text, one) for one in each)
    assert len(set(each)) == 1, "the threads of the others are gone"
    assert re.fullmatch(rf"WorldError scenario 'steady', seed \d+, at 0 s: RuntimeError: {text}", of_world)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")  # Python 3.12
def test_a_fork_has_no_threads_and_says_so(make):
    vector = make(threads=3)
    vector.advance(0.2)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            vector.advance(0.2)
        except RuntimeError as error:
            code = 0 if f"belongs to process {os.getppid()}" in str(error) else 2
        vector.native.close()
        os._exit(code)
    assert os.waitpid(pid, 0) == (pid, 0)
    vector.advance(0.2)
    assert vector.now_s.tolist() == [0.4] * 6


def test_threads_end_with_the_vector(make):
    with nothing_left():
        for _ in range(20):
            vector = make(threads=4)
            vector.advance(0.01)
            vector.native.close()
