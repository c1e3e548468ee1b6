# SPDX-License-Identifier: GPL-2.0-only
"""Trees in integers lead each input to the same leaves, and sum these as the selector averages them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from policies import random_trees

from bbrgym.agents.deploy.quantise_trees import quantise_trees
from bbrgym.agents.portfolio.tree_selector import TreeSelector
from bbrgym.agents.deploy.scalar_program import ONE

FEATURES, SETTINGS = 6, 5


def made(seed: int) -> TreeSelector:
    return random_trees(FEATURES, SETTINGS, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("seed", range(3))
def test_no_comparison_differs_for_what_is_a_whole_number_of_steps(seed: int) -> None:
    selector = made(seed)
    generator = np.random.default_rng(seed)
    selector.threshold[::2] = (selector.threshold[::2] * 16).floor() / 16  # which inputs meet exactly
    inputs = np.concatenate(
        [
            generator.integers(-3 * ONE, 3 * ONE, (500, FEATURES)) >> 4 << 4,  # so that float32 holds them
            generator.integers(-48, 48, (500, FEATURES)) * (ONE // 16),
        ]
    )
    trees = quantise_trees(selector)
    assert 2**14 <= np.abs(trees.values).max() < 2**15
    means = selector(torch.from_numpy(inputs / ONE).float()).numpy()
    found = trees.outputs(inputs) / len(trees.roots)
    scale = 2.0 ** round(np.log2(np.abs(found).max() / np.abs(means).max()))
    np.testing.assert_allclose(found / scale, means, atol=0.51 / scale, rtol=0)


def test_each_node_is_kept_once_and_leads_on() -> None:
    selector = made(4)
    trees = quantise_trees(selector)
    inner, leaves = np.flatnonzero(trees.features >= 0), np.flatnonzero(trees.features < 0)
    assert len(inner) + len(trees.roots) == len(leaves) == len(trees.values)
    assert (trees.others[inner] > inner + 1).all()
    assert sorted(trees.others[leaves]) == list(range(len(leaves)))
    assert sorted([*inner + 1, *trees.others[inner], *trees.roots]) == list(range(len(trees.features)))
    assert trees.depth == 5


def test_thresholds_beyond_all_numbers_are_never_reached() -> None:
    selector = made(5)
    selector.threshold[:] = 1e9
    inputs = np.full((1, FEATURES), 1 << 41)
    left = quantise_trees(selector).outputs(inputs)
    selector.threshold[:] = -1e9
    assert (quantise_trees(selector).outputs(-inputs) != left).any()
