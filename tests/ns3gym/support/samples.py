# SPDX-License-Identifier: GPL-2.0-only
"""Spaces of every kind that the protocol carries, values of them, and what may come in place of a message."""

import numpy as np
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
    "int32": st.integers(-(2**31), 2**31 - 1),
    "uint32": st.integers(0, 2**32 - 1) | st.integers(0, 5),
    "uint64": st.integers(0, 2**64 - 1),
    "float": st.floats(width=32),
    "double": st.floats(),
    "bool": st.booleans(),
    "string": st.text(st.characters(codec="utf-8"), max_size=5),
    "enum": st.integers(0, 5) | st.integers(-(2**31), 2**31 - 1),
}


@st.composite
def any_messages(draw, kind, depth=3):
    """Messages that can be read, and say anything; in a field of type Any lies a message of any class, or bytes."""
    message = kind()
    for field in kind.DESCRIPTOR.fields:
        if draw(st.booleans()):
            continue
        type_name = _type_of(field)
        if type_name == "google.protobuf.Any":
            _fill_any(draw, getattr(message, field.name), depth)
        elif type_name in NUMBERS and field.is_repeated:
            getattr(message, field.name).extend(draw(st.lists(NUMBERS[type_name], max_size=5)))
        elif type_name in NUMBERS:
            setattr(message, field.name, draw(NUMBERS[type_name]))
        elif depth > 0:
            inner = getattr(pb, type_name.rsplit(".", 1)[1])
            count = draw(st.integers(0, 3)) if field.is_repeated else 1
            for one in [draw(any_messages(inner, depth - 1)) for _ in range(count)]:
                into = getattr(message, field.name)
                into.append(one) if field.is_repeated else into.CopyFrom(one)
    return message


def _fill_any(draw, holder, depth):
    if draw(st.integers(0, 9)) == 0:
        holder.type_url = draw(st.text(max_size=30).filter(lambda url: url.isascii()))
        holder.value = draw(st.binary(max_size=20))
        return
    inner = draw(any_messages(draw(st.sampled_from(DESCRIBED[1:] + CONTAINERS)), depth - 1))
    holder.Pack(inner)


def _type_of(field):
    if field.message_type is not None:
        return field.message_type.full_name
    names = {value: name[5:].lower() for name, value in vars(type(field)).items() if name.startswith("TYPE_")}
    return names[field.type]
