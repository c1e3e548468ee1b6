# SPDX-License-Identifier: GPL-2.0-only
"""Stage `fit`: a selector of trees, which scikit-learn grows, and the ones of a cross-validation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bbrgym.agents.portfolio.examples import Examples, FitSettings
from bbrgym.agents.portfolio.tree_selector import TreeSelector
from bbrgym.errors import MissingExtraError
from bbrgym.worlds import Flags


def fitted(examples: Examples, fit: FitSettings, seed: int) -> TreeSelector:
    """Grow extremely randomised trees (Geurts, Ernst and Wehenkel, 2006) on clipped scores.

    Args:
        examples: draws to fit on.
        fit: settings.
        seed: of all that is drawn.

    Raises:
        MissingExtraError: scikit-learn is not installed.
    """
    forest = _forest_class()(
        fit.trees, min_samples_leaf=fit.leaf_draws, max_features=fit.split_share, random_state=seed % 2**32
    )
    forest.fit(examples.features.numpy(), examples.targets(fit.clip), sample_weight=examples.weights)
    grown = [tree.tree_ for tree in forest.estimators_]
    nodes = max(tree.node_count for tree in grown)
    value = np.zeros((len(grown), nodes, examples.scores.shape[1]), np.float32)
    feature, threshold = np.zeros((len(grown), nodes), np.int64), np.zeros((len(grown), nodes))
    left, right = (np.tile(np.arange(nodes), (len(grown), 1)) for _ in range(2))
    for number, tree in enumerate(grown):
        leads_on = np.flatnonzero(tree.children_left >= 0)
        feature[number, leads_on] = tree.feature[leads_on]
        threshold[number, leads_on] = tree.threshold[leads_on]
        left[number, leads_on], right[number, leads_on] = tree.children_left[leads_on], tree.children_right[leads_on]
        value[number, : tree.node_count] = tree.value[:, :, 0]
    tables = {"feature": feature, "threshold": threshold, "left": left, "right": right, "value": value}
    return TreeSelector({name: torch.from_numpy(table) for name, table in tables.items()}).eval()


def check_fit() -> None:
    """Check that a selector can be fitted, before anything is simulated for it.

    Raises:
        MissingExtraError: scikit-learn is not installed.
    """
    _forest_class()


def _forest_class() -> Any:
    try:
        from sklearn.ensemble import ExtraTreesRegressor  # takes a second to import, and only this fit needs it
    except ModuleNotFoundError as error:
        raise MissingExtraError("agent=portfolio", "trees", error) from error
    return ExtraTreesRegressor


def held_out(examples: Examples, fit: FitSettings, seed: int) -> Iterator[tuple[Flags, TreeSelector]]:
    """Yield, for each fold, the draws in it and a selector fitted on all others."""
    folds = examples.folds(fit.folds, seed)
    for fold in range(folds.max() + 1):
        is_held_out = folds == fold
        yield is_held_out, fitted(examples.of(~is_held_out), fit, seed)


def held_out_choices(examples: Examples, fit: FitSettings, seed: int) -> NDArray[np.intp]:
    """Return the setting chosen for each draw by the selector that was fitted without it, [draws]."""
    choices = np.zeros(len(examples), np.intp)
    for is_held_out, selector in held_out(examples, fit, seed):
        choices[is_held_out] = selector.choices(examples.features[torch.from_numpy(is_held_out)])
    return choices
