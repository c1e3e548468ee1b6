# SPDX-License-Identifier: GPL-2.0-only
"""Spaces of every kind that the protocol carries, values of them, and what may come in place of a message."""

import numpy as np
from google.protobuf.descriptor import FieldDescriptor
from gymnasium import spaces
from hypothesis import strategies as st

from bbrgym.ns3gym import messages as pb

SHAPES = st.lists(st.integers(0, 4), max_size=3).map(tuple)
FLOAT32 = st.floats(width=32, allow_nan=False, allow_infinity=False).map(lambda x: x + 0.0)  # none is -0.0
LOW = FLOAT32 | st.just(-np.inf)
HIGH = FLOAT32 | st.just(np.inf)
DESCRIBED = (pb.SpaceDescription, pb.DiscreteSpace, pb.BoxSpace, pb.TupleSpace, pb.DictSpace)
CONTAINERS = (pb.DiscreteDataContainer, pb.BoxDataContainer, pb.TupleDataContainer, pb.DictDataContainer)
SAID = (pb.SimInitMsg, pb.SimInitAck, pb.EnvStateMsg, pb.EnvActMsg)


@st.composite
def _float_boxes(draw):
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    low, high = sorted((draw(LOW), draw(HIGH)))
    return spaces.Box(low, high, draw(SHAPES), dtype)


@st.composite
def _whole_boxes(draw):
    dtype = np.dtype(draw(st.sampled_from([np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint64])))
    limits = np.iinfo(dtype)
    bound = st.integers(max(int(limits.min), -(2**24)), min(int(limits.max), 2**24))  # what float32 holds
    low, high = sorted((draw(bound), draw(bound)))
    return spaces.Box(low, high, draw(SHAPES), dtype.type)


LEAVES = st.one_of(
    _float_boxes(),
    _whole_boxes(),
    st.integers(1, 2**31 - 1).map(spaces.Discrete),
    st.lists(st.integers(1, 1000), min_size=1, max_size=5).map(spaces.MultiDiscrete),
    st.lists(st.lists(st.integers(1, 9), min_size=2, max_size=2), min_size=1, max_size=3).map(
        lambda nvec: spaces.MultiDiscrete(np.array(nvec))
    ),
    SHAPES.map(lambda shape: spaces.MultiBinary(tuple(length + 1 for length in shape))),
)
KEYS = st.text(st.characters(codec="utf-8"), max_size=8)
SPACES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4).map(spaces.Tuple)
        | st.dictionaries(KEYS, inner, max_size=4).map(lambda found: spaces.Dict(list(found.items())))
    ),
    max_leaves=8,
)


def sample(space, seed):
    space.seed(seed)
    return space.sample()


def flat(value):
    """The numbers in a value, in order, as plain Python ones, with their keys; a MultiDiscrete's are like a Tuple's."""
    if isinstance(value, dict):
        return [(key, flat(inner)) for key, inner in value.items()]
    if isinstance(value, tuple):
        return [flat(inner) for inner in value]
    return np.ravel(value).tolist() if np.ndim(value) else np.asarray(value).item()


@st.composite
def mutations(draw, data):
    """Bytes like others: some changed, taken out, put in, or cut off."""
    changed = bytearray(data)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(changed)))
        kind = draw(st.sampled_from(["change", "take", "put", "cut"]))
        if kind == "put":
            changed[at:at] = draw(st.binary(min_size=1, max_size=6))
        elif kind == "cut":
            del changed[at:]
        else:
            changed[at : at + 1] = draw(st.binary(min_size=1, max_size=1)) if kind == "change" else b""
    return bytes(changed)


NUMBERS = {
    FieldDescriptor.TYPE_INT32: st.integers(-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_UINT32: st.integers(0, 2**32 - 1) | st.integers(0, 5),
    FieldDescriptor.TYPE_UINT64: st.integers(0, 2**64 - 1),
    FieldDescriptor.TYPE_FLOAT: st.floats(width=32),
    FieldDescriptor.TYPE_DOUBLE: st.floats(),
    FieldDescriptor.TYPE_BOOL: st.booleans(),
    FieldDescriptor.TYPE_STRING: st.text(st.characters(codec="utf-8"), max_size=5),
    FieldDescriptor.TYPE_ENUM: st.integers(0, 5) | st.integers(-(2**31), 2**31 - 1),
}


@st.composite
def any_messages(draw, kind, depth=3):
    """Messages that can be read, and say anything; in a field of type Any lies a message of any class, or bytes."""
    message = kind()
    for field in kind.DESCRIPTOR.fields:
        if draw(st.booleans()):
            continue
        values = NUMBERS.get(field.type)
        if values is None:
            if field.message_type.full_name == "google.protobuf.Any":
                _fill_any(draw, getattr(message, field.name), depth)
                continue
            if depth == 0:
                continue
            values = any_messages(getattr(pb, field.message_type.name), depth - 1)
        if field.is_repeated:
            getattr(message, field.name).extend(draw(st.lists(values, max_size=3)))
        elif field.message_type:
            getattr(message, field.name).CopyFrom(draw(values))
        else:
            setattr(message, field.name, draw(values))
    return message


def _fill_any(draw, holder, depth):
    if draw(st.integers(0, 9)) == 0:
        holder.type_url = draw(st.text(max_size=30).filter(lambda url: url.isascii()))
        holder.value = draw(st.binary(max_size=20))
    else:
        holder.Pack(draw(any_messages(draw(st.sampled_from(DESCRIBED[1:] + CONTAINERS)), max(0, depth - 1))))
