# SPDX-License-Identifier: GPL-2.0-only
"""Spaces cross over whole; what cannot cross is refused by name."""

import re

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import SPACES, any_messages, mutations

from bbrgym.errors import ConfigError
from bbrgym.ns3gym import messages as pb
from bbrgym.ns3gym.errors import ProtocolError
from bbrgym.ns3gym.spaces import ABSENT, MAX_DEPTH, MAX_NUMBERS, describe, space_of


@settings(max_examples=300)
@given(SPACES)
def test_a_space_crosses_over(space: spaces.Space) -> None:
    crossed = space_of(_sent(describe(space)))
    _is_alike(space, crossed)
    assert space_of(_sent(describe(crossed))) == crossed


def _sent(description):
    return pb.parse(pb.SpaceDescription, description.SerializeToString())


def _is_alike(space, crossed):
    """What becomes of each kind."""
    if isinstance(space, spaces.Tuple):
        assert isinstance(crossed, spaces.Tuple)
        assert len(crossed.spaces) == len(space.spaces)
        for one, other in zip(space.spaces, crossed.spaces, strict=True):
            _is_alike(one, other)
    elif isinstance(space, spaces.Dict):
        assert list(crossed.spaces) == list(space.spaces)
        for key, inner in space.spaces.items():
            _is_alike(inner, crossed[key])
    elif isinstance(space, spaces.MultiDiscrete):
        assert crossed == spaces.Tuple([spaces.Discrete(int(n)) for n in space.nvec.flat])
    elif isinstance(space, spaces.MultiBinary):
        assert crossed == spaces.Box(0, 1, space.shape, np.uint64)
    elif isinstance(space, spaces.Box):
        dtype = {"i": np.int64, "u": np.uint64, "f": space.dtype}[space.dtype.kind]
        assert crossed.dtype == dtype
        assert crossed.shape == space.shape
        np.testing.assert_array_equal(crossed.low, space.low)
        np.testing.assert_array_equal(crossed.high, space.high)
    else:
        assert crossed == space


def test_no_description_is_the_absent_space() -> None:
    assert space_of(pb.SpaceDescription()) == ABSENT
    assert describe(ABSENT) == pb.SpaceDescription()


def test_whole_bounds_end_where_32_bits_do() -> None:
    widest = spaces.Box(-(2**31), 2**31 - 1, (2,), np.int64)
    assert space_of(describe(widest)) == widest
    everything = _box(low=-np.inf, high=3e38, dtype=pb.Dtype.UINT, shape=[1])
    assert space_of(everything) == spaces.Box(0, 2**32 - 1, (1,), np.uint64)


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (spaces.Box(np.float32([0, 1]), np.float32([2, 2])), "low differs from number to number"),
        (spaces.Box(0.0, 1e300, (1,), np.float64), "high is 1e+300; the protocol carries bounds as float32"),
        (spaces.Box(0, 2**31, (1,), np.int64), "high is 2147483648; the protocol carries whole numbers of 32 bits"),
        (spaces.Box(0, 2**24 + 1, (1,), np.int64), "high is 16777217; the protocol carries whole numbers"),
        (spaces.Box(0, 1, (1,), np.longdouble), "dtype float128, allowed are"),
        (spaces.Box(0, 1, (MAX_NUMBERS,), np.uint8), f"more than {MAX_NUMBERS} numbers"),
        (spaces.Discrete(3, start=1), "starts at 1, the protocol's begin at 0"),
        (spaces.Discrete(2**31), "has 2147483648 values, allowed are at most 2147483647"),
        (spaces.MultiDiscrete([2, 3], start=[0, 1]), "starts at 1"),
        (spaces.Dict({1: spaces.Discrete(2)}), "the key is 1, expected a text"),
        (spaces.Dict({"\ud800": spaces.Discrete(2)}), "expected a text that UTF-8 can hold"),
        (spaces.Text(3), "is a Text, allowed are Box, Discrete"),
    ],
)
def test_what_the_protocol_cannot_carry_is_refused(space: spaces.Space, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)) as refused:
        describe(spaces.Tuple([space]), "observation space")
    assert str(refused.value).startswith("observation space[0]")


