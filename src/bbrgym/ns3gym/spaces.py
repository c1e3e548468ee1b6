# SPDX-License-Identifier: GPL-2.0-only
"""Gymnasium spaces and values in the protocol's messages.

    Box             one low and one high for all numbers, as float32. dtype: INT and UINT, whose numbers travel in 32
                    bits; FLOAT; DOUBLE
    Discrete        from 0
    MultiBinary     a Box of UINT from 0 to 1
    MultiDiscrete   a Tuple of Discrete
    Tuple, Dict     of any of these; a Dict's keys are strings and keep their order
    ABSENT          no description: the simulation has no observations or no actions

What the protocol cannot carry is a ConfigError where it is written, and a ProtocolError where it is read. Spaces that
are read have int64 for INT, uint64 for UINT, float32 for FLOAT and float64 for DOUBLE.

Values have the form of their space: type, length, shape, keys. `unpack` does not check bounds, those of a Box nor the
number of choices of a Discrete: observations of ns3-gym's simulations often leave the spaces that they describe.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from bbrgym.errors import ConfigError
from bbrgym.ns3gym import messages as pb
from bbrgym.ns3gym.errors import ProtocolError
from bbrgym.ns3gym.messages import Dtype, Message, SpaceType
from bbrgym.schema import shown

Space = gymnasium.Space[Any]

#: Space of a simulation that has no observations or no actions.
ABSENT = spaces.Box(0.0, 0.0, (0,), np.float32)

#: Largest number of numbers and spaces in a space; as doubles, half of the largest message.
MAX_NUMBERS = 2**20
#: Largest depth of nested spaces, and of a Box's dimensions, far beyond real ones.
MAX_DEPTH = 16

#: Type, description and values of each kind of space that the protocol has.
_KINDS: dict[Any, tuple[int, Any, Any]] = {
    spaces.Discrete: (SpaceType.Discrete, pb.DiscreteSpace, pb.DiscreteDataContainer),
    spaces.Box: (SpaceType.Box, pb.BoxSpace, pb.BoxDataContainer),
    spaces.Tuple: (SpaceType.Tuple, pb.TupleSpace, pb.TupleDataContainer),
    spaces.Dict: (SpaceType.Dict, pb.DictSpace, pb.DictDataContainer),
}
#: Field with the numbers of each Dtype, and the dtype of the arrays that are read.
_NUMBERS: dict[int, tuple[str, np.dtype[Any]]] = {
    Dtype.INT: ("intData", np.dtype(np.int64)),
    Dtype.UINT: ("uintData", np.dtype(np.uint64)),
    Dtype.FLOAT: ("floatData", np.dtype(np.float32)),
    Dtype.DOUBLE: ("doubleData", np.dtype(np.float64)),
}
#: Smallest and largest integers that the protocol carries.
_LIMITS: dict[int, tuple[int, int]] = {Dtype.INT: (-(2**31), 2**31 - 1), Dtype.UINT: (0, 2**32 - 1)}
_DTYPES = {"b": Dtype.UINT, "u": Dtype.UINT, "i": Dtype.INT, "float16": Dtype.FLOAT, "float32": Dtype.FLOAT}


def _carried(space: Space, where: str) -> tuple[Any, Any]:
    """Return a space of a kind that the protocol has, in place of another one, and the kind."""
    if isinstance(space, spaces.MultiBinary):
        space = spaces.Box(0, 1, space.shape, np.uint8)
    elif isinstance(space, spaces.MultiDiscrete):
        starts = np.broadcast_to(space.start, space.nvec.shape)
        pairs = zip(space.nvec.flat, starts.flat, strict=True)
        space = spaces.Tuple([spaces.Discrete(int(n), start=int(start)) for n, start in pairs])
    for kind in _KINDS:
        if isinstance(space, kind):
            return space, kind
    names = "Box, Discrete, MultiBinary, MultiDiscrete, Tuple and Dict"
    raise ConfigError(f"{where}: is a {type(space).__name__}, allowed are {names}")


def _inner(space: Any) -> dict[Any, Space]:
    """Return the spaces within a Tuple or Dict, by index or key."""
    return space.spaces if isinstance(space, spaces.Dict) else dict(enumerate(space.spaces))


def _dtype_of(space: Any, where: str) -> int:
    found = _DTYPES.get(space.dtype.kind, _DTYPES.get(space.dtype.name))
    if found is None and space.dtype != np.float64:
        allowed = "whole numbers, bool, float16, float32 and float64"
        raise ConfigError(f"{where}: has the dtype {space.dtype}, allowed are {allowed}")
    return int(Dtype.DOUBLE if found is None else found)


# ---- spaces ---------------------------------------------------------------------------------------------------------


def describe(space: Space, where: str = "space") -> Message:
    """Return the SpaceDescription of a space."""
    description = _description(space, where)
    try:
        space_of(description, where)
    except ProtocolError as error:  # beyond the limits of size and depth
        raise ConfigError(str(error)) from error
    return description


def _description(space: Space, where: str) -> Message:
    description = pb.SpaceDescription()
    if space == ABSENT:
        return description
    carried, kind = _carried(space, where)
    if kind is spaces.Discrete and carried.start != 0:
        raise ConfigError(f"{where}: {space} starts at {carried.start}, the protocol's begin at 0")
    description.type, message, _ = _KINDS[kind]
    try:
        if kind is spaces.Box:
            held = _box_space(carried, where)
        elif kind is spaces.Discrete:
            held = message(n=carried.n)
        else:
            inner = _inner(carried)
            held = message(element=[_description(one, f"{where}[{key!r}]") for key, one in inner.items()])
            _name(held, carried)
    except ConfigError:
        raise
    except (TypeError, ValueError) as error:  # from protobuf
        raise ConfigError(f"{where}: the protocol cannot carry {space}: {error}") from error
    description.space.Pack(held)
    return description


def _name(message: Message, space: Any) -> None:
    """Write the keys of a Dict into the elements of the Dict's message."""
    if isinstance(space, spaces.Dict):
        for key, element in zip(space.spaces, message.element, strict=True):
            element.name = key


