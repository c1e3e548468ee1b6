# SPDX-License-Identifier: GPL-2.0-only
"""Values cross over whole; what has not the form of its space is refused, with what and where."""

import re
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from samples import SHAPES, SPACES, any_messages, flat, mutations, sample

from bbrgym.errors import ConfigError
from bbrgym.ns3gym import messages as pb
from bbrgym.ns3gym.data import is_within, pack, unpack
from bbrgym.ns3gym.errors import ProtocolError
from bbrgym.ns3gym.spaces import ABSENT, describe, space_of

BOX = spaces.Box(-1.0, 1.0, (2, 3), np.float32)


@settings(max_examples=300)
@given(SPACES, st.integers(0, 2**31))
def test_a_value_crosses_over(space: spaces.Space, seed: int) -> None:
    value = sample(space, seed)
    container = pb.parse(pb.DataContainer, pack(space, value).SerializeToString())
    back = unpack(space, container)
    assert space.contains(back)
    assert flat(back) == flat(value)
    # The other end knows the space from its description only.
    crossed = space_of(describe(space))
    there = unpack(crossed, container)
    assert crossed.contains(there)
    assert pack(crossed, there) == container


@settings(max_examples=200)
@given(st.sampled_from([np.float32, np.float64]), SHAPES, st.data())
def test_floats_are_written_as_protobuf_writes_them(dtype: type, shape: tuple[int, ...], data: st.DataObject) -> None:
    space = spaces.Box(-np.inf, np.inf, shape, dtype)
    assume(space != ABSENT)
    count = int(np.prod(shape, dtype=int))
    numbers = data.draw(st.lists(st.floats(width=np.finfo(dtype).bits), min_size=count, max_size=count))
    value = np.array(numbers, dtype).reshape(shape)
    container = pack(space, value)
    box = pb.BoxDataContainer.FromString(container.data.value)
    field = box.floatData if dtype == np.float32 else box.doubleData
    np.testing.assert_array_equal(np.array(list(field), dtype), value.ravel())
    assert tuple(box.shape) == shape
    assert box.SerializeToString() == container.data.value
    for transposed in (value.T, np.asfortranarray(value)):  # the order in memory does not matter
        turned = spaces.Box(-np.inf, np.inf, transposed.shape, dtype)
        again = unpack(turned, pack(turned, transposed))
        np.testing.assert_array_equal(again, transposed)
        assert again.flags.writeable


@settings(max_examples=500)
@given(SPACES, st.data())
def test_any_container_is_a_value_or_a_protocol_error(space: spaces.Space, data: st.DataObject) -> None:
    if data.draw(st.booleans()):
        container = data.draw(any_messages(pb.DataContainer))
    else:
        space.seed(0)
        mutated = data.draw(mutations(pack(space, space.sample()).SerializeToString()))
        try:
            container = pb.parse(pb.DataContainer, mutated)
        except ProtocolError:
            return
    try:
        value = unpack(space, container)
    except ProtocolError:
        return
    assert pack(space, value) is not None  # so it has the form of the space


def test_nothing_is_carried_of_the_absent_space() -> None:
    container = pack(ABSENT, np.zeros(0, np.float32))
    assert container == pb.DataContainer()
    assert unpack(ABSENT, container).shape == (0,)


def test_whole_numbers_of_any_dtype_are_sent() -> None:
    counts = spaces.Box(0, 9, (2,), np.uint64)
    assert unpack(counts, pack(counts, np.array([3, 9], np.int8))).tolist() == [3, 9]
    assert unpack(counts, pack(counts, [0, 1])).dtype == np.uint64


def test_floats_of_either_kind_are_taken_for_each_other() -> None:
    """ns3-gym's agent answers a DOUBLE with FLOAT."""
    double = spaces.Box(-1.0, 1.0, (2,), np.float64)
    single = spaces.Box(-1.0, 1.0, (2,), np.float32)
    value = unpack(double, pack(single, np.array([0.1, 0.2], np.float32)))
    assert value.dtype == np.float64
    assert value.tolist() == [float(np.float32(0.1)), float(np.float32(0.2))]
    assert unpack(single, pack(double, np.array([0.1, 1e300]))).tolist() == [np.float32(0.1), np.inf]


