# SPDX-License-Identifier: GPL-2.0-only
"""Stage `fit`: a selector of the model that the settings name, and the ones of a cross-validation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bbrgym.agents.portfolio.network_selector import NetworkSelector, fitted_networks
from bbrgym.agents.portfolio.selector import Examples, FitSettings, Selector
from bbrgym.agents.portfolio.tree_selector import TreeSelector, check_trees, fitted_trees
from bbrgym.worlds import Flags


def fitted(examples: Examples, fit: FitSettings, seed: int) -> Selector:
    """Fit a selector to clipped scores.

    Args:
        examples: draws to fit on.
        fit: settings.
        seed: of all that is drawn.

    Raises:
        MissingExtraError: a package that the model needs is not installed.
    """
    fit_model = fitted_trees if fit.model == "trees" else fitted_networks
    return fit_model(examples, fit, seed).eval()


def check_fit(fit: FitSettings) -> None:
    """Check that a selector can be fitted, before anything is simulated for it.

    Raises:
        MissingExtraError: a package that the model needs is not installed.
    """
    if fit.model == "trees":
        check_trees()


def restored(state: Mapping[str, Tensor], features: int, settings: int, fit: FitSettings) -> Selector:
    """Return the selector of a state dictionary.

    Args:
        state: of the selector.
        features: their number.
        settings: number of settings that it chooses from.
        fit: settings of its fit.
    """
    if fit.model == "trees":
        return TreeSelector(state).eval()
    selector = NetworkSelector(features, settings, fit)
    selector.load_state_dict(state)
    return selector.eval()


def held_out(examples: Examples, fit: FitSettings, seed: int) -> Iterator[tuple[Flags, Selector]]:
    """Yield, for each fold, the probes in it and a selector fitted on all others."""
    folds = examples.folds(fit.folds, seed)
    for fold in range(folds.max() + 1):
        is_held_out = folds == fold
        yield is_held_out, fitted(examples.of(~is_held_out), fit, seed)


def held_out_choices(examples: Examples, fit: FitSettings, seed: int) -> NDArray[np.intp]:
    """Return the setting chosen after each probe by the selector that was fitted without its draw, [probes]."""
    choices = np.zeros(len(examples), np.intp)
    for is_held_out, selector in held_out(examples, fit, seed):
        choices[is_held_out] = selector.choices(examples.features[torch.from_numpy(is_held_out)])
    return choices
