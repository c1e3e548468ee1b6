# SPDX-License-Identifier: GPL-2.0-only
"""Spaces of every kind that the protocol carries, values of them, and what may come in place of a message."""

import numpy as np
from gymnasium import spaces
from hypothesis import strategies as st

from bbrgym.ns3gym import messages as pb
from bbrgym.ns3gym.spaces import ABSENT, describe, pack

BOXES = [
    spaces.Box(-1.0, np.inf, (2, 3), np.float32),
    spaces.Box(-np.inf, 1e30, (), np.float64),
    spaces.Box(0.0, 1.0, (3, 0), np.float64),
    *(spaces.Box(0, 100, (2,), kind) for kind in ["i1", "i2", "i4", "i8", "u1", "u2", "u8"]),
    spaces.Box(-(2**24), -7, (1, 1, 2), np.int64),
]
SPACES = [
    ABSENT,
    *BOXES,
    spaces.Discrete(1),
    spaces.Discrete(2**31 - 1),
    spaces.MultiDiscrete([1, 5, 1000]),
    spaces.MultiDiscrete(np.array([[2, 3], [1, 9]])),
    spaces.MultiBinary((2, 3)),
    spaces.Tuple([]),
    spaces.Tuple([spaces.Tuple([spaces.Discrete(3)]), BOXES[0], spaces.MultiDiscrete([4])]),
    spaces.Dict(
        {"z": BOXES[1], "": spaces.Dict({}), "\u00e4 ": spaces.Tuple([spaces.MultiBinary(1)])}, sort_keys=False
    ),
]


def sample(space, seed):
    space.seed(seed)
    return space.sample()


def flat(value):
    """Return the numbers in a value, in order, with their keys; a MultiDiscrete's are like a Tuple's."""
    if isinstance(value, dict):
        return [(key, flat(inner)) for key, inner in value.items()]
    if isinstance(value, tuple):
        return [flat(inner) for inner in value]
    return np.ravel(value).tolist() if np.ndim(value) else np.asarray(value).item()


@st.composite
def mutations(draw, data):
    """Bytes like others: some changed, taken out, put in, or cut off."""
    changed = bytearray(data)
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(changed)))
        until = draw(st.sampled_from([at, at + 1, len(changed)]))
        changed[at:until] = draw(st.binary(max_size=6))
    return bytes(changed)


@st.composite
def messages(draw):
    """Bytes of a message of any kind, or like it, with a space and a value of it, or of another one."""
    space, other = (draw(st.sampled_from(SPACES)) for _ in range(2))
    described, value = describe(space), pack(other, sample(other, 0))
    message = draw(
        st.sampled_from(
            [
                pb.SimInitMsg(simProcessId=5, obsSpace=described, actSpace=describe(other)),
                pb.SimInitAck(done=True),
                pb.EnvStateMsg(obsData=value, reward=0.5, isGameOver=True, reason=1, info="{}"),
                pb.EnvActMsg(actData=value),
                described,
                value,
            ]
        )
    )
    return draw(mutations(message.SerializeToString()) | st.binary(max_size=60))