@pytest.mark.parametrize("shape", [[], [6], [2, 3]])
def test_a_shape_may_be_left_out_or_be_the_length(shape: list[int]) -> None:
    container = pack(BOX, np.arange(6, dtype=np.float32).reshape(2, 3))
    box = pb.BoxDataContainer.FromString(container.data.value)
    del box.shape[:]
    box.shape.extend(shape)
    container.data.Pack(box)
    assert unpack(BOX, container).tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize(
    ("space", "value", "message"),
    [
        (BOX, np.zeros((3, 2)), "has the shape (3, 2), expected (2, 3)"),
        (BOX, [[1, 2], [3]], "no array"),
        (BOX, None, "is None, expected numbers"),
        (BOX, np.full((2, 3), "x"), "expected numbers"),
        (BOX, np.full((2, 3), 1e300), "more than float32 holds"),
        (spaces.Box(0, 9, (1,), np.int64), np.array([0.5]), "has the dtype float64, expected int64"),
        (spaces.Box(0, 9, (1,), np.int64), np.array([2**31]), "carries whole numbers from -2147483648 to 2147483647"),
        (
            spaces.Box(0, 9, (1,), np.uint8),
            np.array([-1]),
            "is array([-1]), the protocol carries whole numbers from 0 to 4294967295",
        ),
        (spaces.Discrete(3), 3, "is 3, expected a whole number from 0 to 2"),
        (spaces.Discrete(3), 1.0, "is 1.0, expected a whole number from 0 to 2"),
        (spaces.Discrete(3), True, "is True, expected a whole number from 0 to 2"),
        (spaces.MultiDiscrete([2, 2]), [0, 1, 0], "expected whole numbers of the shape (2,)"),
        (spaces.MultiDiscrete([2, 2]), [0, 2], "[1]: is 2, expected a whole number from 0 to 1"),
        (spaces.Tuple([BOX]), (), "is (), expected 1 values"),
        (spaces.Tuple([BOX]), 5, "is 5, expected 1 values"),
        (spaces.Dict(a=BOX), {"b": 1}, "expected a mapping with the keys a"),
        (spaces.Dict(a=spaces.Discrete(2)), {"a": 2}, "['a']: is 2, expected"),
    ],
)
def test_values_of_another_form_are_not_sent(space: spaces.Space, value: object, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)) as refused:
        pack(space, value, "action")
    assert str(refused.value).startswith("action")


def _container(kind, message):
    container = pb.DataContainer(type=kind)
    container.data.Pack(message)
    return container


def _two(*names):
    elements = [pb.DataContainer(type=1, name=name) for name in names]
    return _container(4, pb.DictDataContainer(element=elements))


@pytest.mark.parametrize(
    ("space", "container", "message"),
    [
        (BOX, pb.DataContainer(), "has the type 0, expected 2 (Box)"),
        (BOX, pb.DataContainer(type=2), "is nothing, expected a ns3opengym.BoxDataContainer"),
        (BOX, _container(2, pb.BoxDataContainer(dtype=3, floatData=[1.0])), "has 1 numbers, expected 6"),
        (BOX, _container(2, pb.BoxDataContainer(dtype=3, doubleData=[1.0] * 6)), "has 0 numbers, expected 6"),
        (BOX, _container(2, pb.BoxDataContainer(dtype=1, intData=[1] * 6)), "has the dtype 1, expected 3 (FLOAT)"),
        (BOX, _container(2, pb.BoxDataContainer(dtype=3, shape=[3, 2], floatData=[1.0] * 6)), "has the shape (3, 2)"),
        (spaces.Box(0, 1, (1,), np.uint8), _container(2, pb.BoxDataContainer(dtype=2, uintData=[256])), "uint8 holds"),
        (spaces.MultiDiscrete([2]), _container(3, pb.TupleDataContainer()), "has 0 elements, expected 1"),
        (spaces.Dict(a=BOX, b=BOX), _two("a"), "has the keys ['a'], expected 'a', 'b'"),
        (spaces.Dict(a=BOX), _two("a", "a"), "has the keys ['a', 'a'], expected 'a'"),
        (spaces.Dict(a=BOX), _two("b"), "has the keys ['b'], expected 'a'"),
        (spaces.Dict(a=BOX), _two("a"), "['a']: has the type 1, expected 2 (Box)"),
    ],
)
def test_values_of_another_form_are_not_taken(space: spaces.Space, container: pb.Message, message: str) -> None:
    with pytest.raises(ProtocolError, match=re.escape(message)) as refused:
        unpack(space, container, "obsData")
    assert str(refused.value).startswith("obsData")


@pytest.mark.parametrize(
    ("space", "inside", "outside"),
    [
        (spaces.Discrete(3), 2, [3, -1]),
        (spaces.Box(0, 1, (2,), np.float64), np.ones(2), [np.array([0, 1.5]), np.array([0, np.nan])]),
        (spaces.MultiDiscrete([2, 3]), np.array([1, 2]), [np.array([1, 3])]),
        (spaces.Tuple([spaces.Discrete(5), BOX]), (4, np.zeros(BOX.shape, BOX.dtype)), [(9, BOX.low)]),
        (spaces.Dict(a=spaces.Discrete(5)), {"a": 0}, [{"a": 5}]),
    ],
    ids=str,
)
def test_values_outside_of_their_space_come_through(space: spaces.Space, inside: Any, outside: list[Any]) -> None:
    assert is_within(space, unpack(space, pack(space, inside)))
    for value in outside:
        assert not is_within(space, value)


def test_a_choice_that_the_space_has_not_comes_through() -> None:
    assert unpack(spaces.Discrete(3), _container(1, pb.DiscreteDataContainer(data=-1))) == -1
