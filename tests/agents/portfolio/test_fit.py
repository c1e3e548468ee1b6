# SPDX-License-Identifier: GPL-2.0-only
"""The fit and its cross-validation, and the greedy library of settings that it is of."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bbrgym.agents.portfolio.cross_validation import confusion, cross_validate
from bbrgym.agents.portfolio.examples import Examples, joined
from bbrgym.agents.portfolio.fit import FitSettings, fitted
from bbrgym.agents.portfolio.library import children, coverage, greedy
from bbrgym.agents.portfolio.selector import choices

FIT = FitSettings(networks=2, folds=3)


def examples(draws=240, *, noise=0.3, seed=1):
    """Draws whose best setting is the sign of their first feature; the others say nothing."""
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(draws, 4))
    scores = np.stack([features[:, 0], -features[:, 0], np.full(draws, -3.0)], axis=1)
    scores += generator.normal(scale=noise, size=scores.shape)
    return Examples(torch.from_numpy(features).float(), scores, generator.uniform(1.0, 3.0, draws), np.arange(draws))


def test_it_learns_what_decides():
    known, new = examples(), examples(seed=2)
    chosen = choices(fitted(known, FIT, 1), new.features)
    clear = np.abs(new.features[:, 0].numpy()) > 0.3
    assert (chosen == (new.features[:, 0].numpy() < 0))[clear].mean() > 0.95


def test_a_margin_is_in_favour_of_the_first_setting_alone():
    known, new = examples(), examples(seed=2)
    plain, favoured = (fitted(known, FIT.model_copy(update={"margin": m}), 1)(new.features).numpy() for m in (0.0, 0.4))
    assert favoured - plain == pytest.approx(np.tile([0.4, 0.0, 0.0], (len(plain), 1)), abs=1e-6)


def test_cross_validation_knows_the_gain_and_what_it_rests_on():
    known = examples()
    validated = cross_validate(known, FIT, 1)
    assert validated.fixed_score < 0.2 < 0.5 < validated.score < validated.best_score
    assert validated.importance.argmax() == 0
    assert np.abs(validated.importance[1:]).max() < 0.1 * validated.importance[0]
    table = confusion(known, validated.choices)
    assert (len(table), table["share"].sum()) == (9, pytest.approx(1.0))
    assert table.filter(table["best"] == table["chosen"])["share"].sum() > 0.8


def test_noise_is_not_taken_for_knowledge():
    """What is chosen where features say nothing is worth what any setting is worth, however well it fits."""
    known = examples(noise=0.0)
    scores = np.random.default_rng(5).normal(size=known.scores.shape)
    validated = cross_validate(replace(known, scores=scores), FIT, 1)
    assert abs(validated.score) < 0.25
    assert validated.best_score > 0.6


def test_the_same_seed_gives_the_same_selector_and_leaves_the_callers_generator_alone():
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    one = fitted(examples(), FIT, 1).state_dict()
    assert torch.equal(torch.rand(3), expected)
    two, other = fitted(examples(), FIT, 1).state_dict(), fitted(examples(), FIT, 2).state_dict()
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert not all(one[name].equal(other[name]) for name in one)


def test_joined_examples_keep_their_draws_apart():
    parts = [replace(examples(6), draws=np.array([0, 0, 1, 1, 2, 2])), examples(3, seed=2)]
    both = joined(parts)
    assert both.draws.tolist() == [0, 0, 1, 1, 2, 2, 3, 4, 5]
    assert both.scores[6:].tolist() == parts[1].scores.tolist()
    assert both.features[:6].equal(parts[0].features)
    assert both.gains_over(np.zeros(9, np.intp), np.zeros(9, np.intp)).tolist() == [0.0] * 9


# ---- greedy libraries and candidates ------------------------------------------------------------------


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
