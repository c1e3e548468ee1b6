# SPDX-License-Identifier: GPL-2.0-only
"""Messages are ns3-gym's bit for bit; spaces and values cross over whole, or are refused with what and where."""

import re
import subprocess
import sys

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import example, given, settings
from hypothesis import strategies as st
from samples import SPACES, flat, messages, sample

from bbrgym.errors import ConfigError
from bbrgym.ns3gym import messages as pb
from bbrgym.ns3gym.errors import ProtocolError
from bbrgym.ns3gym.spaces import ABSENT, MAX_DEPTH, MAX_NUMBERS, describe, pack, space_of, unpack

BOX = spaces.Box(-1.0, 1.0, (2, 3), np.float32)
DOUBLES = spaces.Box(-1.0, 1.0, (2,), np.float64)
SAID = (pb.SimInitMsg, pb.SimInitAck, pb.EnvStateMsg, pb.EnvActMsg, pb.SpaceDescription, pb.DataContainer)


def described(kind, message):
    description = pb.SpaceDescription(type=kind)
    description.space.Pack(message)
    return description


def box_space(low=0.0, high=1.0, dtype=3, shape=(1,)):
    return described(2, pb.BoxSpace(low=low, high=high, dtype=dtype, shape=shape))


def held(kind, message):
    container = pb.DataContainer(type=kind)
    container.data.Pack(message)
    return container


def box(**fields):
    return held(2, pb.BoxDataContainer(**fields))


def keyed(*names):
    return held(4, pb.DictDataContainer(element=[pb.DataContainer(type=1, name=name) for name in names]))


# ---- messages ---------------------------------------------------------------------------------------------


def test_the_bytes_are_those_of_ns3_gym():
    # Written by hand from field numbers and wire types: (number << 3 | type), then the length of what follows.
    floats = pb.BoxDataContainer(dtype=pb.Dtype.FLOAT, shape=[2], floatData=[1.0, -2.0])
    floats_bytes = bytes.fromhex("0803 1201 02 2a08 0000803f 000000c0")
    assert floats.SerializeToString() == floats_bytes
    state = pb.EnvStateMsg(reward=1.0, isGameOver=True, reason=pb.Reason.GameOver, info="x", obsData=held(2, floats))
    url = b"type.googleapis.com/ns3opengym.BoxDataContainer"
    any_bytes = b"\x0a" + bytes([len(url)]) + url + b"\x12" + bytes([len(floats_bytes)]) + floats_bytes
    container = b"\x08\x02\x12" + bytes([len(any_bytes)]) + any_bytes
    expected = b"\x0a" + bytes([len(container)]) + container + bytes.fromhex("15 0000803f 1801 2001 2a01") + b"x"
    assert state.SerializeToString() == expected
    init = pb.SimInitMsg(simProcessId=300, wafShellProcessId=1)
    assert init.SerializeToString() == bytes.fromhex("08ac02 1001")
    assert pb.SimInitAck(done=True, stopSimReq=True).SerializeToString() == bytes.fromhex("0801 1001")
    assert pb.EnvActMsg(stopSimReq=True).SerializeToString() == bytes.fromhex("1001")
    assert pb.DiscreteDataContainer(data=-1).SerializeToString() == bytes.fromhex("08ffffffffffffffffff01")
    newer = init.SerializeToString() + b"\x9a\x06\x01x"  # with a field 99, which nobody knows yet
    assert pb.parse(pb.SimInitMsg, newer).simProcessId == 300