def test_nesting_has_an_end() -> None:
    space = spaces.Discrete(2)
    for _ in range(MAX_DEPTH - 1):
        space = spaces.Tuple([space])
    assert space_of(describe(space)) == space
    with pytest.raises(ConfigError, match=f"lies deeper than {MAX_DEPTH} spaces"):
        describe(spaces.Tuple([space]))
    deeper = pb.SpaceDescription(type=pb.SpaceType.Tuple)
    deeper.space.Pack(pb.TupleSpace(element=[describe(space)]))
    with pytest.raises(ProtocolError, match=f"lies deeper than {MAX_DEPTH} spaces"):
        space_of(deeper)


def _box(**fields):
    description = pb.SpaceDescription(type=pb.SpaceType.Box)
    description.space.Pack(pb.BoxSpace(**fields))
    return description


def _of(kind, message):
    description = pb.SpaceDescription(type=kind)
    description.space.Pack(message)
    return description


TWICE = pb.DictSpace(element=[pb.SpaceDescription(name="a"), pb.SpaceDescription(name="a")])


@pytest.mark.parametrize(
    ("description", "message"),
    [
        (_box(low=1, high=0, dtype=3, shape=[1]), "low is 1 and high 0, expected low <= high"),
        (_box(low=np.nan, high=0, dtype=1, shape=[1]), "low is nan"),
        (_box(low=0, high=1, dtype=0, shape=[1]), "has the dtype 0, allowed are 1 (INT) to 4 (DOUBLE)"),
        (_box(low=0, high=1, dtype=77, shape=[1]), "has the dtype 77"),
        (_box(low=0, high=1, dtype=3, shape=[2**16, 2**16]), f"more than {MAX_NUMBERS} numbers"),
        (_box(low=0, high=1, dtype=3, shape=[2**32 - 1] * 4 + [0]), f"more than {MAX_NUMBERS} numbers"),
        (_box(low=0, high=1, dtype=3, shape=[1] * 33), "has 33 dimensions"),
        (_of(1, pb.DiscreteSpace(n=0)), "a Discrete of 0 values"),
        (_of(1, pb.DiscreteSpace(n=-5)), "a Discrete of -5 values"),
        (_of(2, pb.DiscreteSpace(n=3)), "is 'type.googleapis.com/ns3opengym.DiscreteSpace', expected"),
        (_of(9, pb.DiscreteSpace(n=3)), "has the type 9, allowed are 1 (Discrete) to 4 (Dict)"),
        (_of(4, TWICE), "has the key 'a' twice"),
        (pb.SpaceDescription(type=2), "is nothing, expected a ns3opengym.BoxSpace"),
    ],
)
def test_what_is_no_description_is_refused(description: pb.Message, message: str) -> None:
    with pytest.raises(ProtocolError, match=re.escape(message)):
        space_of(description)


def test_many_boxes_are_as_bounded_as_one() -> None:
    half = _box(low=0, high=1, dtype=3, shape=[MAX_NUMBERS // 2])
    with pytest.raises(ProtocolError, match=r"^space\[1\]: with it there are more than"):
        space_of(_of(3, pb.TupleSpace(element=[half, half])))


@settings(max_examples=500)
@given(st.data())
def test_any_description_is_a_space_or_a_protocol_error(data: st.DataObject) -> None:
    description = data.draw(any_messages(pb.SpaceDescription))
    if data.draw(st.booleans()):
        try:
            mutated = data.draw(mutations(description.SerializeToString()))
            description = pb.parse(pb.SpaceDescription, mutated)
        except ProtocolError:
            return
    try:
        space = space_of(description)
    except ProtocolError:
        return
    assert isinstance(space, spaces.Space)
