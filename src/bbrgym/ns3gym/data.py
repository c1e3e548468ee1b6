# SPDX-License-Identifier: GPL-2.0-only
"""Values of spaces as the protocol carries them.

Values have the form of their space: type, length, shape, keys. `unpack` does not check bounds, those of a Box nor the
number of choices of a Discrete: observations of ns3-gym's simulations often leave the spaces that they describe.
`is_within` does. A value that does not have the form of its space is a ConfigError in `pack` and a ProtocolError in
`unpack`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from bbrgym.errors import ConfigError
from bbrgym.ns3gym import messages as pb
from bbrgym.ns3gym.errors import ProtocolError
from bbrgym.ns3gym.messages import Dtype, Message, SpaceType
from bbrgym.ns3gym.spaces import ABSENT, DTYPES, Space, dtype_of, inner_spaces
from bbrgym.schema import shown

_FIELDS: dict[int, str] = {
    Dtype.INT: "intData",
    Dtype.UINT: "uintData",
    Dtype.FLOAT: "floatData",
    Dtype.DOUBLE: "doubleData",
}
_BOXES = (spaces.Box, spaces.MultiBinary)
_TUPLES = (spaces.Tuple, spaces.MultiDiscrete)


# ---- writing --------------------------------------------------------------------------------------------------------


def pack(space: Space, value: Any, where: str = "value") -> Message:
    """Return the DataContainer of a value.

    Args:
        space: space of the value.
        value: in Gymnasium's form.
        where: name of the value in errors.
    """
    container = pb.DataContainer()
    if space == ABSENT:
        return container
    try:
        container.type, held = _held(space, value, where)
    except ConfigError:
        raise
    except (TypeError, ValueError, FloatingPointError) as error:  # from NumPy and protobuf
        raise ConfigError(f"{where}: is {shown(value)}, expected a value of {space}: {error}") from error
    container.data.Pack(held)
    return container


def _held(space: Space, value: Any, where: str) -> tuple[int, Message]:
    """Return the type of a space, and the message that holds a value of it."""
    if isinstance(space, _BOXES):
        return SpaceType.Box, _box(space, np.asarray(value), where)
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete) and not space.contains(value):
        raise ConfigError(f"{where}: is {shown(value)}, expected a value of {space}")
    if isinstance(space, spaces.Discrete):
        return SpaceType.Discrete, pb.DiscreteDataContainer(data=value)
    if isinstance(space, _TUPLES):
        values = np.ravel(value) if isinstance(space, spaces.MultiDiscrete) else value
        inner = inner_spaces(space)
        if not isinstance(values, Sequence | np.ndarray) or len(values) != len(inner):
            raise ConfigError(f"{where}: is {shown(value)}, expected {len(inner)} values")
        elements = [pack(one, values[i], f"{where}[{i}]") for i, one in enumerate(inner)]
        return SpaceType.Tuple, pb.TupleDataContainer(element=elements)
    if isinstance(space, spaces.Dict):
        if not isinstance(value, Mapping) or value.keys() != space.spaces.keys():
            keys = ", ".join(map(str, space.spaces))
            raise ConfigError(f"{where}: is {shown(value)}, expected a mapping with the keys {keys}")
        elements = [pack(one, value[key], f"{where}[{key!r}]") for key, one in space.spaces.items()]
        for key, element in zip(space.spaces, elements, strict=True):
            element.name = key
        return SpaceType.Dict, pb.DictDataContainer(element=elements)
    raise ConfigError(f"{where}: the protocol has no values of a {type(space).__name__}")


def _box(space: spaces.Box | spaces.MultiBinary, given: NDArray[Any], where: str) -> Message:
    if given.shape != space.shape:
        raise ConfigError(f"{where}: has the shape {given.shape}, expected {space.shape}")
    dtype = dtype_of(space, where)
    if given.dtype.kind in "biu" and space.dtype.kind in "biu":
        numbers = given.astype(np.uint8) if given.dtype.kind == "b" else given  # protobuf checks their range
    else:
        with np.errstate(over="raise"):
            numbers = given.astype(DTYPES[dtype], casting="same_kind")
    return pb.BoxDataContainer(dtype=dtype, shape=given.shape, **{_FIELDS[dtype]: numbers.ravel().tolist()})


# ---- reading --------------------------------------------------------------------------------------------------------


def unpack(space: Space, container: Message, where: str = "value") -> Any:
    """Return the value in a DataContainer, in Gymnasium's form.

    Args:
        space: space of the value.
        container: received message.
        where: name of the value in errors.
    """
    if isinstance(space, _BOXES):
        if container.type == SpaceType.NoSpaceType and space.shape == (0,):
            return np.zeros(0, space.dtype)
        return _numbers(space, _read(container, SpaceType.Box, pb.BoxDataContainer, where), where)
    if isinstance(space, spaces.Discrete):
        return np.int64(_read(container, SpaceType.Discrete, pb.DiscreteDataContainer, where).data)
    if isinstance(space, _TUPLES):
        inner = inner_spaces(space)
        elements = _read(container, SpaceType.Tuple, pb.TupleDataContainer, where).element
        if len(elements) != len(inner):
            raise ProtocolError(f"{where}: has {len(elements)} elements, expected {len(inner)}")
        values = tuple(unpack(one, elements[i], f"{where}[{i}]") for i, one in enumerate(inner))
        if isinstance(space, spaces.MultiDiscrete):
            return np.array(values, space.dtype).reshape(space.nvec.shape)
        return values
    if isinstance(space, spaces.Dict):
        elements = _read(container, SpaceType.Dict, pb.DictDataContainer, where).element
        by_name = {element.name: element for element in elements}
        if len(by_name) != len(elements) or by_name.keys() != space.spaces.keys():
            keys = [element.name for element in elements]
            raise ProtocolError(f"{where}: has the keys {shown(keys)}, expected {', '.join(map(repr, space.spaces))}")
        return {key: unpack(one, by_name[key], f"{where}[{key!r}]") for key, one in space.spaces.items()}
    raise ConfigError(f"{where}: the protocol has no values of a {type(space).__name__}")


def _read(container: Message, kind: int, message: Any, where: str) -> Message:
    if container.type != kind:
        name = SpaceType(kind).name
        raise ProtocolError(f"{where}: has the type {container.type}, expected {int(kind)} ({name})")
    return pb.parse_any(message, container.data, where)


def _numbers(space: spaces.Box | spaces.MultiBinary, box: Message, where: str) -> NDArray[Any]:
    expected = dtype_of(space, where)
    # ns3-gym's agent answers DOUBLE with FLOAT.
    if box.dtype != expected and {box.dtype, expected} != {Dtype.FLOAT, Dtype.DOUBLE}:
        raise ProtocolError(f"{where}: has the dtype {box.dtype}, expected {expected} ({Dtype(expected).name})")
    numbers = getattr(box, _FIELDS[box.dtype])
    count = math.prod(space.shape)
    if len(numbers) != count:
        raise ProtocolError(f"{where}: has {len(numbers)} numbers, expected {count}")
    shape = tuple(box.shape)
    if shape not in ((), space.shape, (count,)):  # ns3-gym's ends may omit it, or send the length
        raise ProtocolError(f"{where}: has the shape {shape}, expected {space.shape}")
    carried = np.fromiter(numbers, DTYPES[box.dtype], count)
    with np.errstate(over="ignore"):  # floats beyond float32 become inf
        cast = carried.astype(space.dtype)
    if cast.dtype.kind != "f" and not np.array_equal(cast, carried):
        raise ProtocolError(f"{where}: is {shown(carried)}, expected numbers that {space.dtype} holds")
    return cast.reshape(space.shape)


# ---- bounds ---------------------------------------------------------------------------------------------------------


def is_within(space: Space, value: Any) -> bool:
    """Return whether a value that has the form of its space also lies within its bounds; NaN does not."""
    if isinstance(space, spaces.Box):
        return bool(((space.low <= value) & (value <= space.high)).all())
    if isinstance(space, spaces.Tuple):
        return all(is_within(inner, one) for inner, one in zip(space.spaces, value, strict=True))
    if isinstance(space, spaces.Dict):
        return all(is_within(inner, value[key]) for key, inner in space.spaces.items())
    return space.contains(value)