@pytest.mark.parametrize("before", ["", "import bbrgym.ns3gym.messages"])
def test_ns3_gyms_own_module_may_be_imported_too(before):
    """Its messages_pb2 puts the same names into protobuf's default pool."""
    code = f"""
from google.protobuf import descriptor_pb2, descriptor_pool
{before}
theirs = descriptor_pb2.FileDescriptorProto(name="messages.proto", package="ns3opengym")
theirs.message_type.add(name="SimInitMsg")
descriptor_pool.Default().Add(theirs)
from bbrgym.ns3gym import messages
assert messages.SimInitMsg(simProcessId=7).SerializeToString() == bytes([8, 7])
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.mark.parametrize(
    ("sent", "due"),
    [
        (pb.SimInitMsg(simProcessId=1), pb.EnvStateMsg),
        (pb.EnvStateMsg(obsData=pb.DataContainer(type=1), reward=1.0), pb.SimInitMsg),
        (pb.SimInitAck(done=True), pb.EnvActMsg),
        (pb.EnvActMsg(actData=pb.DataContainer(type=1)), pb.SimInitAck),
        # One of the kind, with another within it.
        (pb.SimInitMsg(obsSpace=pb.SpaceDescription(space={"type_url": "x"})), pb.EnvStateMsg),
    ],
)
def test_another_message_is_refused(sent, due):
    with pytest.raises(ProtocolError, match=r"^here: is not a valid \w+: its field \w+ is of another type$"):
        pb.parse(due, sent.SerializeToString(), "here")


@settings(max_examples=500)
@given(messages(), st.sampled_from(SPACES), st.sampled_from(SAID))
@example(b"", ABSENT, pb.DataContainer)
def test_any_bytes_are_a_message_a_space_a_value_or_a_protocol_error(said, space, kind):
    """No space is too odd to act in."""
    try:
        message = pb.parse(kind, said)
        if kind is pb.SpaceDescription:
            space_of(message).sample()
        if kind is pb.DataContainer:
            assert isinstance(space.contains(unpack(space, message)), bool | np.bool_)
    except ProtocolError:
        return


# ---- spaces -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("space", SPACES, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_spaces_and_values_cross_over(space, seed):
    description = pb.parse(pb.SpaceDescription, describe(space).SerializeToString())
    crossed = space_of(description)
    assert space_of(describe(crossed)) == crossed
    value = sample(space, seed)
    container = pb.parse(pb.DataContainer, pack(space, value).SerializeToString())
    back = unpack(space, container)
    assert space.contains(back)
    assert flat(back) == flat(value)
    there = unpack(crossed, container)  # the other end knows the space from its description only
    assert crossed.contains(there)
    assert pack(crossed, there) == container


@pytest.mark.parametrize(
    ("description", "space"),
    [
        (describe(spaces.MultiBinary(2)), spaces.Box(0, 1, (2,), np.uint64)),
        (describe(spaces.MultiDiscrete([2, 3])), spaces.Tuple([spaces.Discrete(2), spaces.Discrete(3)])),
        (describe(spaces.Box(-1, 9, (2,), np.int8)), spaces.Box(-1, 9, (2,), np.int64)),
        (describe(spaces.Box(-(2**31), 2**31 - 1, (), np.int64)), spaces.Box(-(2**31), 2**31 - 1, (), np.int64)),
        (box_space(-np.inf, 3e38, 2), spaces.Box(0, 2**32 - 1, (1,), np.uint64)),  # all that the protocol carries
    ],
)
def test_what_becomes_of_spaces(description, space):
    assert space_of(description) == space


def nested(depth):
    return spaces.Tuple([nested(depth - 1)]) if depth > 1 else spaces.Discrete(2)


# ---- values -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(), (8,), (2, 4), (2, 2, 2)])
def test_floats_keep_their_bits_in_any_order_of_memory(dtype, shape):
    numbers = [0.0, -0.0, np.inf, -np.inf, np.nan, 0.1, np.finfo(dtype).smallest_subnormal, -np.finfo(dtype).max]
    value = np.resize(np.array(numbers, dtype), shape)
    for turned in (value, value.T, np.asfortranarray(value)):
        space = spaces.Box(-np.inf, np.inf, turned.shape, dtype)
        back = unpack(space, pack(space, turned))
        assert back.tobytes() == turned.tobytes()
        assert (back.dtype, back.flags.writeable) == (dtype, True)


COUNTS = spaces.Box(0, 9, (2,), np.uint64)
SINGLES = spaces.Box(-1.0, 1.0, (2,), np.float32)


@pytest.mark.parametrize(
    ("sent", "value", "received", "expected"),
    [
        (COUNTS, np.array([3, 9], np.int8), COUNTS, [3, 9]),
        (COUNTS, [0, 1], COUNTS, [0, 1]),
        (spaces.MultiBinary(2), np.array([True, False]), spaces.MultiBinary(2), [1, 0]),
        # ns3-gym's agent answers a DOUBLE with FLOAT.
        (SINGLES, np.array([0.1, 0.2], np.float32), DOUBLES, [float(np.float32(0.1)), float(np.float32(0.2))]),
        (DOUBLES, np.array([0.1, 1e300]), SINGLES, [float(np.float32(0.1)), np.inf]),
        # Outside of their space.
        (COUNTS, np.array([3, 99]), COUNTS, [3, 99]),
        (spaces.Discrete(5), 4, spaces.Discrete(3), 4),
    ],
)
def test_numbers_come_through_within_and_outside_of_their_space(sent, value, received, expected):
    back = unpack(received, pack(sent, value))
    assert (back.dtype, back.tolist()) == (received.dtype, expected)


CARRIES = "the protocol carries bounds as float32, and whole numbers of 32 bits"
UNCARRIED = [
    (spaces.Box(np.float32([0, 1]), np.float32([2, 2])), "low differs from number to number"),
    (spaces.Box(0.0, 1e300, (1,), np.float64), f"high is 1e+300; {CARRIES}"),
    (spaces.Box(0, 2**24 + 1, (1,), np.int64), f"high is 16777217; {CARRIES}"),
    (spaces.Box(0, 1, (1,), np.longdouble), "dtype float128, allowed are"),
    (spaces.Box(0, 1, (MAX_NUMBERS,), np.uint8), f"more than {MAX_NUMBERS} numbers"),
    (spaces.Discrete(3, start=1), "starts at 1, the protocol's begin at 0"),
    (spaces.Discrete(2**31), "cannot carry Discrete(2147483648): Value out of range"),
    (spaces.MultiDiscrete([2, 3], start=[0, 1]), "starts at 1"),
    (spaces.Dict({1: spaces.Discrete(2)}), "cannot carry Dict(1: Discrete(2))"),
    (spaces.Dict({"\ud800": spaces.Discrete(2)}), "'utf-8' codec can't encode"),
    (spaces.Text(3), "is a Text, allowed are Box, Discrete"),
    (nested(MAX_DEPTH), f"lies deeper than {MAX_DEPTH} spaces"),
]
DEEPEST = describe(nested(MAX_DEPTH))
HALF = box_space(shape=[MAX_NUMBERS // 2])
TWICE = pb.DictSpace(element=[pb.SpaceDescription(name="a"), pb.SpaceDescription(name="a")])
WRONG = [
    (box_space(1, 0), "low is 1 and high 0, expected low <= high"),
    (box_space(dtype=0), "has the dtype 0, allowed are 1 (INT) to 4 (DOUBLE)"),
    (box_space(shape=[2**32 - 1] * 4 + [0]), f"more than {MAX_NUMBERS} numbers"),
    (box_space(shape=[1] * 33), "has 33 dimensions"),
    (described(3, pb.TupleSpace(element=[HALF, HALF])), "[1]: with it there are more than"),
    (described(3, pb.TupleSpace(element=[DEEPEST])), f"lies deeper than {MAX_DEPTH} spaces"),
    (described(1, pb.DiscreteSpace(n=0)), "a Discrete of 0 values"),
    (described(2, pb.DiscreteSpace(n=3)), "is 'type.googleapis.com/ns3opengym.DiscreteSpace', expected"),
    (described(9, pb.DiscreteSpace(n=3)), "has the type 9, allowed are 1 (Discrete) to 4 (Dict)"),
    (described(4, TWICE), "has the key 'a' twice"),
    (pb.SpaceDescription(type=2), "is nothing, expected a ns3opengym.BoxSpace"),
]
UNSENT = [
    (BOX, np.zeros((3, 2)), "has the shape (3, 2), expected (2, 3)"),
    (BOX, [[1, 2], [3]], "inhomogeneous shape"),
    (spaces.Box(-1, 1, ()), None, "is None, expected a value of Box"),
    (BOX, np.full((2, 3), "x"), "Cannot cast array data from dtype('<U1') to dtype('float32')"),
    (BOX, np.full((2, 3), 1e300), "overflow encountered in cast"),
    (spaces.Box(0, 9, (1,), np.int64), np.array([0.5]), "Cannot cast array data from dtype('float64')"),
    (spaces.Box(0, 9, (1,), np.int64), np.array([2**31]), "Value out of range: 2147483648"),
    (spaces.Box(0, 9, (1,), np.uint8), np.array([-1]), "is array([-1]), expected a value of Box"),
    (spaces.Discrete(3), 3, "is 3, expected a value of Discrete(3)"),
    (spaces.MultiDiscrete([2, 2]), [0, 2], "is [0, 2], expected a value of MultiDiscrete([2 2])"),
    (spaces.Tuple([BOX]), 5, "is 5, expected 1 values"),
    (spaces.Dict(a=BOX), {"b": 1}, "expected a mapping with the keys a"),
    (spaces.Dict(a=spaces.Discrete(2)), {"a": 2}, "['a']: is 2, expected"),
]
UNTAKEN = [
    (BOX, pb.DataContainer(), "has the type 0, expected 2 (Box)"),
    (BOX, pb.DataContainer(type=2), "is nothing, expected a ns3opengym.BoxDataContainer"),
    (BOX, box(dtype=3, floatData=[1.0]), "has 1 numbers, expected 6"),
    (BOX, box(dtype=1, intData=[1] * 6), "has the dtype 1, expected 3 (FLOAT)"),
    (BOX, box(dtype=3, shape=[3, 2], floatData=[1.0] * 6), "has the shape (3, 2)"),
    (spaces.Box(0, 1, (1,), np.uint8), box(dtype=2, uintData=[256]), "uint8 holds"),
    (spaces.MultiDiscrete([2]), held(3, pb.TupleDataContainer()), "has 0 elements, expected 1"),
    (spaces.Dict(a=BOX, b=BOX), keyed("a"), "has the keys ['a'], expected 'a', 'b'"),
    (spaces.Dict(a=BOX), keyed("a", "a"), "has the keys ['a', 'a'], expected 'a'"),
    (spaces.Dict(a=BOX), keyed("a"), "['a']: has the type 1, expected 2 (Box)"),
]


@pytest.mark.parametrize(
    ("error", "text", "act", "arguments"),
    [
        *((ConfigError, text, describe, [spaces.Tuple([space])]) for space, text in UNCARRIED),
        *((ProtocolError, text, space_of, [description]) for description, text in WRONG),
        *((ConfigError, text, pack, [space, value]) for space, value, text in UNSENT),
        *((ProtocolError, text, unpack, [space, container]) for space, container, text in UNTAKEN),
    ],
)
def test_what_is_of_another_form_is_refused_by_name(error, text, act, arguments):
    with pytest.raises(error, match=re.escape(text)) as refused:
        act(*arguments, "its name")
    assert str(refused.value).startswith("its name")
