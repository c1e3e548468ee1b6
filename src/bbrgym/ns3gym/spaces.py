# SPDX-License-Identifier: GPL-2.0-only
"""Gymnasium spaces as the protocol describes them.

    Box             one low and one high for all numbers, as float32. dtype: INT and UINT, whose numbers travel in 32
                    bits; FLOAT; DOUBLE
    Discrete        from 0
    MultiBinary     a Box of UINT from 0 to 1
    MultiDiscrete   a Tuple of Discrete
    Tuple, Dict     of any of these; a Dict's keys are strings and keep their order
    ABSENT          no description: the simulation has no observations or no actions

Spaces that are read have int64 for INT, uint64 for UINT, float32 for FLOAT and float64 for DOUBLE.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from bbrgym.errors import ConfigError
from bbrgym.ns3gym import messages as pb
from bbrgym.ns3gym.errors import ProtocolError
from bbrgym.ns3gym.messages import Dtype, Message, SpaceType

Space = gymnasium.Space[Any]

#: Space of a simulation that has no observations or no actions.
ABSENT = spaces.Box(0.0, 0.0, (0,), np.float32)

#: Largest number of numbers in a value of a space; as doubles, half of the largest message.
MAX_NUMBERS = 2**20
#: Largest depth of nested spaces, far beyond real ones.
MAX_DEPTH = 16

#: Dtype of the arrays that are read, by the message's Dtype.
DTYPES: dict[int, np.dtype[Any]] = {
    Dtype.INT: np.dtype(np.int64),
    Dtype.UINT: np.dtype(np.uint64),
    Dtype.FLOAT: np.dtype(np.float32),
    Dtype.DOUBLE: np.dtype(np.float64),
}
_BY_DTYPE: dict[np.dtype[Any], int] = {
    np.dtype(name): int(dtype)
    for dtype, names in {
        Dtype.INT: ("int8", "int16", "int32", "int64"),
        Dtype.UINT: ("bool", "uint8", "uint16", "uint32", "uint64"),
        Dtype.FLOAT: ("float16", "float32"),
        Dtype.DOUBLE: ("float64",),
    }.items()
    for name in names
}
#: Smallest and largest integers that the protocol carries.
LIMITS: dict[int, tuple[int, int]] = {Dtype.INT: (-(2**31), 2**31 - 1), Dtype.UINT: (0, 2**32 - 1)}


# ---- writing --------------------------------------------------------------------------------------------------------


def describe(space: Space, where: str = "space") -> Message:
    """Return the SpaceDescription of a space.

    Args:
        space: space to describe.
        where: name of the space in errors.

    Raises:
        ConfigError: the protocol has no such space, or cannot carry its bounds.
    """
    return _describe(space, where, _Allowance(ConfigError), depth=1)


def _describe(space: Space, where: str, allowance: _Allowance, depth: int) -> Message:
    allowance.take(1, depth, where)
    description = pb.SpaceDescription()
    if space == ABSENT:
        return description
    if isinstance(space, spaces.Discrete):
        description.type = SpaceType.Discrete
        held = pb.DiscreteSpace(n=_number_of(space, where))
    elif isinstance(space, spaces.Dict):
        description.type = SpaceType.Dict
        held = pb.DictSpace()
        for key, inner in space.spaces.items():
            element = _describe(inner, f"{where}[{key!r}]", allowance, depth + 1)
            element.name = text(key, f"{where}: the key")
            held.element.append(element)
    elif isinstance(space, spaces.Tuple | spaces.MultiDiscrete):
        description.type = SpaceType.Tuple
        elements = space.spaces if isinstance(space, spaces.Tuple) else _discretes(space)
        described = (_describe(inner, f"{where}[{i}]", allowance, depth + 1) for i, inner in enumerate(elements))
        held = pb.TupleSpace(element=described)
    else:
        description.type = SpaceType.Box
        held = _box(space, where)
        allowance.take(_numbers(space.shape or ()), depth, where)
    pb.pack_any(description.space, held)
    return description


def _discretes(space: spaces.MultiDiscrete) -> list[spaces.Discrete]:
    starts = np.broadcast_to(space.start, space.nvec.shape)
    return [spaces.Discrete(int(n), start=int(start)) for n, start in zip(space.nvec.flat, starts.flat, strict=True)]


def _number_of(space: spaces.Discrete, where: str) -> int:
    if space.start != 0:
        raise ConfigError(f"{where}: {space} starts at {space.start}, the protocol's begin at 0")
    if space.n > LIMITS[Dtype.INT][1]:
        raise ConfigError(f"{where}: {space} has {space.n} values, allowed are at most {LIMITS[Dtype.INT][1]}")
    return int(space.n)


def _box(space: Space, where: str) -> Message:
    if isinstance(space, spaces.MultiBinary):
        return pb.BoxSpace(low=0.0, high=1.0, dtype=Dtype.UINT, shape=space.shape)
    if not isinstance(space, spaces.Box):
        kinds = "Box, Discrete, MultiBinary, MultiDiscrete, Tuple and Dict"
        raise ConfigError(f"{where}: is a {type(space).__name__}, allowed are {kinds}")
    dtype = dtype_of(space.dtype, where)
    low, high = _bound(space.low, "low", where), _bound(space.high, "high", where)
    with np.errstate(over="ignore"):
        box = pb.BoxSpace(low=float(np.float32(low)), high=float(np.float32(high)), dtype=dtype, shape=space.shape)
    for name, bound, carried in zip(("low", "high"), (low, high), _bounds_of(box), strict=True):
        if dtype in LIMITS and carried != bound:
            raise ConfigError(
                f"{where}: {name} is {bound}; the protocol carries whole numbers of 32 bits, and bounds as float32"
            )
        if math.isfinite(bound) and not math.isfinite(carried):
            raise ConfigError(f"{where}: {name} is {bound}; the protocol carries bounds as float32, inf for none")
    return box


def dtype_of(dtype: np.dtype[Any], where: str) -> int:
    """Return the protocol's Dtype for a Box of a NumPy dtype.

    Raises:
        ConfigError: the protocol has none.
    """
    found = _BY_DTYPE.get(dtype)
    if found is None:
        allowed = "whole numbers, bool, float16, float32 and float64"
        raise ConfigError(f"{where}: has the dtype {dtype}, allowed are {allowed}")
    return found


def _bound(bounds: np.ndarray[Any, np.dtype[Any]], name: str, where: str) -> Any:
    """Return the bound that all numbers share, as a Python number; 0 if there are no numbers."""
    if bounds.size == 0:
        return 0
    bound = bounds.flat[0]
    if not np.all(bounds == bound):
        raise ConfigError(f"{where}: {name} differs from number to number, the protocol carries one for all")
    return bound.item()


def text(value: Any, what: str) -> str:
    """Return a string that can be sent.

    Raises:
        ConfigError: it is no string, or UTF-8 cannot encode it.
    """
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            pass
        else:
            return value
    raise ConfigError(f"{what} is {value!r}, expected a text that UTF-8 can hold")


# ---- reading --------------------------------------------------------------------------------------------------------


def space_of(description: Message, where: str = "space") -> Space:
    """Return the space of a SpaceDescription.

    Raises:
        ProtocolError: it describes no space, or one that is too large.
    """
    return _read(description, where, _Allowance(ProtocolError), depth=1)


def _read(description: Message, where: str, allowance: _Allowance, depth: int) -> Space:
    allowance.take(1, depth, where)
    pb.refuse_misfits(description, where)
    kind, held = description.type, description.space
    if kind == SpaceType.NoSpaceType and not held.type_url:
        return ABSENT
    if kind == SpaceType.Discrete:
        return _read_discrete(pb.parse_any(pb.DiscreteSpace, held, where), where)
    if kind == SpaceType.Box:
        box = pb.parse_any(pb.BoxSpace, held, where)
        allowance.take(_numbers(box.shape), depth, where)
        return _read_box(box, where)
    if kind == SpaceType.Tuple:
        elements = pb.parse_any(pb.TupleSpace, held, where).element
        return spaces.Tuple([_read(one, f"{where}[{i}]", allowance, depth + 1) for i, one in enumerate(elements)])
    if kind == SpaceType.Dict:
        inner: dict[str, Space] = {}
        for one in pb.parse_any(pb.DictSpace, held, where).element:
            if one.name in inner:
                raise ProtocolError(f"{where}: has the key {one.name!r} twice")
            inner[one.name] = _read(one, f"{where}[{one.name!r}]", allowance, depth + 1)
        return spaces.Dict(inner, sort_keys=False)
    raise ProtocolError(f"{where}: has the type {kind}, allowed are 1 (Discrete) to 4 (Dict)")


def _read_discrete(message: Message, where: str) -> spaces.Discrete:
    if message.n < 1:
        raise ProtocolError(f"{where}: a Discrete of {message.n} values, expected at least 1")
    return spaces.Discrete(message.n)


def _read_box(message: Message, where: str) -> spaces.Box:
    if len(message.shape) > MAX_DEPTH:
        raise ProtocolError(f"{where}: has {len(message.shape)} dimensions, allowed are at most {MAX_DEPTH}")
    if message.dtype not in DTYPES:
        raise ProtocolError(f"{where}: has the dtype {message.dtype}, allowed are 1 (INT) to 4 (DOUBLE)")
    low, high = _bounds_of(message)
    if not low <= high or low == math.inf or high == -math.inf:  # NaN is neither
        raise ProtocolError(f"{where}: low is {low:g} and high {high:g}, expected low <= high")
    return spaces.Box(low, high, tuple(message.shape), DTYPES[message.dtype].type)


def _bounds_of(box: Message) -> tuple[float, float]:
    """Return low and high of a BoxSpace; for integers the outermost that the protocol carries."""
    if box.dtype not in LIMITS or math.isnan(box.low) or math.isnan(box.high):
        return box.low, box.high
    least, most = LIMITS[box.dtype]
    low = least if box.low <= least else math.ceil(min(box.low, 2.0**33))
    high = most if box.high >= most else math.floor(max(box.high, -(2.0**33)))
    return low, high


# ---- both -----------------------------------------------------------------------------------------------------------


class _Allowance:
    """Limit of a description: `MAX_NUMBERS` spaces and numbers in total, `MAX_DEPTH` nested spaces."""

    def __init__(self, error: type[ConfigError | ProtocolError]) -> None:
        self._error = error
        self._left = MAX_NUMBERS

    def take(self, count: int, depth: int, where: str) -> None:
        """Count spaces or numbers met at a depth."""
        self._left -= count
        if self._left < 0:
            raise self._error(f"{where}: with it there are more than {MAX_NUMBERS} numbers")
        if depth > MAX_DEPTH:
            raise self._error(f"{where}: lies deeper than {MAX_DEPTH} spaces")


def _numbers(shape: Iterable[int]) -> int:
    """Return the size of a shape; a length of 0 counts as 1, since NumPy limits the other lengths even then."""
    return math.prod(max(1, length) for length in shape)
