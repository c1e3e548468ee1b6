# SPDX-License-Identifier: GPL-2.0-only
"""Whatever comes from a simulation is an episode or a ProtocolError, and the next one is driven as if nothing was."""

import contextlib
import time

import gymnasium
import numpy as np
import pytest
import zmq
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import any_messages, mutations

import bbrgym.envs  # noqa: F401 - registers the environments
from bbrgym.ns3gym import messages as pb
from bbrgym.ns3gym.errors import ProtocolError
from bbrgym.ns3gym.spaces import describe, pack

OBSERVED = spaces.Dict({"rates": spaces.Box(0, 1, (3,), np.float32), "phase": spaces.Discrete(4)}, sort_keys=False)
ACTED = spaces.Tuple([spaces.Box(-1, 1, (2,), np.float64), spaces.Discrete(2)])
PATIENCE_S = 120.0

INIT = pb.SimInitMsg(obsSpace=describe(OBSERVED), actSpace=describe(ACTED)).SerializeToString()
STATE = pb.EnvStateMsg(
    obsData=pack(OBSERVED, {"rates": np.float32([0.0, 0.5, 1.0]), "phase": 3}), reward=0.5, info='{"now_s": 1.0}'
).SerializeToString()

MESSAGES = st.one_of(
    *(st.just(good) for good in (INIT, STATE, STATE)),
    *(mutations(good) for good in (INIT, STATE)),
    *(any_messages(kind).map(lambda message: message.SerializeToString()) for kind in (pb.SimInitMsg, pb.EnvStateMsg)),
    st.binary(max_size=50),
)
PARTS = st.one_of(
    *[MESSAGES.map(lambda message: [b"", message])] * 8, st.lists(st.binary(max_size=5), min_size=1, max_size=4)
)


@pytest.fixture(scope="module")
def context():
    with zmq.Context() as context:
        yield context


@pytest.fixture(scope="module")
def waiting():
    env = gymnasium.make("bbrgym/Ns3Gym-v0", timeout_s=0.1, observation_space=OBSERVED, action_space=ACTED).unwrapped
    yield env
    env.close()


@contextlib.contextmanager
def simulation(context, port, script):
    """One that says all that it has to say without listening."""
    with context.socket(zmq.DEALER) as dealer:
        dealer.set(zmq.LINGER, 0)
        dealer.connect(f"tcp://127.0.0.1:{port}")
        for parts in script:
            dealer.send_multipart(parts)
        yield


def drive(env, steps):
    """As far as it goes."""
    observation, info = env.reset()
    for _ in range(steps):
        assert observation["rates"].shape == (3,)
        assert observation["rates"].dtype == np.float32
        assert observation["phase"] in range(4)
        assert isinstance(info, dict)
        observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
        assert isinstance(reward, float)
        if terminated or truncated:
            return


@settings(max_examples=80)
@given(script=st.lists(PARTS, min_size=1, max_size=4))
def test_an_episode_or_an_error(context, waiting, script):
    with simulation(context, waiting.port, [[b"", INIT], *script]), contextlib.suppress(ProtocolError):
        drive(waiting, len(script))
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:  # for what is left of the script
        with simulation(context, waiting.port, [[b"", INIT], [b"", STATE]]), contextlib.suppress(ProtocolError):
            observation, info = waiting.reset()
            assert observation["phase"] == 3
            assert info == {"seed": None, "now_s": 1.0}
            break
    else:
        pytest.fail(f"no episode within {PATIENCE_S} s")