def _box_space(space: spaces.Box, where: str) -> Message:
    low, high = _bound(space.low, "low", where), _bound(space.high, "high", where)
    box = pb.BoxSpace(low=low, high=high, dtype=_dtype_of(space, where), shape=space.shape)
    for name, bound, carried in zip(("low", "high"), (low, high), _bounds_of(box), strict=True):
        if carried != bound if box.dtype in _LIMITS else math.isfinite(carried) != math.isfinite(bound):
            raise ConfigError(
                f"{where}: {name} is {bound}; the protocol carries bounds as float32, and whole numbers of 32 bits"
            )
    return box


def _bound(bounds: NDArray[Any], name: str, where: str) -> Any:
    """Return the bound that all numbers share, as a Python number; 0 if there are no numbers."""
    if bounds.size == 0:
        return 0
    if not np.all(bounds == bounds.flat[0]):
        raise ConfigError(f"{where}: {name} differs from number to number, the protocol carries one for all")
    return bounds.flat[0].item()


def space_of(description: Message, where: str = "space") -> Space:
    """Return the space of a SpaceDescription."""
    left = MAX_NUMBERS

    def count(number: int, where: str) -> None:
        nonlocal left
        left -= number
        if left < 0:
            raise ProtocolError(f"{where}: with it there are more than {MAX_NUMBERS} numbers")

    def read(description: Message, where: str, depth: int) -> Space:
        count(1, where)
        if depth > MAX_DEPTH:
            raise ProtocolError(f"{where}: lies deeper than {MAX_DEPTH} spaces")
        if description.type == SpaceType.NoSpaceType and not description.space.type_url:
            return ABSENT
        kind = {number: kind for kind, (number, *_) in _KINDS.items()}.get(description.type)
        if kind is None:
            raise ProtocolError(f"{where}: has the type {description.type}, allowed are 1 (Discrete) to 4 (Dict)")
        held = pb.parse_any(_KINDS[kind][1], description.space, where)
        if kind is spaces.Discrete:
            if held.n < 1:
                raise ProtocolError(f"{where}: a Discrete of {held.n} values, expected at least 1")
            return spaces.Discrete(held.n)
        if kind is spaces.Box:
            # A length of 0 counts as 1: NumPy limits the other lengths even then.
            count(math.prod(max(1, length) for length in held.shape), where)
            return _read_box(held, where)
        if kind is spaces.Tuple:
            return spaces.Tuple([read(one, f"{where}[{i}]", depth + 1) for i, one in enumerate(held.element)])
        inner: dict[str, Space] = {}
        for one in held.element:
            if one.name in inner:
                raise ProtocolError(f"{where}: has the key {one.name!r} twice")
            inner[one.name] = read(one, f"{where}[{one.name!r}]", depth + 1)
        return spaces.Dict(inner, sort_keys=False)

    return read(description, where, 1)


