# SPDX-License-Identifier: GPL-2.0-only
"""Send buffer and receive window against what must hold of them at all times (buffer_laws.cc)."""

import pytest


@pytest.mark.parametrize("seed", range(1, 5))
def test_laws(run_program, seed: int) -> None:
    assert run_program("buffer_laws", seed, 100) == "100 steps\n"
