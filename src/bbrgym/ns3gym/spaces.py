# SPDX-License-Identifier: GPL-2.0-only
"""Gymnasium spaces as the protocol describes them.

    Box             one low and one high for all numbers, as float32. dtype: INT and UINT, whose numbers travel in 32
                    bits; FLOAT; DOUBLE
    Discrete        from 0
    MultiBinary     a Box of UINT from 0 to 1
    MultiDiscrete   a Tuple of Discrete
    Tuple, Dict     of any of these; a Dict's keys are strings and keep their order
    ABSENT          no description: the simulation has no observations or no actions

What the protocol cannot carry is a ConfigError where it is written, and a ProtocolError where it is read. Spaces that
are read have int64 for INT, uint64 for UINT, float32 for FLOAT and float64 for DOUBLE.
"""

from __future__ import annotations

import math
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

#: Largest number of numbers and spaces in a space; as doubles, half of the largest message.
MAX_NUMBERS = 2**20
#: Largest depth of nested spaces, and of a Box's dimensions, far beyond real ones.
MAX_DEPTH = 16

#: Dtype of the arrays that are read, by the message's Dtype.
DTYPES: dict[int, np.dtype[Any]] = {
    Dtype.INT: np.dtype(np.int64),
    Dtype.UINT: np.dtype(np.uint64),
    Dtype.FLOAT: np.dtype(np.float32),
    Dtype.DOUBLE: np.dtype(np.float64),
}
#: Smallest and largest integers that the protocol carries.
_LIMITS: dict[int, tuple[int, int]] = {Dtype.INT: (-(2**31), 2**31 - 1), Dtype.UINT: (0, 2**32 - 1)}
_FLOATS: dict[str, int] = {"float16": Dtype.FLOAT, "float32": Dtype.FLOAT, "float64": Dtype.DOUBLE}


def dtype_of(space: spaces.Box | spaces.MultiBinary, where: str) -> int:
    """Return the protocol's Dtype for the numbers of a space."""
    if isinstance(space, spaces.MultiBinary) or space.dtype.kind in "bu":
        return int(Dtype.UINT)
    found = Dtype.INT if space.dtype.kind == "i" else _FLOATS.get(space.dtype.name)
    if found is None:
        allowed = "whole numbers, bool, float16, float32 and float64"
        raise ConfigError(f"{where}: has the dtype {space.dtype}, allowed are {allowed}")
    return int(found)


def inner_spaces(space: spaces.Tuple[Any] | spaces.MultiDiscrete) -> list[Space]:
    """Return the spaces of a Tuple, or the Discrete that a MultiDiscrete consists of."""
    if isinstance(space, spaces.Tuple):
        return list(space.spaces)
    starts = np.broadcast_to(space.start, space.nvec.shape)
    return [spaces.Discrete(int(n), start=int(start)) for n, start in zip(space.nvec.flat, starts.flat, strict=True)]


# ---- writing --------------------------------------------------------------------------------------------------------


def describe(space: Space, where: str = "space") -> Message:
    """Return the SpaceDescription of a space.

    Args:
        space: space to describe.
        where: name of the space in errors.
    """
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
    try:
        description.type, held = _held(space, where)
    except ConfigError:
        raise
    except (TypeError, ValueError) as error:  # from protobuf
        raise ConfigError(f"{where}: the protocol cannot carry {space}: {error}") from error
    description.space.Pack(held)
    return description


def _held(space: Space, where: str) -> tuple[int, Message]:
    """Return the type of a space, and the message that describes it."""
    if isinstance(space, spaces.Discrete):
        if space.start != 0:
            raise ConfigError(f"{where}: {space} starts at {space.start}, the protocol's begin at 0")
        return SpaceType.Discrete, pb.DiscreteSpace(n=space.n)
    if isinstance(space, spaces.Dict):
        message = pb.DictSpace(element=[_description(one, f"{where}[{key!r}]") for key, one in space.spaces.items()])
        for key, element in zip(space.spaces, message.element, strict=True):
            element.name = key
        return SpaceType.Dict, message
    if isinstance(space, spaces.Tuple | spaces.MultiDiscrete):
        elements = [_description(inner, f"{where}[{i}]") for i, inner in enumerate(inner_spaces(space))]
        return SpaceType.Tuple, pb.TupleSpace(element=elements)
    if isinstance(space, spaces.MultiBinary):
        return SpaceType.Box, pb.BoxSpace(low=0.0, high=1.0, dtype=Dtype.UINT, shape=space.shape)
    if isinstance(space, spaces.Box):
        return SpaceType.Box, _box(space, where)
    kinds = "Box, Discrete, MultiBinary, MultiDiscrete, Tuple and Dict"
    raise ConfigError(f"{where}: is a {type(space).__name__}, allowed are {kinds}")


