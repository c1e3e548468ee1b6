# SPDX-License-Identifier: GPL-2.0-only
"""The parts that the C++ worlds share, by their laws and against brute force (laws.cc)."""

import compilers
import pytest


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))])
def test_laws(seed: int) -> None:
    compilers.run_program("world_laws", seed)
