# SPDX-License-Identifier: GPL-2.0-only
"""Values of spaces as the protocol carries them.

Values have the form of their space: type, length, shape, keys. `unpack` does not check bounds, those of a Box nor the
number of choices of a Discrete: observations of ns3-gym's simulations often leave the spaces that they describe.
`is_within` does.
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
from bbrgym.ns3gym.floats import decode, encode
from bbrgym.ns3gym.messages import Dtype, Message, SpaceType
from bbrgym.ns3gym.spaces import ABSENT, DTYPES, LIMITS, Space, dtype_of, text
from bbrgym.schema import shown

_FIELDS: dict[int, str] = {
    Dtype.INT: "intData",
    Dtype.UINT: "uintData",
    Dtype.FLOAT: "floatData",
    Dtype.DOUBLE: "doubleData",
}
_WHOLE = "biu"  # kinds of NumPy's dtypes
# Plain numbers: looking up an enum's members is slow.
_UINT, _FLOAT = int(Dtype.UINT), int(Dtype.FLOAT)
_FLOATS = (_FLOAT, int(Dtype.DOUBLE))
_NO_TYPE, _BOX = int(SpaceType.NoSpaceType), int(SpaceType.Box)
_DISCRETE, _TUPLE, _DICT = int(SpaceType.Discrete), int(SpaceType.Tuple), int(SpaceType.Dict)


# ---- writing --------------------------------------------------------------------------------------------------------


def pack(space: Space, value: Any, where: str = "value") -> Message:
    """Return the DataContainer of a value.

    Args:
        space: space of the value.
        value: in Gymnasium's form.
        where: name of the value in errors.

    Raises:
        ConfigError: the value does not have the form of the space, or the protocol cannot carry it.
    """
    container = pb.DataContainer()
    if isinstance(space, spaces.Box | spaces.MultiBinary):
        if space.shape != (0,) or space != ABSENT:
            container.type = _BOX
            pb.put(container.data, pb.BoxDataContainer, _box_bytes(space, value, where))
        return container
    if isinstance(space, spaces.Discrete):
        container.type = _DISCRETE
        held = pb.DiscreteDataContainer(data=_choice(space.n, value, where))
    elif isinstance(space, spaces.MultiDiscrete):
        container.type = _TUPLE
        held = _pack_choices(space, value, where)
    elif isinstance(space, spaces.Tuple):
        container.type = _TUPLE
        held = _pack_tuple(space, value, where)
    elif isinstance(space, spaces.Dict):
        container.type = _DICT
        held = _pack_dict(space, value, where)
    else:
        raise ConfigError(f"{where}: the protocol has no values of a {type(space).__name__}")
    pb.pack_any(container.data, held)
    return container


def _box_bytes(space: spaces.Box | spaces.MultiBinary, value: Any, where: str) -> bytes:
    given = _array(value, where)
    if given.shape != space.shape:
        raise ConfigError(f"{where}: has the shape {given.shape}, expected {space.shape}")
    if given.dtype != space.dtype and not _goes_into(given.dtype, space.dtype):
        raise ConfigError(f"{where}: has the dtype {given.dtype}, expected {space.dtype}")
    dtype = _UINT if isinstance(space, spaces.MultiBinary) else dtype_of(space.dtype, where)
    if dtype in LIMITS:
        least, most = LIMITS[dtype]
        if given.size and not least <= int(given.min()) <= int(given.max()) <= most:
            raise ConfigError(f"{where}: is {shown(value)}, the protocol carries whole numbers from {least} to {most}")
        box = pb.BoxDataContainer(dtype=dtype, shape=given.shape, **{_FIELDS[dtype]: given.ravel().tolist()})
        whole: bytes = box.SerializeToString()
        return whole
    if dtype == _FLOAT and given.dtype != np.float32:
        given = _as_float32(given, where)
    return encode(dtype, given)


def _goes_into(given: np.dtype[Any], expected: np.dtype[Any]) -> bool:
    """Return whether numbers may be cast; integers are checked one by one afterwards."""
    return (given.kind in _WHOLE and expected.kind in _WHOLE) or np.can_cast(given, expected, "same_kind")


def _array(value: Any, where: str) -> NDArray[Any]:
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ConfigError(f"{where}: is {shown(value)}, no array: {error}") from error
    if array.dtype.kind not in "biuf":
        raise ConfigError(f"{where}: is {shown(value)}, expected numbers")
    return array


def _as_float32(given: NDArray[Any], where: str) -> NDArray[np.float32]:
    try:
        with np.errstate(over="raise"):
            return given.astype(np.float32)
    except FloatingPointError as error:
        raise ConfigError(f"{where}: is {shown(given)}, more than float32 holds") from error


def _choice(n: Any, value: Any, where: str) -> int:
    if isinstance(value, np.ndarray) and value.shape == ():
        value = value[()]
    if isinstance(value, int | np.integer) and not isinstance(value, bool) and 0 <= value < n:
        return int(value)
    raise ConfigError(f"{where}: is {shown(value)}, expected a whole number from 0 to {n - 1}")


def _pack_choices(space: spaces.MultiDiscrete, value: Any, where: str) -> Message:
    given = _array(value, where)
    if given.shape != space.nvec.shape or given.dtype.kind not in "iu":
        raise ConfigError(f"{where}: is {shown(value)}, expected whole numbers of the shape {space.nvec.shape}")
    tuple_of = pb.TupleDataContainer()
    for i, (n, one) in enumerate(zip(space.nvec.ravel().tolist(), given.ravel().tolist(), strict=True)):
        element = tuple_of.element.add(type=_DISCRETE)
        pb.pack_any(element.data, pb.DiscreteDataContainer(data=_choice(n, one, f"{where}[{i}]")))
    return tuple_of


def _pack_tuple(space: spaces.Tuple[Any], value: Any, where: str) -> Message:
    if not isinstance(value, Sequence | np.ndarray) or isinstance(value, str) or len(value) != len(space.spaces):
        raise ConfigError(f"{where}: is {shown(value)}, expected {len(space.spaces)} values")
    return pb.TupleDataContainer(
        element=[
            pack(inner, one, f"{where}[{i}]") for i, (inner, one) in enumerate(zip(space.spaces, value, strict=True))
        ]
    )


def _pack_dict(space: spaces.Dict, value: Any, where: str) -> Message:
    if not isinstance(value, Mapping) or value.keys() != space.spaces.keys():
        raise ConfigError(f"{where}: is {shown(value)}, expected a mapping with the keys {', '.join(space.spaces)}")
    dict_of = pb.DictDataContainer()
    for key, inner in space.spaces.items():
        element = pack(inner, value[key], f"{where}[{key!r}]")
        element.name = text(key, f"{where}: the key")
        dict_of.element.append(element)
    return dict_of


# ---- reading --------------------------------------------------------------------------------------------------------


def unpack(space: Space, container: Message, where: str = "value") -> Any:
    """Return the value in a DataContainer, in Gymnasium's form.

    Args:
        space: space of the value.
        container: received message.
        where: name of the value in errors.

    Raises:
        ProtocolError: it does not have the form of the space.
    """
    pb.refuse_misfits(container, where)
    if isinstance(space, spaces.Box | spaces.MultiBinary):
        if container.type == _NO_TYPE and space.shape == (0,):
            return np.zeros(0, space.dtype)
        return _unpack_box(space, container, where)
    if isinstance(space, spaces.Discrete):
        return _unpack_choice(container, where)
    if isinstance(space, spaces.MultiDiscrete):
        elements = _elements(container, space.nvec.size, where)
        choices = [_unpack_choice(one, f"{where}[{i}]") for i, one in enumerate(elements)]
        return np.array(choices, space.dtype).reshape(space.nvec.shape)
    if isinstance(space, spaces.Tuple):
        elements = _elements(container, len(space.spaces), where)
        return tuple(
            unpack(inner, one, f"{where}[{i}]")
            for i, (inner, one) in enumerate(zip(space.spaces, elements, strict=True))
        )
    if isinstance(space, spaces.Dict):
        return _unpack_dict(space, _held(container, _DICT, pb.DictDataContainer, where).element, where)
    raise ConfigError(f"{where}: the protocol has no values of a {type(space).__name__}")


def _held(container: Message, kind: int, message: Any, where: str) -> Message:
    if container.type != kind:
        name = SpaceType(kind).name
        raise ProtocolError(f"{where}: has the type {container.type}, expected {kind} ({name})")
    return pb.parse_any(message, container.data, where)


def _elements(container: Message, count: int, where: str) -> Any:
    elements = _held(container, _TUPLE, pb.TupleDataContainer, where).element
    if len(elements) != count:
        raise ProtocolError(f"{where}: has {len(elements)} elements, expected {count}")
    for i, element in enumerate(elements):
        pb.refuse_misfits(element, f"{where}[{i}]")
    return elements


def _unpack_choice(container: Message, where: str) -> np.int64:
    return np.int64(_held(container, _DISCRETE, pb.DiscreteDataContainer, where).data)


def _unpack_box(space: spaces.Box | spaces.MultiBinary, container: Message, where: str) -> NDArray[Any]:
    expected = _UINT if isinstance(space, spaces.MultiBinary) else dtype_of(space.dtype, where)
    if expected in _FLOATS and container.type == _BOX and pb.holds(container.data, pb.BoxDataContainer):
        floats = decode(expected, space.shape, container.data.value)
        if floats is not None:  # the common case
            return _cast(floats, np.dtype(space.dtype), where)
    box = _held(container, _BOX, pb.BoxDataContainer, where)
    # ns3-gym's agent answers DOUBLE with FLOAT.
    if box.dtype != expected and not (box.dtype in _FLOATS and expected in _FLOATS):
        raise ProtocolError(f"{where}: has the dtype {box.dtype}, expected {expected} ({Dtype(expected).name})")
    numbers = getattr(box, _FIELDS[box.dtype])
    count = math.prod(space.shape)
    if len(numbers) != count:
        raise ProtocolError(f"{where}: has {len(numbers)} numbers, expected {count}")
    shape = tuple(box.shape)
    if shape not in ((), space.shape, (count,)):  # ns3-gym's ends may omit it, or send the length
        raise ProtocolError(f"{where}: has the shape {shape}, expected {space.shape}")
    carried = np.fromiter(numbers, DTYPES[box.dtype], count)
    return _cast(carried, np.dtype(space.dtype), where).reshape(space.shape)


def _cast(carried: NDArray[Any], dtype: np.dtype[Any], where: str) -> NDArray[Any]:
    """Cast numbers to a dtype; integers must keep their values."""
    if carried.dtype == dtype:
        return carried
    with np.errstate(over="ignore"):  # floats beyond float32 become inf
        cast = carried.astype(dtype)
    if dtype.kind != "f" and not np.array_equal(cast, carried):
        raise ProtocolError(f"{where}: is {shown(carried)}, expected numbers that {dtype} holds")
    return cast


def _unpack_dict(space: spaces.Dict, elements: Any, where: str) -> dict[str, Any]:
    by_name = {element.name: element for element in elements}
    if len(by_name) != len(elements) or by_name.keys() != space.spaces.keys():
        keys = [element.name for element in elements]
        raise ProtocolError(f"{where}: has the keys {shown(keys)}, expected {', '.join(map(repr, space.spaces))}")
    return {key: unpack(inner, by_name[key], f"{where}[{key!r}]") for key, inner in space.spaces.items()}


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
