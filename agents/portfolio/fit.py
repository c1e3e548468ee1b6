# SPDX-License-Identifier: GPL-2.0-only
"""Stage `fit`: a selector of networks, or of trees, and its worth on draws that it was not fitted on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import polars as pl
import torch
from pydantic import Field

from bbrgym.agents.portfolio.examples import Examples, Indices
from bbrgym.agents.portfolio.fit_networks import fitted_networks
from bbrgym.agents.portfolio.selectors import Selector, choices
from bbrgym.agents.portfolio.tree_selector import TreeSelector
from bbrgym.errors import MissingExtraError
from bbrgym.schema import Float, Model, NotNegative, Positive, Whole
from bbrgym.worlds import Table


class FitSettings(Model):
    """Settings of the fit."""

    networks: Annotated[Whole, Field(ge=0, le=100)] = 0  # networks, whose predictions are averaged; 0: trees
    trees: Annotated[Whole, Field(ge=1, le=10_000)] = 80  # trees, whose predictions are averaged
    leaf_draws: Annotated[Whole, Field(ge=1, le=1_000_000)] = 2  # least number of draws in a leaf of a tree
    # share of the features that each split of a tree chooses from
    split_share: Annotated[Float, Field(gt=0, le=1)] = 1.0
    clip: Positive = 2.0  # largest distance of a score from the mean over the library that counts
    # what the library's first setting has besides its predicted score: flows that choose by themselves and do not agree
    # lose, so another setting must promise more
    margin: NotNegative = 0.0
    folds: Annotated[Whole, Field(ge=2, le=100)] = 5  # parts of the draws in the cross-validation


# ---- the fit ------------------------------------------------------------------------------------------


def fitted(examples: Examples, fit: FitSettings, seed: int) -> Selector:
    """Return a selector that predicts clipped scores.

    Raises:
        MissingExtraError: it is one of trees, and scikit-learn is not installed.
    """
    if fit.networks:
        return fitted_networks(examples, fit.networks, fit.clip, fit.margin, seed)
    return _grown(examples, fit, seed)


def _grown(examples: Examples, fit: FitSettings, seed: int) -> TreeSelector:
    """Grow extremely randomised trees (Geurts, Ernst and Wehenkel, 2006) on clipped scores.

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
    value[..., 0] += fit.margin
    tables = {"feature": feature, "threshold": threshold, "left": left, "right": right, "value": value}
    return TreeSelector({name: torch.from_numpy(table) for name, table in tables.items()}).eval()


def check_fit(fit: FitSettings) -> None:
    """Raise MissingExtraError if scikit-learn is needed and missing, before anything is simulated for a fit."""
    if not fit.networks:
        _forest_class()


def _forest_class() -> Any:
    try:
        from sklearn.ensemble import ExtraTreesRegressor  # takes a second to import, and only this fit needs it
    except ModuleNotFoundError as error:
        raise MissingExtraError("agent=portfolio", "trees", error) from error
    return ExtraTreesRegressor


# ---- cross-validation over the training draws -----------------------------------------------------------


@dataclass(frozen=True, eq=False)
class CrossValidation:
    """Outcome of the cross-validation."""

    choices: Indices  # setting chosen for each draw by the selector that was fitted without it, [draws]
    score: float  # mean score of these choices
    fixed_score: float  # mean score of the one setting that is best on the other folds
    best_score: float  # mean score of each draw's best setting, of the same runs: an upper bound that nobody reaches
    importance: Table  # loss of mean score where a feature is shuffled among the held-out draws, [features]


def cross_validate(examples: Examples, fit: FitSettings, seed: int) -> CrossValidation:
    """Fit on all folds but one, and choose for the draws of that one; each in turn."""
    every = np.arange(len(examples))
    chosen, fixed = np.zeros(len(examples), np.intp), np.zeros(len(examples), np.intp)
    losses = np.zeros((len(examples), examples.features.shape[1]))
    folds = examples.folds(fit.folds, seed)
    for fold in range(folds.max() + 1):
        is_held_out = folds == fold
        others, own = examples.of(~is_held_out), examples.of(is_held_out)
        selector = fitted(others, fit, seed)
        fixed[is_held_out] = int((others.weights @ others.scores).argmax())
        chosen[is_held_out] = choices(selector, own.features)
        losses[is_held_out] = _losses(selector, own, chosen[is_held_out], seed)
    weights = examples.weights / examples.weights.sum()
    return CrossValidation(
        chosen,
        float(weights @ examples.scores[every, chosen]),
        float(weights @ examples.scores[every, fixed]),
        float(weights @ examples.scores.max(axis=1)),
        weights @ losses,
    )


def _losses(selector: Selector, own: Examples, chosen: Indices, seed: int) -> Table:
    """Return what each draw loses if a feature has another draw's value: [draws, features]."""
    draws = np.arange(len(own))
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(own)))
    before = own.scores[draws, chosen]
    losses = np.zeros((len(own), own.features.shape[1]))
    for place in range(own.features.shape[1]):
        shuffled = own.features.clone()
        shuffled[:, place] = own.features[order, place]
        losses[:, place] = before - own.scores[draws, choices(selector, shuffled)]
    return losses


def confusion(examples: Examples, chosen: Indices) -> pl.DataFrame:
    """Return a row per pair of settings: the weighted share of the draws whose best is one and that got the other."""
    size = examples.scores.shape[1]
    shares = np.zeros((size, size))
    np.add.at(shares, (examples.scores.argmax(axis=1), chosen), examples.weights / examples.weights.sum())
    best, got = np.indices(shares.shape)
    return pl.DataFrame({"best": best.ravel(), "chosen": got.ravel(), "share": shares.ravel()})
