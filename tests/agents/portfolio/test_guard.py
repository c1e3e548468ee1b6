# SPDX-License-Identifier: GPL-2.0-only
"""The guard: outside is what no draw of the training was like, and the first setting is taken there."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bbrgym.agents.portfolio.guard import Guard, GuardSettings, fitted_guard, guarded
from bbrgym.agents.portfolio.network_selector import NetworkSelector
from bbrgym.agents.portfolio.policy import PortfolioNetwork
from bbrgym.agents.portfolio.probe_features import ProbeFeatures
from bbrgym.agents.portfolio.selector import Examples, FitSettings
from bbrgym.envs.observation import FEATURE_LISTS


def drawn(count: int = 1000, features: int = 20) -> torch.Tensor:
    return torch.randn(count, features, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("share", [0.01, 0.1, 0.3])
def test_so_many_of_the_training_s_draws_are_outside(share: float) -> None:
    features = drawn()
    is_outside = fitted_guard(features, GuardSettings(share=share))(features)
    assert float(is_outside.mean()) == pytest.approx(share, abs=2e-3)


def test_what_is_farther_away_is_outside_on_either_side() -> None:
    features = drawn()
    guard = fitted_guard(features, GuardSettings(share=0.02))
    assert guard(features.mean(0, keepdim=True)).tolist() == [0.0]
    for sign in (-1.0, 1.0):
        moved = [features[:50] * 0.1 + sign * far for far in (0.0, 2.0, 4.0, 8.0)]
        distances = [float(guard.distance(one).mean()) for one in moved]
        assert distances == sorted(distances)
        assert guard(moved[-1]).all()


def test_a_network_takes_the_first_setting_outside() -> None:
    features = ProbeFeatures(2, 1)
    selector = NetworkSelector(len(features.names), 3, FitSettings(hidden=(4,), members=1))
    library = np.array([[0.0], [0.25], [0.5]], np.float32)
    width = len(FEATURE_LISTS["memory"]) + 1
    history = torch.rand(40, 2, width, generator=torch.Generator().manual_seed(2))
    free = PortfolioNetwork(features, selector, library, 2, width).eval()
    guard = fitted_guard(features(history), GuardSettings(share=0.5))
    is_outside = guard(features(history)) > 0
    with torch.no_grad():
        held = PortfolioNetwork(features, selector, library, 2, width, guard).eval()(history)
        chosen = free(history)
    assert 0 < is_outside.sum() < 40
    assert (held[is_outside] == 0.0).all()
    assert (held[~is_outside] == chosen[~is_outside]).all()


def test_its_price_is_what_the_choices_outside_gain_over_the_first_setting() -> None:
    features = drawn(200)
    scores = np.random.default_rng(1).normal(size=(200, 3))
    examples = Examples(features, scores, np.ones(200), np.arange(200))
    none = guarded(examples, np.zeros(200, np.intp), 5, 1, GuardSettings(share=0.2))
    assert none.price == 0.0
    assert 0.1 < none.share < 0.5
    best = guarded(examples, scores.argmax(axis=1), 5, 1, GuardSettings(share=0.2))
    assert 0 < best.price < best.share * 3
    assert best.share == none.share


def test_without_a_fit_nothing_is_outside() -> None:
    assert not Guard(20)(drawn()).any()
