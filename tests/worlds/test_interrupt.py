# SPDX-License-Identifier: GPL-2.0-only
"""A long advance in this process ends at Ctrl-C, at its deadline and when the world is closed."""

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import psutil
import pytest

import bbrgym
from bbrgym.worlds import make_vector_world
from tests.support.waiting import meanwhile, wait_until
from tests.worlds.support.processes import is_computing

SOON_S = 30.0  # of the minutes to hours that the work takes


def scenario(name: str, rate_mbps: float, mss_bytes: int = 1448) -> dict[str, Any]:
    return {
        "name": name,
        "duration_s": 3600.0,
        "mss_bytes": mss_bytes,
        "link": {"rate_mbps": rate_mbps, "queue": {"size_bdp": 1.0}},
        "flows": [{"name": "flow", "count": 4, "cc": "bbr", "rtt_ms": 20.0}],
    }


LONG = scenario("long", 100_000.0, 100)  # many seconds of work for each simulated second
TIMEOUT_S = 1.0  # far less than a simulated second of LONG takes, far more than one of SHORT
SHORT = scenario("short", 1.0)  # a millisecond of work for each simulated second

INTERRUPTED = """
import sys
import time
from bbrgym.worlds import make_vector_world

name, count, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
long, short = eval(sys.argv[4])
world = make_vector_world(name, count, [long] * count, threads=threads, isolation="none", flow_capacity=4)
print("ready", flush=True)
try:
    world.advance(3600.0)
except KeyboardInterrupt:
    print(time.monotonic(), float(world.now_s[0]))
try:
    world.advance(1.0)
except ValueError as error:
    print(error)
for index in range(count):
    world.reset(index, short)
world.advance(1.0)
print("went on to", *world.now_s)
"""


@pytest.mark.parametrize(
    ("world", "count", "threads"), [("twin", 1, 1), ("twin", 3, 2), ("ns3", 1, 1)], ids=["twin", "threads", "ns3"]
)
def test_ctrl_c_ends_an_advance_and_the_worlds_can_begin_again(world: str, count: int, threads: int) -> None:
    command = [sys.executable, "-c", INTERRUPTED, world, str(count), str(threads), repr((LONG, SHORT))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            wait_until(is_computing(psutil.Process(child.pid)))
            sent_s = time.monotonic()
            child.send_signal(signal.SIGINT)
            printed, errors = child.communicate(timeout=60)
        finally:
            child.kill()
    assert (child.returncode, errors) == (0, "")
    interrupted, refused, went_on = printed.splitlines()
    ended_s, now_s = map(float, interrupted.split())
    assert ended_s - sent_s < SOON_S
    assert 0.0 < now_s < 3600.0, "in the middle of the interval"
    assert "is not running, its run broke or was interrupted: call reset() first" in refused
    assert went_on == "went on to" + " 1.0" * count


@pytest.mark.parametrize("world", ["twin", "ns3"])
def test_the_deadline_ends_an_advance_in_this_process(world: str) -> None:
    with bbrgym.make_world(world, LONG, seed=7, isolation="none", timeout_s=TIMEOUT_S) as running:
        begin = time.monotonic()
        with pytest.raises(
            bbrgym.WorldError, match=r"no answer within 1 s \(timeout_s sets how long to wait\)"
        ) as caught:
            running.advance(1.0)
        assert TIMEOUT_S <= time.monotonic() - begin < SOON_S
        assert (caught.value.scenario, caught.value.seed) == ("long", 7)
        assert 0.0 < caught.value.now_s < 1.0
        with pytest.raises(ValueError, match=r"is not running, its run broke or was interrupted: call reset\(\) first"):
            running.advance(1.0)
        running.reset(SHORT)
        running.advance(0.5)
        assert running.now_s == 0.5


def test_the_deadline_names_the_world_that_was_late() -> None:
    worlds = make_vector_world("twin", 2, [SHORT, LONG], seeds=[1, 9], threads=2, timeout_s=TIMEOUT_S)
    with worlds, pytest.raises(bbrgym.WorldError, match=r"no answer within 1 s") as caught:
        worlds.advance(1.0)
    assert (caught.value.scenario, caught.value.seed) == ("long", 9)


@contextlib.contextmanager
def alarms() -> Iterator[list[int]]:
    """List that grows by one each time SIGALRM's handler runs; it comes every 5 ms."""
    ran: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, _: ran.append(number))
    signal.setitimer(signal.ITIMER_REAL, 0.005, 0.005)
    try:
        yield ran
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(("world", "rate_mbps"), [("twin", 1000.0), ("ns3", 50.0)])
def test_a_handler_that_returns_runs_and_changes_nothing(world: str, rate_mbps: float) -> None:
    def run(interval_s: float) -> bytes:
        with bbrgym.make_world(world, scenario("middling", rate_mbps), isolation="none") as running:
            ran.clear()
            running.advance(interval_s)
            within.append(len(ran))
            return b"".join(
                np.ascontiguousarray(table).tobytes() for table in (running.flow_stats(), *running.summary())
            )

    interval_s = 2.0
    within: list[int] = []
    with alarms() as ran:
        disturbed = run(interval_s)
        while within[-1] < 3:  # Python runs one before the native loop and one after it; a fast machine needs longer
            interval_s *= 2.0
            assert interval_s < 200.0, "the handler runs in the middle of an advance"
            disturbed = run(interval_s)
    assert run(interval_s) == disturbed
    assert within[-1] == 0


@pytest.mark.parametrize("world", ["twin", "ns3"])
def test_closing_a_world_from_another_thread_ends_its_advance(world: str) -> None:
    running = bbrgym.make_world(world, LONG, isolation="none")
    busy = is_computing(psutil.Process())

    def close() -> None:
        wait_until(busy)
        running.close()

    with meanwhile(close), pytest.raises(bbrgym.WorldError, match="closed in the middle of an advance"):
        running.advance(3600.0)
    with pytest.raises(ValueError, match="is closed"):
        running.advance(1.0)
    with bbrgym.make_world(world, SHORT, isolation="none") as another:
        another.advance(1.0)
