# SPDX-License-Identifier: GPL-2.0-only
"""Workers that die, hang and fail, and owners that do."""

import contextlib
import gc
import os
import signal
import threading
import time
from pathlib import Path

import pytest
from owners import another_owner, named_memory, nothing_left, open_files, tell
from processes import ends_within, is_computing, workers
from waiting import meanwhile, wait_until

import bbrgym
from bbrgym.worlds import LateRunError

pytestmark = pytest.mark.usefixtures("own_children")


def advance_until(world, misbehaves_at_s):
    while world.now_s < misbehaves_at_s:
        world.advance(0.5)


# ---- workers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("deed", "kind", "reason"),
    [
        (
            "abort",
            bbrgym.WorldError,
            r"the worker was killed by SIGABRT; it last wrote:\nline 81\n(.*\n)*assert failed\. cond=\"cwnd > 0\"$",
        ),
        ("exit", bbrgym.WorldError, r"the worker exited with code 7$"),
        ("raise", bbrgym.WorldError, r"the model broke$"),
        ("give-up", bbrgym.WorldError, r"the other side has gone$"),
        ("late", LateRunError, r"packets were late$"),
    ],
)
def test_a_failure_is_a_world_error_and_a_reset_goes_on(make_odd, deed, kind, reason):
    world = make_odd(deed, seed=11)
    advance_until(world, 1.0)
    with pytest.raises(bbrgym.WorldError, match=f"^scenario '{deed}', seed 11, at 1 s: {reason}") as caught:
        world.advance(0.5)
    assert caught.type is kind
    assert (caught.value.scenario, caught.value.seed, caught.value.now_s) == (deed, 11, 1.0)
    with pytest.raises(ValueError, match=r"is not running, its run broke or was interrupted: call reset\(\) first"):
        world.advance(0.5)
    world.reset(seed=12)
    advance_until(world, 1.0)
    assert world.link_stats()[:2].tolist() == [1.0, 12.0]


def test_a_hang_is_a_world_error(make_odd):
    world = make_odd("hang", timeout_s=5.0)
    [worker] = workers()
    advance_until(world, 1.0)
    begin_s = time.monotonic()
    with pytest.raises(bbrgym.WorldError, match=r"at 1 s: no answer within 5 s \(timeout_s sets"):
        world.advance(0.5)
    assert time.monotonic() - begin_s < 60.0  # of the hour that the worker sleeps
    assert not worker.is_running()
    world.reset()
    world.advance(0.5)


def test_the_timeout_grows_with_what_is_asked(make_odd):
    world = make_odd("hang", timeout_s=4.0)
    advance_until(world, 1.0)
    with pytest.raises(bbrgym.WorldError, match=r"no answer within 6 s"):
        world.advance(1.5)


def test_what_the_engine_refuses_is_the_callers_mistake(make_odd):
    with pytest.raises(ValueError, match=r"^flows\[0\]\.cc: not in this world$"):
        make_odd("refuse")
    with pytest.raises(bbrgym.WorldError, match="at 0 s: out of routers"):
        make_odd("fail")
    gc.collect()
    assert workers() == []


def test_an_engine_that_is_not_there():
    bbrgym.worlds.register_world("nowhere", "no_such_engine.Engine", "cannot be imported", isolation="process")
    with pytest.raises(bbrgym.WorldError, match=r"the worker exited with code 1; .*\n(.*\n)*.*no_such_engine"):
        bbrgym.make_world("nowhere", "steady")


@pytest.mark.parametrize("isolation", ["none", "process"])
def test_a_class_that_is_no_engine_is_named(isolation):
    bbrgym.worlds.register_world(isolation, "builtins.Exception", "a mistake", isolation=isolation)
    text = (
        "builtins.Exception is not an engine: it has no lay_out, reset, advance, summary, close, expected a class like"
    )
    with pytest.raises((bbrgym.ConfigError, bbrgym.WorldError), match=text):
        bbrgym.make_world(isolation, "steady")


def test_what_a_worker_writes_does_not_pile_up(make_odd, capfd):
    world = make_odd("talk")
    while not world.done:
        world.advance(0.5)
    [worker] = workers()
    wait_until(lambda: Path(f"/proc/{worker.pid}/fd/2").stat().st_size <= 1 << 20)  # it cuts after its answer
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGABRT, signal.SIGSEGV])
def test_ns3_killed_in_an_advance(busy_scenario, number):
    with bbrgym.make_world("ns3", busy_scenario, seed=2) as world:
        [worker] = workers()
        death_s = []

        def kill():
            wait_until(busy)
            death_s.append(time.monotonic())
            worker.send_signal(number)

        busy = is_computing(worker)
        text = f"scenario 'busy', seed 2, at 0 s: the worker was killed by {number.name}"
        with meanwhile(kill), pytest.raises(bbrgym.WorldError, match=text):
            world.advance(1000.0)
        assert time.monotonic() - death_s[0] < 10.0  # of the hours that an answer may take
        world.reset()
        world.advance(0.01)
        assert world.now_s == 0.01


