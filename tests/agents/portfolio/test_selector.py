# SPDX-License-Identifier: GPL-2.0-only
"""The fit and its cross-validation."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from bbrgym.agents.portfolio.cross_validation import confusion, cross_validate
from bbrgym.agents.portfolio.fit import fitted, restored
from bbrgym.agents.portfolio.selector import Examples, FitSettings

FIT = FitSettings(hidden=(16,), members=2, epochs=30, batch_size=32, folds=3)
TREES = FitSettings(model="trees", trees=20, leaf_draws=3, split_share=0.5, folds=3)


@pytest.fixture(params=[FIT, TREES], ids=lambda fit: fit.model)
def fit(request):
    if request.param.model == "trees":
        pytest.importorskip("sklearn", reason="NO SCIKIT-LEARN: agent.fit.model=trees; pip install '.[trees]'")
    return request.param


def examples(draws=240, *, noise=0.3, seed=1):
    """Draws whose best setting is the sign of their first feature; the others say nothing."""
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(draws, 4))
    scores = np.stack([features[:, 0], -features[:, 0], np.full(draws, -3.0)], axis=1)
    scores += generator.normal(scale=noise, size=scores.shape)
    return Examples(torch.from_numpy(features).float(), scores, generator.uniform(1.0, 3.0, draws), np.arange(draws))


def test_it_learns_what_decides(fit):
    known, new = examples(), examples(seed=2)
    chosen = fitted(known, fit, 1).choices(new.features)
    clear = np.abs(new.features[:, 0].numpy()) > 0.3
    assert (chosen == (new.features[:, 0].numpy() < 0))[clear].mean() > 0.95


def test_cross_validation_knows_the_gain_and_what_it_rests_on(fit):
    validated = cross_validate(examples(), fit, 1)
    assert validated.fixed_score < 0.2 < 0.5 < validated.score < validated.best_score
    assert validated.importance.argmax() == 0
    assert np.abs(validated.importance[1:]).max() < 0.1 * validated.importance[0]


def test_noise_is_not_taken_for_knowledge(fit):
    """What is chosen where features say nothing is worth what any setting is worth, however well it fits."""
    known = examples(noise=0.0)
    scores = np.random.default_rng(5).normal(size=known.scores.shape)
    validated = cross_validate(replace(known, scores=scores), fit, 1)
    assert abs(validated.score) < 0.25
    assert validated.best_score > 0.6


def test_the_same_seed_gives_the_same_selector_and_leaves_the_callers_generator_alone(fit):
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    one = fitted(examples(), fit, 1).state_dict()
    assert torch.equal(torch.rand(3), expected)
    two, other = fitted(examples(), fit, 1).state_dict(), fitted(examples(), fit, 2).state_dict()
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert not all(one[name].equal(other[name]) for name in one)


def test_a_draw_is_predicted_the_same_alone_and_among_others(fit):
    selector = fitted(examples(), fit, 1)
    features = examples(seed=3).features
    together = selector.choices(features)
    assert [int(selector.choices(row[None])[0]) for row in features] == together.tolist()


def test_a_state_is_the_whole_selector(fit):
    selector, features = fitted(examples(), fit, 1), examples(seed=3).features
    with torch.no_grad():
        assert torch.equal(restored(selector.state_dict(), 4, 3, fit)(features), selector(features))


def test_trees_predict_what_scikit_learn_s_own_do():
    ensemble = pytest.importorskip("sklearn.ensemble", reason="NO SCIKIT-LEARN: pip install '.[trees]'")
    known, new = examples(), examples(seed=2)
    forest = ensemble.ExtraTreesRegressor(20, min_samples_leaf=3, max_features=0.5, random_state=1)
    forest.fit(known.features.numpy(), known.targets(TREES.clip), sample_weight=known.weights)
    expected = forest.predict(new.features.numpy())
    assert fitted(known, TREES, 1)(new.features).numpy() == pytest.approx(expected, abs=1e-6)


def test_the_confusion_is_a_distribution():
    known = examples()
    choices = cross_validate(known, FIT, 1).choices
    table = confusion(known, choices)
    assert len(table) == 9
    assert abs(table["share"].sum() - 1.0) < 1e-9
    right = table.filter(table["best"] == table["chosen"])["share"].sum()
    assert right > 0.8
