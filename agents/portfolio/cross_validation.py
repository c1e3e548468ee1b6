# SPDX-License-Identifier: GPL-2.0-only
"""Measures of a selector on draws that it was not fitted on, by cross-validation over the training draws."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
import torch

from bbrgym.agents.portfolio.examples import Examples, FitSettings
from bbrgym.agents.portfolio.fit import held_out
from bbrgym.agents.portfolio.tree_selector import TreeSelector
from bbrgym.worlds import Table

Indices = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class CrossValidation:
    """Outcome of the cross-validation."""

    choices: Indices  # setting chosen for each draw by the selector that was fitted without it, [draws]
    score: float  # mean score of these choices
    fixed_score: float  # mean score of the one setting that is best on the other folds
    best_score: float  # mean score of each draw's best setting, of the same runs: an upper bound that nobody reaches
    gains: Table  # score of the choice minus that of the fixed setting, [draws]
    importance: Table  # loss of mean score where a feature is shuffled among the held-out draws, [features]


def cross_validate(examples: Examples, fit: FitSettings, seed: int) -> CrossValidation:
    """Fit on all folds but one, and choose for the draws of that one; each in turn."""
    every = np.arange(len(examples))
    choices, fixed = np.zeros(len(examples), np.intp), np.zeros(len(examples), np.intp)
    losses = np.zeros((len(examples), examples.features.shape[1]))
    for is_held_out, selector in held_out(examples, fit, seed):
        others = examples.of(~is_held_out)
        own = examples.of(is_held_out)
        fixed[is_held_out] = int((others.weights @ others.scores).argmax())
        choices[is_held_out] = selector.choices(own.features)
        losses[is_held_out] = _losses(selector, own, choices[is_held_out], seed)
    weights = examples.weights / examples.weights.sum()
    chosen, constant = examples.scores[every, choices], examples.scores[every, fixed]
    return CrossValidation(
        choices,
        float(weights @ chosen),
        float(weights @ constant),
        float(weights @ examples.scores.max(axis=1)),
        chosen - constant,
        weights @ losses,
    )


def _losses(selector: TreeSelector, own: Examples, choices: Indices, seed: int) -> Table:
    """Return what each draw loses if a feature has another draw's value: [draws, features]."""
    draws = np.arange(len(own))
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(own)))
    before = own.scores[draws, choices]
    losses = np.zeros((len(own), own.features.shape[1]))
    for place in range(own.features.shape[1]):
        shuffled = own.features.clone()
        shuffled[:, place] = own.features[order, place]
        losses[:, place] = before - own.scores[draws, selector.choices(shuffled)]
    return losses


def confusion(examples: Examples, choices: Indices) -> pl.DataFrame:
    """Return a row per pair of settings: the weighted share of the draws whose best is one and that got the other."""
    size = examples.scores.shape[1]
    shares = np.zeros((size, size))
    np.add.at(shares, (examples.scores.argmax(axis=1), choices), examples.weights / examples.weights.sum())
    best, chosen = np.indices(shares.shape)
    return pl.DataFrame({"best": best.ravel(), "chosen": chosen.ravel(), "share": shares.ravel()})
