# SPDX-License-Identifier: GPL-2.0-only
"""The fit and its cross-validation."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from bbrgym.agents.portfolio.cross_validation import confusion, cross_validate
from bbrgym.agents.portfolio.examples import Examples, joined
from bbrgym.agents.portfolio.fit import FitSettings, fitted
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
