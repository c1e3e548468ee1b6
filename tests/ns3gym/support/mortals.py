# SPDX-License-Identifier: GPL-2.0-only
"""Processes that speak ns3-gym's protocol and kill themselves at a message of theirs."""

import functools
import itertools
import os
import signal
import threading

import gymnasium

import bbrgym.envs  # noqa: F401 - registers the environments
from bbrgym.envs.tune_env import TuneEnv
from bbrgym.ns3gym.channel import AgentSocket, SimulationSocket
from bbrgym.ns3gym.errors import ProtocolError
from bbrgym.ns3gym.serving import serve

TIMEOUT_S = 5.0
SCENARIO = {
    "name": "tiny",
    "duration_s": 0.8,
    "link": {"rate_mbps": 5.0, "queue": {"size_bdp": 1.0}},
    "flows": [{"name": "flow", "rtt_ms": 20.0}],
}


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
