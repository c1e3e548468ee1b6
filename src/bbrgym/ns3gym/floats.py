# SPDX-License-Identifier: GPL-2.0-only
"""Conversion between arrays of floats and the bytes of a BoxDataContainer, without Python numbers in between.

protobuf writes floats as most machines hold them in memory, little-endian, and here they are the last field. So all
values of a space have the same bytes before their numbers.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bbrgym.ns3gym.messages import BoxDataContainer, Dtype

#: Format of the numbers of each Dtype in a message.
WIRE: dict[int, np.dtype[Any]] = {int(Dtype.FLOAT): np.dtype("<f4"), int(Dtype.DOUBLE): np.dtype("<f8")}


def encode(dtype: int, numbers: NDArray[Any]) -> bytes:
    """Return the bytes of `BoxDataContainer.SerializeToString` for numbers and their shape, as FLOAT or DOUBLE."""
    return _head(dtype, numbers.shape) + numbers.astype(WIRE[dtype], copy=False).tobytes()


def decode(dtype: int, shape: tuple[int, ...], data: bytes) -> NDArray[Any] | None:
    """Return the numbers in bytes that `encode` wrote for a Dtype and a shape; None for other bytes."""
    head = _head(dtype, shape)
    count = math.prod(shape)
    if len(data) != len(head) + count * WIRE[dtype].itemsize or not data.startswith(head):
        return None
    native = WIRE[dtype].newbyteorder("=")
    return np.frombuffer(data, WIRE[dtype], count, len(head)).astype(native).reshape(shape)


@lru_cache(maxsize=256)
def _head(dtype: int, shape: tuple[int, ...]) -> bytes:
    count = math.prod(shape)
    name = "floatData" if dtype == Dtype.FLOAT else "doubleData"
    whole: bytes = BoxDataContainer(dtype=dtype, shape=shape, **{name: [0.0] * count}).SerializeToString()
    return whole[: len(whole) - count * WIRE[dtype].itemsize]
