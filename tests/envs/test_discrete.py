# SPDX-License-Identifier: GPL-2.0-only
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

import bbrgym
from bbrgym.envs.discrete import MAX_COMBINATIONS, DiscreteLevels


@st.composite
def grids(draw, most=40):
    """A grid's counts, and which tunables have ends."""
    size = draw(st.integers(1, 5))
    counts = draw(st.lists(st.integers(2, most), min_size=size, max_size=size))
    has_ends = draw(st.lists(st.booleans(), min_size=size, max_size=size))
    return np.array(counts), np.array(has_ends)


def every_level(count, has_ends):
    grid = DiscreteLevels(np.array([count]), np.array([has_ends]))
    return grid, np.arange(count)[:, None]


@pytest.mark.parametrize("count", [2, 3, 7, 10, 64])
def test_with_ends_levels_are_even_from_end_to_end(count):
    grid, levels = every_level(count, has_ends=True)
    normalised = grid.normalised(levels)[:, 0]
    assert (normalised[0], normalised[-1]) == (-1.0, 1.0)
    assert np.diff(normalised) == pytest.approx(2.0 / (count - 1))
    assert count % 2 == 0 or normalised[count // 2] == 0.0


@pytest.mark.parametrize("count", [2, 3, 7, 10, 64])
def test_without_ends_levels_are_middles_of_equal_parts(count):
    grid, levels = every_level(count, has_ends=False)
    edges = np.linspace(-1, 1, count + 1)
    assert grid.normalised(levels)[:, 0] == pytest.approx((edges[:-1] + edges[1:]) / 2)


@given(grids(), st.data())
def test_no_other_level_is_nearer(counts_and_ends, data):
    grid = DiscreteLevels(*counts_and_ends)
    counts = counts_and_ends[0]
    wanted = np.array(data.draw(st.lists(st.floats(-1, 1), min_size=len(counts), max_size=len(counts))))
    found = grid.nearest(wanted)
    assert grid.space.contains(found)
    for i, count in enumerate(counts):
        others = np.tile(found, (count, 1))
        others[:, i] = np.arange(count)
        distances = np.abs(grid.normalised(others)[:, i] - wanted[i])
        assert distances[found[i]] <= distances.min() + 1e-12


@given(grids(most=5), st.integers(0, 2**32))
def test_a_flat_number_stands_for_one_combination(counts_and_ends, seed):
    counts, has_ends = counts_and_ends
    flat, grid = DiscreteLevels(counts, has_ends, flat=True), DiscreteLevels(counts, has_ends)
    assert flat.space == spaces.Discrete(int(np.prod(counts)))
    every = np.arange(flat.space.n)
    normalised = flat.normalised(every)
    assert len({row.tobytes() for row in normalised}) == flat.space.n
    assert (flat.nearest(normalised) == every).all()
    levels = np.random.default_rng(seed).integers(0, counts)
    number = flat.nearest(grid.normalised(levels))
    assert flat.normalised(number).tobytes() == grid.normalised(levels).tobytes()


def test_the_last_ones_level_changes_fastest():
    flat = DiscreteLevels(np.array([2, 3]), np.array([True, True]), flat=True)
    assert flat.normalised(np.arange(6)).tolist() == [[-1, -1], [-1, 0], [-1, 1], [1, -1], [1, 0], [1, 1]]


def test_what_there_is_most_of():
    with pytest.raises(
        bbrgym.ConfigError,
        match="flat: 17 x 17 x 17 levels make 4913 combinations, allowed are 4096: choose fewer tunables or levels",
    ):
        DiscreteLevels(np.full(3, 17), np.full(3, True), flat=True)
    assert DiscreteLevels(np.full(3, 16), np.full(3, True), flat=True).space.n == MAX_COMBINATIONS


@pytest.mark.parametrize("levels", [[0], [0, 3], [-1, 0], [0.0, 1.0], [[0, 0, 0]], 0, [True, False], ["0", "1"]])
def test_what_are_no_levels(levels):
    with pytest.raises(bbrgym.ConfigError, match=r"allowed are 2 whole numbers from 0, below \[2, 3\]"):
        DiscreteLevels(np.array([2, 3]), np.array([True, True])).check(np.array(levels))


@pytest.mark.parametrize("number", [-1, 6, 0.5, True])
def test_what_is_no_flat_number(number):
    with pytest.raises(bbrgym.ConfigError, match="allowed are whole numbers from 0 to 5"):
        DiscreteLevels(np.array([2, 3]), np.array([True, True]), flat=True).check(np.array(number))
