# SPDX-License-Identifier: GPL-2.0-only
"""Reward of an interval: the weighted sum of named terms (`bbrgym.envs.terms`).

The presets in conf/reward/ are such sums. `proportional`, the default, is the score of evaluations, interval by
interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias

import numpy as np

from bbrgym.envs.terms import TERMS, TermInputs, alpha_fair
from bbrgym.errors import ConfigError, nearest
from bbrgym.schema import is_number, plain, shown
from bbrgym.targets import shipped
from bbrgym.worlds import Table

RewardSource: TypeAlias = str | Mapping[str, float]
"""Name of a preset; or weights by term, and optionally `alpha`. A term of weight 0 is shown but not rewarded."""

ALPHA = "alpha"
"""Parameter beside the weights: that of alpha_fair, at least 0. Default: 1."""

_SEE = "docs/environments.md"


class Reward:
    """Weighted sum of reward terms.

    Raises:
        ConfigError: there is no such preset or term, or a weight is not a finite number.
    """

    def __init__(self, source: RewardSource = "proportional") -> None:
        given = dict(shipped("reward", source)) if isinstance(source, str) else _weights(plain(source))
        for name, number in given.items():
            if name not in (*TERMS, ALPHA):
                raise ConfigError(f"reward: {name!r}: {nearest(str(name), (*TERMS, ALPHA), _SEE)}")
            if not is_number(number) or not math.isfinite(number):
                raise ConfigError(f"reward.{name}: {shown(number)}, allowed is a finite number")
        self.alpha = float(given.pop(ALPHA, 1.0))  # parameter of alpha_fair
        if self.alpha < 0.0:
            raise ConfigError(f"reward.{ALPHA}: {self.alpha}, allowed are numbers from 0")
        if not given:
            raise ConfigError(f"reward: {shown(source)}, allowed are weights of one term at least")
        # weights by term, in the order of the table of terms
        self.weights = {name: float(given[name]) for name in TERMS if name in given}
        compute = {name: term.compute for name, term in TERMS.items()} | {
            "alpha_fair": partial(alpha_fair, alpha=self.alpha)
        }
        self._compute: dict[str, Callable[[TermInputs], Table]] = {name: compute[name] for name in self.weights}

    def terms(self, inputs: TermInputs) -> dict[str, Table]:
        """Return the terms that have a weight, also those of weight 0: [N] each."""
        return {name: compute(inputs) for name, compute in self._compute.items()}

    def total(self, terms: Mapping[str, Table]) -> Table:
        """Return the weighted sum of terms, [N]."""
        total = np.zeros(len(next(iter(terms.values()))))
        for name, values in terms.items():
            if self.weights[name]:
                total += self.weights[name] * values
        return total


def _weights(source: object) -> dict[str, float]:
    if not isinstance(source, Mapping):
        raise ConfigError(f"reward: {shown(source)}, allowed is a preset's name or weights by term")
    return dict(source)
