# SPDX-License-Identifier: GPL-2.0-only
"""One of two who speak ns3-gym's protocol is killed at a random message; the other ends with an error, nothing is left.

The agent is bbrgym/Ns3Gym-v0 in a process of its own. The simulation is a child of it (actor.py), or a twin's world
that is served from a third process.
"""

import functools
import gc
import itertools
import multiprocessing
import os
import signal
import socket
import sys
import threading
import uuid
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import wait
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from owners import free_port, open_files
from trees import guardians, marked
from waiting import wait_until

import bbrgym.envs  # noqa: F401 - registers the environments
from bbrgym.envs.tune_env import TuneEnv
from bbrgym.ns3gym.channel import AgentSocket, SimulationSocket
from bbrgym.ns3gym.errors import ProtocolError
from bbrgym.ns3gym.serving import serve

ACTOR = str(Path(__file__).with_name("support") / "actor.py")
TIMEOUT_S = 5.0
PATIENCE_S = 30.0  # beyond the timeout, for a busy machine
MESSAGES = 40  # the last after which one is killed; an episode has about 10
ACTOR_MESSAGES = 17  # that it sends or takes before its last state, after which nobody misses it
SCENARIO = {
    "name": "tiny",
    "duration_s": 0.8,
    "link": {"rate_mbps": 5.0, "queue": {"size_bdp": 1.0}},
    "flows": [{"name": "flow", "rtt_ms": 20.0}],
}
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(
    ["bbrgym.envs.tune_env", "bbrgym.envs.ns3gym_env", "bbrgym.ns3gym.serving", "bbrgym._twin"]
)


@pytest.fixture(scope="module", autouse=True)
def _nothing_left():
    forkserver.ensure_running()  # these two stay
    resource_tracker.ensure_running()
    gc.collect()
    files, earlier = open_files(), guardians()
    yield
    gc.collect()
    wait_until(lambda: open_files() <= files)  # what earlier tests left may be closed meanwhile
    assert set(guardians()) <= set(earlier)


@pytest.mark.parametrize("seed", range(10))
def test_the_other_ends_with_a_clear_error(seed):
    rng = np.random.default_rng(seed)
    pairs = [Pair(victim, is_child, rng) for victim in ("agent", "simulation") for is_child in (True, False)]
    for pair in pairs:
        pair.check()


class Pair:
    """An agent and its simulation; one of them will be killed after a message of its own, or a moment later."""

    def __init__(self, victim, is_child, rng):
        dies = int(rng.integers(MESSAGES)), float(rng.choice([0.0, rng.uniform(0.0, 0.003)]))
        self.what = f"the {victim} ({is_child = }) is killed {dies[1]} s after its message {dies[0]}"
        self.mark, self.port, self.victim = f"kill-{uuid.uuid4()}", free_port(), victim
        command = [sys.executable, ACTOR, f"--word={self.mark}", "--steps=8"] if is_child else None
        if is_child and victim == "simulation":
            command += [f"--die_at={dies[0] % ACTOR_MESSAGES}", f"--die_after_s={dies[1]}"]
        self.roles = {"agent": Role(drive, self.port, dies if victim == "agent" else None, command)}
        if not is_child:
            self.roles["simulation"] = Role(serve_twin, self.port, dies if victim == "simulation" else None)

    def check(self):
        ends = {name: role.end() for name, role in self.roles.items()}
        wait_until(lambda: not marked(self.mark), PATIENCE_S)
        assert ends.pop(self.victim, (-signal.SIGKILL, None)) == (-signal.SIGKILL, None), self.what
        for code, error in ends.values():  # there is none where the agent's guardian ended the simulation
            assert code == 0, self.what
            assert error[0] in ("PeerGone", "ProtocolTimeout"), f"{self.what}: {error}"
        with socket.socket() as probe:  # nobody listens any more
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", self.port))


class Role:
    """A process, and the error that it ends with."""

    def __init__(self, play, *arguments):
        self._receiver, sender = PROCESSES.Pipe(duplex=False)
        self._process = PROCESSES.Process(target=report, args=(sender, play, *arguments))
        self._process.start()
        sender.close()

    def end(self):
        """Exit code, and kind and text of the error if it told one."""
        wait([self._process.sentinel], TIMEOUT_S + PATIENCE_S)
        code = self._process.exitcode
        self._process.kill()
        self._process.join()
        self._process.close()
        try:
            return code, self._receiver.recv() if code is not None else None
        except EOFError:
            return code, None
        finally:
            self._receiver.close()


def report(sender, play, *arguments):
    try:
        play(*arguments)
    except ProtocolError as error:
        sender.send((type(error).__name__, str(error)))


def drive(port, dies, command):
    make_mortal(AgentSocket, ("await_simulation", "acknowledge", "receive_state", "send_action"), dies)
    options = {} if command is None else {"command": command, "grace_s": 0.5}
    env = gymnasium.make("bbrgym/Ns3Gym-v0", port=port, timeout_s=TIMEOUT_S, **options)
    while True:
        env.reset()
        is_over = False
        while not is_over:
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
            is_over = terminated or truncated


def serve_twin(port, dies):
    make_mortal(SimulationSocket, ("introduce", "exchange"), dies)
    serve(TuneEnv(world="twin", scenario=SCENARIO), port, episodes=1000, timeout_s=TIMEOUT_S)


def make_mortal(end, methods, dies):
    """Lets a class of this process kill the process before or after one of many calls."""
    if dies is None:
        return
    message, delay_s = dies
    left = itertools.count(message, -1)

    def pass_by():
        if next(left) == 0:
            timer = threading.Timer(delay_s, os.kill, (os.getpid(), signal.SIGKILL))
            timer.start() if delay_s else timer.function(*timer.args)

    def counted(method):
        @functools.wraps(method)
        def passing(*arguments, **options):
            pass_by()
            result = method(*arguments, **options)
            pass_by()
            return result

        return passing

    for name in methods:
        setattr(end, name, counted(getattr(end, name)))
