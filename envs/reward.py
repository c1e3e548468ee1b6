# SPDX-License-Identifier: GPL-2.0-only
"""What the controller is paid for an interval: the weighted sum of named terms (`bbrgym.envs.terms`).

The presets in conf/reward/ are such sums. `proportional`, the default, is the score by which runs are compared,
interval by interval; docs/environments.md says how far the mean of each over an episode is from the score.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib import resources
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import yaml

from bbrgym.envs.terms import TERMS, TermInputs, alpha_fair
from bbrgym.errors import ConfigError, nearest
from bbrgym.schema import shown
from bbrgym.worlds import Table

RewardSource: TypeAlias = str | Mapping[str, float]
"""A preset's name; or weights by term, and perhaps `alpha`. A term of weight 0 is only shown, one left out not even."""

ALPHA = "alpha"
"""The parameter that stands beside the weights: alpha_fair's, from 0 (1 without)."""


class Reward:
    """The weighted sum.

    Args:
        source: a preset's name or its contents.

    Attributes:
        weights: by term, in the order of the table.
        alpha: of alpha_fair.

    Raises:
        ConfigError: no such preset, term or weight.
    """

    def __init__(self, source: RewardSource = "proportional") -> None:
        given = dict(_contents(source))
        for name, number in given.items():
            if name not in (*TERMS, ALPHA):
                raise ConfigError(f"reward: {name!r}: {nearest(str(name), (*TERMS, ALPHA))}")
            if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
                raise ConfigError(f"reward.{name}: {shown(number)}, allowed is a finite number")
        self.alpha = float(given.pop(ALPHA, 1.0))
        if self.alpha < 0.0:
            raise ConfigError(f"reward.{ALPHA}: {self.alpha}, allowed are numbers from 0")
        if not given:
            raise ConfigError(f"reward: {shown(source)}, allowed are weights of one term at least")
        self.weights = {name: float(given[name]) for name in TERMS if name in given}
        compute = {name: term.compute for name, term in TERMS.items()} | {
            "alpha_fair": partial(alpha_fair, alpha=self.alpha)
        }
        self._compute: dict[str, Callable[[TermInputs], Table]] = {name: compute[name] for name in self.weights}

    def terms(self, interval: TermInputs) -> dict[str, Table]:
        """The terms of an interval that have a weight, be it 0: [N] each."""
        return {name: compute(interval) for name, compute in self._compute.items()}

    def total(self, terms: Mapping[str, Table]) -> Table:
        """Their weighted sum: [N]."""
        total = np.zeros(len(next(iter(terms.values()))))
        for name, values in terms.items():
            if self.weights[name]:
                total += self.weights[name] * values
        return total


def reward_names() -> list[str]:
    """Names of the presets that the package ships."""
    return sorted(_presets())


def reward_preset(name: str) -> Mapping[str, float]:
    """A preset's weights and parameter.

    Raises:
        ConfigError: no such preset.
    """
    if name not in _presets():
        raise ConfigError(f"reward: {name!r}: {nearest(name, reward_names())}")
    return dict(_presets()[name])


def _contents(source: RewardSource) -> Mapping[str, float]:
    if isinstance(source, str):
        return reward_preset(source)
    if not isinstance(source, Mapping):
        raise ConfigError(f"reward: {shown(source)}, allowed is a preset's name or weights by term")
    return source


@cache
def _presets() -> dict[str, dict[str, Any]]:
    folder = Path(str(resources.files("bbrgym") / "conf" / "reward"))
    return {path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.yaml"))}