def _read_box(box: Message, where: str) -> spaces.Box:
    if len(box.shape) > MAX_DEPTH:
        raise ProtocolError(f"{where}: has {len(box.shape)} dimensions, allowed are at most {MAX_DEPTH}")
    if box.dtype not in _NUMBERS:
        raise ProtocolError(f"{where}: has the dtype {box.dtype}, allowed are 1 (INT) to 4 (DOUBLE)")
    low, high = _bounds_of(box)
    if not low <= high or low == math.inf or high == -math.inf:  # NaN is neither
        raise ProtocolError(f"{where}: low is {low:g} and high {high:g}, expected low <= high")
    return spaces.Box(low, high, tuple(box.shape), _NUMBERS[box.dtype][1].type)


def _bounds_of(box: Message) -> tuple[float, float]:
    """Return low and high of a BoxSpace; for integers the outermost that the protocol carries."""
    if box.dtype not in _LIMITS or math.isnan(box.low) or math.isnan(box.high):
        return box.low, box.high
    least, most = _LIMITS[box.dtype]
    low = least if box.low <= least else math.ceil(min(box.low, 2.0**33))
    high = most if box.high >= most else math.floor(max(box.high, -(2.0**33)))
    return low, high


# ---- values ---------------------------------------------------------------------------------------------------------


def pack(space: Space, value: Any, where: str = "value") -> Message:
    """Return the DataContainer of a value."""
    container = pb.DataContainer()
    if space == ABSENT:
        return container
    carried, kind = _carried(space, where)
    container.type, _, message = _KINDS[kind]
    is_number = isinstance(space, spaces.Discrete | spaces.MultiDiscrete)
    if is_number and not space.contains(value):
        raise ConfigError(f"{where}: is {shown(value)}, expected a value of {space}")
    try:
        if kind is spaces.Box:
            held = _box_values(carried, np.asarray(value), where)
        elif kind is spaces.Discrete:
            held = message(data=value)
        else:
            held = message(element=_packed(carried, np.ravel(value) if is_number else value, where))
            _name(held, carried)
    except ConfigError:
        raise
    except (TypeError, ValueError, FloatingPointError) as error:  # from NumPy and protobuf
        raise ConfigError(f"{where}: is {shown(value)}, expected a value of {space}: {error}") from error
    container.data.Pack(held)
    return container


def _packed(space: Any, values: Any, where: str) -> list[Message]:
    inner, is_dict = _inner(space), isinstance(space, spaces.Dict)
    if is_dict and (not isinstance(values, Mapping) or values.keys() != inner.keys()):
        keys = ", ".join(map(str, inner))
        raise ConfigError(f"{where}: is {shown(values)}, expected a mapping with the keys {keys}")
    if not is_dict and (not isinstance(values, Sequence | np.ndarray) or len(values) != len(inner)):
        raise ConfigError(f"{where}: is {shown(values)}, expected {len(inner)} values")
    return [pack(one, values[key], f"{where}[{key!r}]") for key, one in inner.items()]


