# SPDX-License-Identifier: GPL-2.0-only
"""Trees in integers lead each input to the same leaves, and sum these as the selector averages them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from compiled_policies import CompiledPolicy, Controller
from policies import portfolio_of, random_trees

from bbrgym.agents.deploy.fixed_point import Q20, Integers
from bbrgym.agents.deploy.integer_policy import IntegerTrees
from bbrgym.agents.deploy.quantise_portfolio import quantise_trees
from bbrgym.agents.deploy.trace_program import traced
from bbrgym.agents.portfolio.tree_selector import TreeSelector

FEATURES, SETTINGS = 6, 4


def made(seed: int) -> TreeSelector:
    return random_trees(FEATURES, SETTINGS, torch.Generator().manual_seed(seed))


def outputs(trees: IntegerTrees, history: Integers, folder: Path, factor: float = 1.0) -> Integers:
    """Sums of the trees, [N, settings], of the history times a factor, [N, features], by the C of a portfolio."""
    program = traced(lambda history: history * factor, torch.rand(1, FEATURES), np.array(True))
    controller = Controller(CompiledPolicy(portfolio_of(program, trees), folder))
    found = []
    for row in history:
        controller["history"][:] = row
        controller.call("run_program")
        controller.call("sum_trees")
        found.append(controller["layers"][:SETTINGS].copy())
    return np.array(found)


@pytest.mark.parametrize("seed", range(3))
def test_no_comparison_differs_for_what_is_a_whole_number_of_steps(seed: int, tmp_path: Path) -> None:
    selector = made(seed)
    generator = np.random.default_rng(seed)
    selector.threshold[::2] = (selector.threshold[::2] * 16).floor() / 16  # which inputs meet exactly
    inputs = np.concatenate(
        [
            generator.integers(-3 * Q20, 3 * Q20, (500, FEATURES)) >> 4 << 4,  # so that float32 holds them
            generator.integers(-48, 48, (500, FEATURES)) * (Q20 // 16),
        ]
    )
    trees = quantise_trees(selector)
    assert 2**14 <= np.abs(trees.values).max() < 2**15
    means = selector(torch.from_numpy(inputs / Q20).float()).numpy()
    found = outputs(trees, inputs, tmp_path) / len(trees.roots)
    scale = 2.0 ** round(np.log2(np.abs(found).max() / np.abs(means).max()))
    np.testing.assert_allclose(found / scale, means, atol=0.51 / scale, rtol=0)


def test_thresholds_beyond_all_numbers_are_never_reached(tmp_path: Path) -> None:
    selector, largest, found = made(5), np.full((1, FEATURES), 2**31 - 1), []
    for sign in (1, -1):
        selector.threshold[:] = sign * 1e9
        (tmp_path / str(sign)).mkdir()
        found.append(outputs(quantise_trees(selector), sign * largest, tmp_path / str(sign), 1e6))
    assert (found[0] != found[1]).any(), "all to the left, then all to the right"
