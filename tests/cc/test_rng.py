# SPDX-License-Identifier: GPL-2.0-only
"""Named random streams: the same for the same seed and name, independent and uniform otherwise."""

from collections import Counter

import pytest

from bbrgym import _cc

PINNED = [705, 655, 152, 365, 293, 156]


def test_streams_depend_on_seed_and_name_only() -> None:
    assert _cc.stream_seed(1, "link.loss") == _cc.stream_seed(1, "link.loss")
    seeds = {_cc.stream_seed(seed, name) for seed in range(100) for name in ("link.loss", "flow.a", "flow.b")}
    assert len(seeds) == 300


def test_streams_are_pinned() -> None:
    """Recorded once: a change here changes every result."""
    assert _cc.random_below(_cc.stream_seed(1, "link.loss"), 1000, 6) == PINNED


@pytest.mark.parametrize("n", [2, 7, 11])
def test_draws_are_uniform(n: int) -> None:
    count = Counter(_cc.random_below(_cc.stream_seed(3, "test"), n, 20_000))
    expected = 20_000 / n
    chi_square = sum((count[i] - expected) ** 2 / expected for i in range(n))
    assert set(count) == set(range(n))
    assert chi_square < {2: 10.83, 7: 22.46, 11: 29.59}[n], "p = 0.001"
