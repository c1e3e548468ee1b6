# SPDX-License-Identifier: GPL-2.0-only
"""Spaces of every kind that the protocol carries, values of them, and what may come in place of a message."""

import numpy as np
from google.protobuf.descriptor import FieldDescriptor
from gymnasium import spaces
from hypothesis import strategies as st

from bbrgym.ns3gym import messages as pb

SHAPES = st.lists(st.integers(0, 4), max_size=3).map(tuple)
FLOAT32 = st.floats(width=32, allow_nan=False, allow_infinity=False).map(lambda x: x + 0.0)  # none is -0.0
SPACES_SAID = (pb.DiscreteSpace, pb.BoxSpace, pb.TupleSpace, pb.DictSpace)
VALUES_SAID = (pb.DiscreteDataContainer, pb.BoxDataContainer, pb.TupleDataContainer, pb.DictDataContainer)


@st.composite
def _boxes(draw):
    dtype = np.dtype(draw(st.sampled_from(["f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u8"])))
    if dtype.kind == "f":
        low, high = sorted((draw(FLOAT32 | st.just(-np.inf)), draw(FLOAT32 | st.just(np.inf))))
    else:
        limits = np.iinfo(dtype)
        bound = st.integers(max(int(limits.min), -(2**24)), min(int(limits.max), 2**24))  # what float32 holds
        low, high = sorted((draw(bound), draw(bound)))
    return spaces.Box(low, high, draw(SHAPES), dtype.type)


LEAVES = st.one_of(
    _boxes(),
    st.integers(1, 2**31 - 1).map(spaces.Discrete),
    st.lists(st.integers(1, 1000), min_size=1, max_size=5).map(spaces.MultiDiscrete),
    st.just(spaces.MultiDiscrete(np.array([[2, 3], [1, 9]]))),
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
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(changed)))
        until = draw(st.sampled_from([at, at + 1, len(changed)]))
        changed[at:until] = draw(st.binary(max_size=6))
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
        values = NUMBERS.get(field.type)
        if draw(st.booleans()) or (values is None and depth == 0):
            continue
        if values is None and field.message_type.name == "Any":
            holder = getattr(message, field.name)
            if draw(st.integers(0, 9)):
                holder.Pack(draw(any_messages(draw(st.sampled_from(SPACES_SAID + VALUES_SAID)), depth - 1)))
            else:
                holder.type_url, holder.value = draw(st.sampled_from(["", "x"])), draw(st.binary(max_size=20))
            continue
        if values is None:
            values = any_messages(getattr(pb, field.message_type.name), depth - 1)
        if field.is_repeated:
            getattr(message, field.name).extend(draw(st.lists(values, max_size=3)))
        elif field.message_type:
            getattr(message, field.name).CopyFrom(draw(values))
        else:
            setattr(message, field.name, draw(values))
    return message


def any_bytes(kind):
    """Bytes of such messages, or like them."""
    whole = any_messages(kind).map(lambda message: message.SerializeToString())
    return whole | whole.flatmap(mutations) | st.binary(max_size=60)
