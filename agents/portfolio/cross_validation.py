# SPDX-License-Identifier: GPL-2.0-only
"""Worth of a fit on held-out draws."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
import torch

from bbrgym.agents.portfolio.examples import Examples, Indices
from bbrgym.agents.portfolio.fit import FitSettings, fitted
from bbrgym.agents.portfolio.selector import Selector, choices
from bbrgym.worlds import Table


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
