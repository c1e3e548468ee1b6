# SPDX-License-Identifier: GPL-2.0-only
"""One of two who speak ns3-gym's protocol is killed at any message; the other ends with an error, nothing is left."""

import contextlib
import json
import re
import subprocess
import sys
import uuid
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from owners import another_owner, free_port, nothing_left, tell
from trees import guardians, marked
from waiting import wait_until

import bbrgym.envs  # noqa: F401 - registers the environments
from bbrgym.ns3gym.errors import PeerGone, ProtocolTimeout

pytestmark = pytest.mark.usefixtures("own_children")
COMMAND = [sys.executable, str(Path(__file__).with_name("support") / "actor.py"), "--steps=8"]
MESSAGES = 17  # that the actor sends or takes before its last state, after which nobody misses it
SERVE = ("world=twin", "variant=bbq", "scenario=steady", "scenario.duration_s=2", "env.control_interval_s=0.25")


SPACES = {
    "observation_space": gymnasium.spaces.Box(-1e9, 1e9, (3,), np.float32),
    "action_space": gymnasium.spaces.Box(-1, 1, (1,), np.float32),
}


def make(**options):
    return contextlib.closing(gymnasium.make("bbrgym/Ns3Gym-v0", **options).unwrapped)


def play(env, before_step=lambda step: None):
    """Episodes without an end."""
    step, is_over = 0, True
    while True:
        if is_over:
            env.reset()
        before_step(step)
        _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        step, is_over = step + 1, terminated or truncated


def test_a_killed_simulation_is_an_error_and_a_reset_goes_on():
    with nothing_left(), make(command=COMMAND, **SPACES) as env:
        for message in range(MESSAGES):
            env._arguments = {"die_at": message}
            with pytest.raises(PeerGone, match=r"it was killed by SIGKILL$"):
                play(env)
            assert guardians() == []
        env._arguments = {}
        assert env.reset(seed=2)[0].tolist() == [0, 2, 0]


AGENT = """
import json, sys, gymnasium, bbrgym.envs
options = json.loads(sys.stdin.readline())
print("ready", flush=True)
env = gymnasium.make("bbrgym/Ns3Gym-v0", **options)
while True:
    env.reset()
    is_over = False
    while not is_over:
        print("step", flush=True)
        sys.stdin.readline()
        _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        is_over = terminated or truncated
"""


@contextlib.contextmanager
def agent(steps, **options):
    """Another process that drives so many steps, and is killed in the next one."""
    with another_owner(AGENT, json.dumps({"timeout_s": 60.0, **options})) as process:
        for _ in range(steps):
            assert process.stdout.readline() == b"step\n"
            tell(process)
        process.kill()
        yield


@pytest.mark.parametrize("steps", [1, 4, 8])
def test_a_killed_agent_ends_its_simulation(steps):
    mark = f"kill-{uuid.uuid4()}"
    with agent(steps, command=[*COMMAND, f"--word={mark}"]):
        wait_until(lambda: not marked(mark))


@contextlib.contextmanager
def served(port):
    words = [sys.executable, "-m", "bbrgym", "serve", *SERVE, f"port={port}", "episodes=100"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("steps", [1, 9])  # in the first episode, of 8 steps, and in the second
def test_of_a_served_world_either_may_be_killed(steps):
    port = free_port()
    with served(port) as process:
        with agent(steps, port=port):
            _, said = process.communicate(timeout=120)
        assert process.returncode == 1
        assert re.search(r"bbrgym: the agent at .* closed the connection where its EnvActMsg was due", said)
    with (
        served(port) as process,
        make(port=port) as env,
        pytest.raises((PeerGone, ProtocolTimeout), match=r"^the simulation closed the connection"),
    ):
        play(env, lambda step: step == steps and process.kill())
    with make(port=port, **SPACES):  # nobody listens any more
        pass
