# SPDX-License-Identifier: GPL-2.0-only
"""Children of a library's settings, and the candidates that they join."""

import numpy as np

from bbrgym.agents.portfolio.refine import Candidates, children


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


def test_a_library_becomes_better_by_its_children():
    """Settings of two numbers: each draw wants one of four, and the first of a library is that which is best alone."""
    generator = np.random.default_rng(1)
    wanted = generator.choice([-0.6, 0.6], (40, 2))
    weights = np.ones(40)

    def scored(settings):
        return Candidates(settings, -np.abs(wanted[:, None] - settings).sum(axis=2), weights)

    known = scored(generator.uniform(-1, 1, (6, 2)).astype(np.float32))
    means = []
    for _ in range(60):
        library = known.best(5)
        means.append(library.scores.max(axis=1).mean())
        known = known.beside(scored(children(library.settings, generator)))
    assert means[-1] > means[0] / 3
    assert len(known.settings) == 6 + 60 * 5