def test_ctrl_c_in_the_terminal_does_not_reach_a_worker(make_odd):
    world = make_odd("steady")
    [worker] = workers()
    assert os.getsid(worker.pid) == worker.pid  # a session of its own
    worker.send_signal(signal.SIGINT)
    world.advance(0.5)
    assert world.now_s == 0.5


# ---- what is left -------------------------------------------------------------------------------------


def _forgotten():
    bbrgym.make_world("ns3", "steady").advance(0.1)


def _not_made():
    with pytest.raises(bbrgym.WorldError):
        bbrgym.make_world("odd", {**bbrgym.load_scenario("steady").model_dump(), "name": "fail"})


@pytest.mark.parametrize("leave", [_forgotten, _not_made])
def test_nothing_is_left_of_a_world_that_nobody_holds(leave):
    with nothing_left():
        leave()
        gc.collect()
        assert workers() == []


def test_nothing_is_left(short_scenario):
    with nothing_left():
        world = bbrgym.make_world("ns3", short_scenario)
        names, with_world = named_memory(), open_files()
        for seed in range(100):
            world.reset("steady" if seed % 2 else short_scenario, seed)
            world.advance(0.01)
        [worker] = workers()
        assert open_files() <= with_world
        assert named_memory() <= names
        assert named_memory(worker.pid) == set()
        world.close()
        del world
        assert workers() == []


@pytest.mark.parametrize("name", ["ns3", "twin"])
def test_each_thread_drives_its_world(short_scenario, name):
    shown = {}

    def drive(index):
        with bbrgym.make_world(name, short_scenario, seed=6) as world:
            while not world.done:
                world.advance(0.1)
            shown[index] = world.summary()[0].tobytes()

    threads = [threading.Thread(target=drive, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120.0)
    assert len(shown) == 4
    assert len(set(shown.values())) == 1


@pytest.mark.parametrize("name", ["ns3", "twin"])
def test_a_fork_neither_uses_nor_ends_the_owners_world(short_scenario, name):
    with bbrgym.make_world(name, short_scenario) as world:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                world.advance(1.0)
            except RuntimeError as error:
                code = 0 if f"belongs to process {os.getppid()}" in str(error) else 2
            world.close()
            os._exit(code)
        assert os.waitpid(pid, 0) == (pid, 0)
        world.advance(1.0)
        assert world.now_s == 1.0


# ---- owners -------------------------------------------------------------------------------------------

OWNER = """
import os, sys, time
import bbrgym
world = bbrgym.make_world("ns3", {scenario!r})
print("ready", flush=True)
sys.stdin.readline()
{then}
"""


@contextlib.contextmanager
def owner_of_a_world(scenario, then):
    """Another Python with a world, its worker, and a pidfd of that; it goes on when told to."""
    with another_owner(OWNER.format(scenario=scenario, then=then)) as owner:
        [worker] = workers(owner.pid)
        worker_fd = os.pidfd_open(worker.pid)
        tell(owner)
        yield owner, worker, worker_fd
        os.close(worker_fd)


@pytest.mark.parametrize("then", ["world.advance(1000.0)", "time.sleep(60)"], ids=["in an advance", "idle"])
def test_a_worker_ends_with_its_killed_owner(busy_scenario, then):
    with owner_of_a_world(busy_scenario, then) as (owner, worker, worker_fd):
        if "advance" in then:
            wait_until(is_computing(worker))
        owner.kill()
        assert ends_within(worker_fd, 2.0)


def test_a_worker_ends_with_its_killed_owner_though_a_fork_lives_on(busy_scenario):
    fork = 'os.write(1, b"%d\\n" % os.fork()); time.sleep(60)'  # holds every descriptor that the owner held
    with owner_of_a_world(busy_scenario, fork) as (owner, _, worker_fd):
        fork_pid = max(int(owner.stdout.readline()), int(owner.stdout.readline()))
        owner.kill()
        try:
            assert ends_within(worker_fd, 2.0)
        finally:
            os.kill(fork_pid, signal.SIGKILL)


@pytest.mark.parametrize(
    "then",
    [
        "sys.exit(0)",
        "raise ValueError",
        "world.advance(0.1); del world; time.sleep(60)",
        "world.close(); time.sleep(60)",
    ],
)
def test_a_worker_ends_with_its_world_and_with_its_owners_exit(busy_scenario, then):
    with owner_of_a_world(busy_scenario, then) as (_, _, worker_fd):
        assert ends_within(worker_fd, 10.0)


def test_the_owners_python_settings_do_not_reach_a_worker(monkeypatch, make_odd):
    monkeypatch.setenv("PYTHONSTARTUP", "/nonexistent")
    monkeypatch.setenv("PYTHONINSPECT", "1")
    monkeypatch.setenv("PYTHONHOME", "/nonexistent")
    world = make_odd("steady")
    world.advance(0.5)
    assert world.now_s == 0.5


def test_a_worker_outlives_the_thread_that_started_it(make_odd):
    made = []
    thread = threading.Thread(target=lambda: made.append(make_odd("steady")))
    thread.start()
    thread.join(120.0)
    made[0].advance(0.5)
    assert made[0].now_s == 0.5
