# SPDX-License-Identifier: GPL-2.0-only
"""One of two who speak ns3-gym's protocol is killed at a random message; what the other says, and what is left.

The agent is bbrgym/Ns3Gym-v0 in a process of its own. The simulation is a child of it (actor.py), or a twin's world
that is served from a third process.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
import re
import signal
import socket
import sys
import threading
import uuid
from collections import Counter
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path

import gymnasium
import numpy as np
from owners import free_port
from trees import marked
from waiting import wait_until

import bbrgym.envs  # noqa: F401 - registers the environments
from bbrgym.envs.tune_env import TuneEnv
from bbrgym.ns3gym.channel import AgentSocket, SimulationSocket
from bbrgym.ns3gym.errors import ProtocolError
from bbrgym.ns3gym.serving import serve

ACTOR = str(Path(__file__).with_name("actor.py"))
TIMEOUT_S = 5.0
PATIENCE_S = 30.0  # beyond the timeout, for a busy machine
MESSAGES = 40  # the last after which one is killed; an episode has about 10
_ACTOR_MESSAGES = 17  # that it sends or takes before its last state, after which nobody misses it
SCENARIO = {
    "name": "tiny",
    "duration_s": 0.8,
    "link": {"rate_mbps": 5.0, "queue": {"size_bdp": 1.0}},
    "flows": [{"name": "flow", "rtt_ms": 20.0}],
}
_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES_LOCK = threading.Lock()  # start() takes note of all that have ended, which must happen once
_PROCESSES.set_forkserver_preload(
    ["bbrgym.envs.tune_env", "bbrgym.envs.ns3gym_env", "bbrgym.ns3gym.serving", "bbrgym._twin"]
)


@dataclass(frozen=True)
class Kill:
    """Who is killed and when.

    Attributes:
        victim: `agent` or `simulation`.
        is_child: whether the agent started the simulation.
        message: which of its own it sends or takes last.
        delay_s: from there to the end.
    """

    victim: str
    is_child: bool
    message: int
    delay_s: float


def kills(count, seed):
    """That many, each way equally often."""
    rng = np.random.default_rng(seed)
    ways = [(victim, is_child) for victim in ("agent", "simulation") for is_child in (True, False)]
    for index in range(count):
        victim, is_child = ways[index % len(ways)]
        yield Kill(victim, is_child, int(rng.integers(MESSAGES)), float(rng.choice([0.0, rng.uniform(0.0, 0.003)])))


def carry_out(kill):
    """What the survivor said; an AssertionError tells what is not as it must be."""
    mark = f"kill-{uuid.uuid4()}"
    port = free_port()
    agent_dies = kill if kill.victim == "agent" else None
    simulation_dies = kill if kill.victim == "simulation" else None
    agent = _Role(_drive, port, agent_dies, _command(mark, simulation_dies) if kill.is_child else None)
    served = None if kill.is_child else _Role(_serve, port, simulation_dies)
    ends = {"agent": agent.end(), "simulation": served and served.end()}
    wait_until(lambda: not marked(mark), PATIENCE_S)
    code, said = ends.pop(kill.victim) or (-signal.SIGKILL, None)
    assert (code, said) == (-signal.SIGKILL, None), f"{kill}: it ended with {code}, {said}"
    [survivor] = ends.values()
    if survivor is None:  # the agent's child, which the guardian ended
        return "ended with its agent"
    code, said = survivor
    assert code == 0, f"{kill}: the other ended with {code}"
    kind, text = said
    assert kind in ("PeerGone", "ProtocolTimeout"), f"{kill}: {kind}: {text}"
    with socket.socket() as probe:  # nobody listens any more
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", port))
    return f"{kind}: {text}"


def summary(said):
    """How often which was said, without what differs from time to time."""
    return Counter(re.sub(r" at 127\.0\.0\.1:\d+", "", line.splitlines()[0]) for line in said)


# ---- the two --------------------------------------------------------------------------------------------


class _Role:
    """A process, and the error that it ends with."""

    def __init__(self, play, *arguments):
        self._receiver, sender = _PROCESSES.Pipe(duplex=False)
        self._process = _PROCESSES.Process(target=_report, args=(sender, play, *arguments))
        with _PROCESSES_LOCK:
            self._process.start()
        sender.close()

    def end(self):
        """Exit code, and kind and text of the error if it told one."""
        wait([self._process.sentinel], TIMEOUT_S + PATIENCE_S)
        with _PROCESSES_LOCK:
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


def _report(sender, play, *arguments):
    try:
        play(*arguments)
    except ProtocolError as error:
        sender.send((type(error).__name__, str(error)))


def _drive(port, dies, command):
    if dies is not None:
        _mortal(AgentSocket, ("await_simulation", "acknowledge", "receive_state", "send_action"), dies)
    options = {} if command is None else {"command": command, "grace_s": 0.5}
    env = gymnasium.make("bbrgym/Ns3Gym-v0", port=port, timeout_s=TIMEOUT_S, **options)
    while True:
        env.reset()
        is_over = False
        while not is_over:
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
            is_over = terminated or truncated


def _serve(port, dies):
    if dies is not None:
        _mortal(SimulationSocket, ("introduce", "exchange"), dies)
    env = TuneEnv(world="twin", scenario=SCENARIO)
    serve(env, port, episodes=1000, timeout_s=TIMEOUT_S)


def _command(mark, dies):
    words = [sys.executable, ACTOR, f"--word={mark}", "--steps=8"]
    if dies is None:
        return words
    return [*words, f"--die_at={dies.message % _ACTOR_MESSAGES}", f"--die_after_s={dies.delay_s}"]


def _mortal(end, methods, kill):
    """Lets a class of this process kill the process before or after one of many calls."""
    life = Life(kill.message, kill.delay_s)
    for name in methods:
        setattr(end, name, _counted(getattr(end, name), life))


def _counted(method, life):
    @functools.wraps(method)
    def counted(*arguments, **options):
        life.pass_by()
        result = method(*arguments, **options)
        life.pass_by()
        return result

    return counted


class Life:
    """Ends after a number of events, or a moment later."""

    def __init__(self, events, delay_s):
        self._left = events
        self._delay_s = delay_s

    def pass_by(self):
        if self._left == 0:
            if self._delay_s == 0.0:
                end_it()
            threading.Timer(self._delay_s, end_it).start()
        self._left -= 1


def end_it():
    os.kill(os.getpid(), signal.SIGKILL)