def _box_values(space: spaces.Box, given: NDArray[Any], where: str) -> Message:
    if given.shape != space.shape:
        raise ConfigError(f"{where}: has the shape {given.shape}, expected {space.shape}")
    dtype = _dtype_of(space, where)
    field, carried = _NUMBERS[dtype]
    if given.dtype.kind in "biu" and space.dtype.kind in "biu":
        numbers = given.astype(np.uint8) if given.dtype.kind == "b" else given  # protobuf checks their range
    else:
        with np.errstate(over="raise"):
            numbers = given.astype(carried, casting="same_kind")
    return pb.BoxDataContainer(dtype=dtype, shape=given.shape, **{field: numbers.ravel().tolist()})


def unpack(space: Space, container: Message, where: str = "value") -> Any:
    """Return the value in a DataContainer, in Gymnasium's form."""
    carried, kind = _carried(space, where)
    if container.type == SpaceType.NoSpaceType and space.shape == (0,):
        return np.zeros(0, space.dtype)
    number, _, message = _KINDS[kind]
    if container.type != number:
        name = SpaceType(number).name
        raise ProtocolError(f"{where}: has the type {container.type}, expected {int(number)} ({name})")
    held = pb.parse_any(message, container.data, where)
    if kind is spaces.Box:
        return _read_numbers(carried, held, where).astype(space.dtype, copy=False)
    if kind is spaces.Discrete:
        return np.int64(held.data)
    inner, elements = _inner(carried), dict(enumerate(held.element))
    if kind is spaces.Dict:
        keys = [one.name for one in held.element]
        elements = dict(zip(keys, held.element, strict=True))
        if len(elements) != len(keys) or elements.keys() != inner.keys():
            raise ProtocolError(f"{where}: has the keys {shown(keys)}, expected {', '.join(map(repr, inner))}")
    elif len(elements) != len(inner):
        raise ProtocolError(f"{where}: has {len(elements)} elements, expected {len(inner)}")
    values = {key: unpack(one, elements[key], f"{where}[{key!r}]") for key, one in inner.items()}
    if isinstance(space, spaces.MultiDiscrete):
        return np.array(list(values.values()), space.dtype).reshape(space.nvec.shape)
    return values if kind is spaces.Dict else tuple(values.values())


def _read_numbers(space: spaces.Box, box: Message, where: str) -> NDArray[Any]:
    expected = _dtype_of(space, where)
    # ns3-gym's agent answers DOUBLE with FLOAT.
    if box.dtype != expected and {box.dtype, expected} != {Dtype.FLOAT, Dtype.DOUBLE}:
        raise ProtocolError(f"{where}: has the dtype {box.dtype}, expected {expected} ({Dtype(expected).name})")
    field, dtype = _NUMBERS[box.dtype]
    numbers, count, shape = getattr(box, field), math.prod(space.shape), tuple(box.shape)
    if len(numbers) != count:
        raise ProtocolError(f"{where}: has {len(numbers)} numbers, expected {count}")
    if shape not in ((), space.shape, (count,)):  # ns3-gym's ends may omit it, or send the length
        raise ProtocolError(f"{where}: has the shape {shape}, expected {space.shape}")
    carried = np.fromiter(numbers, dtype, count)
    with np.errstate(over="ignore"):  # floats beyond float32 become inf
        cast = carried.astype(space.dtype)
    if cast.dtype.kind != "f" and not np.array_equal(cast, carried):
        raise ProtocolError(f"{where}: is {shown(carried)}, expected numbers that {space.dtype} holds")
    return cast.reshape(space.shape)
