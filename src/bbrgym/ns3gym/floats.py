# SPDX-License-Identifier: GPL-2.0-only
"""The bytes of a BoxDataContainer of floats, made from an array and read into one without a Python number in between.

protobuf writes floats as they lie in memory on most machines, little-endian, and here they are the last field. So all
values of a space have the same bytes before their numbers.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bbrgym.ns3gym.messages import BoxDataContainer, Dtype

#: How the numbers of a Dtype lie in a message.
WIRE: dict[int, np.dtype[Any]] = {int(Dtype.FLOAT): np.dtype("<f4"), int(Dtype.DOUBLE): np.dtype("<f8")}


def encode(dtype: int, numbers: NDArray[Any]) -> bytes:
    """What `BoxDataContainer.SerializeToString` gives for a FLOAT or DOUBLE of these numbers and their shape."""
    return _head(dtype, numbers.shape) + numbers.astype(WIRE[dtype], copy=False).tobytes()


def decode(dtype: int, shape: tuple[int, ...], data: bytes) -> NDArray[Any] | None:
    """The numbers in what `encode` wrote for a Dtype and a shape; None for any other bytes."""
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
