# SPDX-License-Identifier: GPL-2.0-only
"""The borders of the native vector, its threads and forks; that each run is the run alone is in tests/worlds."""

import math
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from native_simulation import FLOW_STATS, FLOW_SUMMARY, LINK_STATS, LINK_SUMMARY, TUNABLES, arrays_for
from owners import SOMEBODY, nothing_left
from twin_harness import flow, resolved_json, scenario

from bbrgym import _twin

ONE, TWO = scenario(flow("a")), scenario(flow("a"), flow("b", cc="cubic", rtt_ms=70.0))


class Vector:
    """The native vector with arrays of its own."""

    def __init__(self, worlds: int, threads: int = 1, capacity: int = 2) -> None:
        self.native = _twin.Vector(worlds, threads, math.inf)
        rows = arrays_for(worlds, capacity).rows(slice(None))
        self.native.lay_out(capacity, *rows)
        *_, self.now_s, _ = rows

    def reset(self, index, mapping, seed):
        self.native.reset(index, resolved_json(mapping), seed)

    def advance(self, seconds):
        self.native.advance(np.full(len(self.now_s), seconds))


@pytest.fixture
def make():
    made = []

    def make_one(**options):
        made.append(Vector(6, **options))
        for index in range(6):
            made[-1].reset(index, ONE, seed=10 + index)
        return made[-1]

    yield make_one
    for vector in made:
        vector.native.close()


def test_what_does_not_run_cannot_be_used():
    vector = Vector(2, threads=2)
    for use in (
        lambda: vector.native.reset(0, None, 1),
        lambda: vector.native.save(0),
        lambda: vector.native.advance(np.ones(2)),
        lambda: vector.native.summary(0, np.zeros((1, len(FLOW_SUMMARY))), np.zeros(len(LINK_SUMMARY))),
    ):
        with pytest.raises(RuntimeError, match="world 0 does not run: reset it first"):
            use()
    vector.native.advance(np.full(2, -1.0))


def test_there_is_room_for_so_many_flows():
    vector, roomy = Vector(1, capacity=1), Vector(1)
    vector.reset(0, ONE, 1)
    roomy.reset(0, TWO, 1)
    with pytest.raises(ValueError, match="scenario 'test' has 2 flows, expected at most 1"):
        vector.reset(0, TWO, 1)
    with pytest.raises(ValueError, match="restore: the snapshot has 2 flows, expected at most 1"):
        vector.native.restore(0, roomy.native.save(0))
    vector.advance(0.5)
    assert vector.now_s[0] == 0.5


@pytest.mark.parametrize("name", ["save", "summary", "restore", "reset", "trace_acks", "ack_trace"])
def test_an_index_is_that_of_a_world(make, name):
    vector = make()
    more = {
        "trace_acks": [0, 1],
        "ack_trace": [0],
        "reset": [resolved_json(ONE), 1],
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


def test_each_world_has_its_duration(make):
    vector = make()
    expected = r"durations_s: expected a writable C-contiguous float64 array of shape \[6\]"
    for durations_s in (np.ones(5), np.ones(6, np.bool_), [1.0] * 6):
        with pytest.raises(ValueError, match=expected):
            vector.native.advance(durations_s)
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
        _twin.Vector(1, 1, 60.0).reset(0, resolved_json(ONE), 1)


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
    assert re.fullmatch(rf"WorldError scenario 'steady', seed \d+, at 0 s: {text}", of_world)


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
