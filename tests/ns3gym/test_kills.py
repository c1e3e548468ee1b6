# SPDX-License-Identifier: GPL-2.0-only
"""One of two who speak ns3-gym's protocol is killed at a random message; the other ends with an error, nothing is left.

The agent is bbrgym/Ns3Gym-v0 in a process of its own. The simulation is a child of it (actor.py), or a twin's world
that is served from a third process.
"""

import gc
import multiprocessing
import signal
import socket
import sys
import uuid
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import wait
from pathlib import Path

import numpy as np
import pytest
from mortals import TIMEOUT_S, drive, report, serve_twin
from owners import free_port, open_files
from trees import guardians, marked
from waiting import wait_until

ACTOR = str(Path(__file__).with_name("support") / "actor.py")
PATIENCE_S = 30.0  # beyond the timeout, for a busy machine
MESSAGES = 40  # the last after which one is killed; an episode has about 10
ACTOR_MESSAGES = 17  # that it sends or takes before its last state, after which nobody misses it
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


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 10))])
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
