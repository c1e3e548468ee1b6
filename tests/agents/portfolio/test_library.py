# SPDX-License-Identifier: GPL-2.0-only
"""Greedy libraries, children of their settings, and the candidates that these join."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bbrgym.agents.portfolio.library import children, coverage, greedy

SEEDS = st.integers(0, 2**32 - 1)


def drawn(seed, draws=20, candidates=9):
    generator = np.random.default_rng(seed)
    return generator.normal(size=(draws, candidates)), generator.uniform(1.0, 5.0, draws)


@given(SEEDS)
def test_coverage_never_falls_with_the_size(seed):
    scores, weights = drawn(seed)
    covered = coverage(scores[:, greedy(scores, weights, 9)], weights)
    assert (np.diff(covered) >= 0.0).all()
    assert covered[-1] == pytest.approx(np.average(scores.max(axis=1), weights=weights))


@given(SEEDS, st.integers(1, 9))
def test_a_smaller_library_is_the_beginning_of_a_larger_one(seed, size):
    scores, weights = drawn(seed)
    assert greedy(scores, weights, size).tolist() == greedy(scores, weights, 9)[:size].tolist()


@given(SEEDS)
def test_the_first_setting_is_the_best_one_alone(seed):
    scores, weights = drawn(seed)
    means = np.average(scores, axis=0, weights=weights)
    assert greedy(scores, weights, 1)[0] == means.argmax()
    assert coverage(scores[:, [means.argmax()]], weights)[0] == pytest.approx(means.max())


@given(SEEDS)
def test_no_setting_is_in_a_library_twice(seed):
    scores, weights = drawn(seed)
    assert sorted(greedy(np.repeat(scores[:, :1], 9, axis=1), weights, 9)) == list(range(9))
    assert len(greedy(scores, weights, 50)) == 9


def test_each_kind_of_network_gets_its_setting():
    scores = np.array([[1.0, 0.0, 0.9], [1.0, 0.0, 0.9], [-3.0, 1.0, 0.9]])
    assert greedy(scores, np.ones(3), 3).tolist() == [2, 0, 1]
    assert greedy(scores, np.array([1.0, 1.0, 0.01]), 2).tolist() == [0, 1]


def test_a_child_is_near_its_parents_and_none_of_them():
    library = np.random.default_rng(1).uniform(-0.5, 0.5, (6, 400)).astype(np.float32)
    born = children(library, np.random.default_rng(2))
    assert born.shape == library.shape
    assert born.dtype == np.float32
    assert np.abs(born).max() <= 1.0
    kept = (born == library).mean(axis=1)
    assert (kept > 0.4).all()
    assert (kept < 0.9).all()
    assert np.array_equal(born, children(library, np.random.default_rng(2)))


def test_a_child_of_one_setting_alone_has_all_from_it_but_its_steps():
    library = np.zeros((1, 400), np.float32)
    changed = children(library, np.random.default_rng(1)) != 0
    assert 0.15 < changed.mean() < 0.35