def _box(space: spaces.Box, where: str) -> Message:
    low, high = _bound(space.low, "low", where), _bound(space.high, "high", where)
    box = pb.BoxSpace(low=low, high=high, dtype=dtype_of(space, where), shape=space.shape)
    for name, bound, carried in zip(("low", "high"), (low, high), _bounds_of(box), strict=True):
        if carried != bound if box.dtype in _LIMITS else math.isfinite(carried) != math.isfinite(bound):
            raise ConfigError(
                f"{where}: {name} is {bound}; the protocol carries bounds as float32, and whole numbers of 32 bits"
            )
    return box


def _bound(bounds: np.ndarray[Any, np.dtype[Any]], name: str, where: str) -> Any:
    """Return the bound that all numbers share, as a Python number; 0 if there are no numbers."""
    if bounds.size == 0:
        return 0
    if not np.all(bounds == bounds.flat[0]):
        raise ConfigError(f"{where}: {name} differs from number to number, the protocol carries one for all")
    return bounds.flat[0].item()


# ---- reading --------------------------------------------------------------------------------------------------------


def space_of(description: Message, where: str = "space") -> Space:
    """Return the space of a SpaceDescription."""
    return _Reader().space(description, where, depth=1)


class _Reader:
    """Reads one description, and counts the spaces and numbers that it describes."""

    def __init__(self) -> None:
        self._left = MAX_NUMBERS

    def space(self, description: Message, where: str, depth: int) -> Space:
        """Return the space of a description at a depth."""
        self._count(1, where)
        if depth > MAX_DEPTH:
            raise ProtocolError(f"{where}: lies deeper than {MAX_DEPTH} spaces")
        kind, held = description.type, description.space
        if kind == SpaceType.NoSpaceType and not held.type_url:
            return ABSENT
        if kind == SpaceType.Discrete:
            n = pb.parse_any(pb.DiscreteSpace, held, where).n
            if n < 1:
                raise ProtocolError(f"{where}: a Discrete of {n} values, expected at least 1")
            return spaces.Discrete(n)
        if kind == SpaceType.Box:
            return self._box(pb.parse_any(pb.BoxSpace, held, where), where)
        if kind == SpaceType.Tuple:
            elements = pb.parse_any(pb.TupleSpace, held, where).element
            return spaces.Tuple([self.space(one, f"{where}[{i}]", depth + 1) for i, one in enumerate(elements)])
        if kind == SpaceType.Dict:
            inner: dict[str, Space] = {}
            for one in pb.parse_any(pb.DictSpace, held, where).element:
                if one.name in inner:
                    raise ProtocolError(f"{where}: has the key {one.name!r} twice")
                inner[one.name] = self.space(one, f"{where}[{one.name!r}]", depth + 1)
            return spaces.Dict(inner, sort_keys=False)
        raise ProtocolError(f"{where}: has the type {kind}, allowed are 1 (Discrete) to 4 (Dict)")

    def _box(self, message: Message, where: str) -> spaces.Box:
        if len(message.shape) > MAX_DEPTH:
            raise ProtocolError(f"{where}: has {len(message.shape)} dimensions, allowed are at most {MAX_DEPTH}")
        if message.dtype not in DTYPES:
            raise ProtocolError(f"{where}: has the dtype {message.dtype}, allowed are 1 (INT) to 4 (DOUBLE)")
        # A length of 0 counts as 1: NumPy limits the other lengths even then.
        self._count(math.prod(max(1, length) for length in message.shape), where)
        low, high = _bounds_of(message)
        if not low <= high or low == math.inf or high == -math.inf:  # NaN is neither
            raise ProtocolError(f"{where}: low is {low:g} and high {high:g}, expected low <= high")
        return spaces.Box(low, high, tuple(message.shape), DTYPES[message.dtype].type)

    def _count(self, count: int, where: str) -> None:
        self._left -= count
        if self._left < 0:
            raise ProtocolError(f"{where}: with it there are more than {MAX_NUMBERS} numbers")


def _bounds_of(box: Message) -> tuple[float, float]:
    """Return low and high of a BoxSpace; for integers the outermost that the protocol carries."""
    if box.dtype not in _LIMITS or math.isnan(box.low) or math.isnan(box.high):
        return box.low, box.high
    least, most = _LIMITS[box.dtype]
    low = least if box.low <= least else math.ceil(min(box.low, 2.0**33))
    high = most if box.high >= most else math.floor(max(box.high, -(2.0**33)))
    return low, high
