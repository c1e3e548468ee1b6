# SPDX-License-Identifier: GPL-2.0-only
"""How entrants compare over many draws: estimates with 95 % intervals by bootstrap.

What is estimated holds for the distribution, not for the draws that happened to be run: so the draws are resampled, the
same ones for all entrants, which keeps comparisons paired. Where an agent was trained several times, its training
runs are resampled too, each with all of its draws.

The interquartile mean and the probability of improvement are those of Agarwal et al., Deep reinforcement learning at
the edge of the statistical precipice, NeurIPS 2021 (the package rliable), with a draw in the place of a task.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.stats import trim_mean

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

RESAMPLES = 5000
_SEED = 1  # of the resampling: the same scores give the same intervals
_LEVELS = (0.025, 0.975)
_QUARTER = 0.25


@dataclass(frozen=True)
class Estimate:
    """A value and its 95 % interval; the interval's ends are NaN with one draw."""

    value: float
    low: float
    high: float

    def text(self, digits: int, sign: str = "") -> str:
        """As shown in a table: ``value [low, high]``."""
        if math.isnan(self.value):
            return "-"
        value = _shown(self.value, digits, sign)
        if math.isnan(self.low):
            return value
        return f"{value} [{_shown(self.low, digits, sign)}, {_shown(self.high, digits, sign)}]"

    def short(self, digits: int) -> str:
        """The value and half the interval's width: ``value ± width``."""
        if math.isnan(self.value) or math.isnan(self.low):
            return self.text(digits)
        return f"{_shown(self.value, digits, '')} ± {(self.high - self.low) / 2:.{digits}f}"

    def scaled(self, factor: float) -> Estimate:
        """The same in another unit."""
        return Estimate(factor * self.value, factor * self.low, factor * self.high)

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval lies on one side of 0."""
        return self.low > 0 or self.high < 0


def _shown(value: float, digits: int, sign: str) -> str:
    return f"{round(value, digits) + 0.0:{sign}.{digits}f}"  # no -0.0


class Scores:
    """Scores of entrants on the same draws.

    Args:
        by_name: [runs, draws] of each: a run is a training run of an agent; who was not trained has one.
    """

    def __init__(self, by_name: Mapping[str, npt.ArrayLike]) -> None:
        self._scores: dict[str, Array] = {
            name: np.atleast_2d(np.asarray(scores, np.float64)) for name, scores in by_name.items()
        }
        self.draws = next(iter(self._scores.values())).shape[1]
        if any(scores.shape[1] != self.draws for scores in self._scores.values()):
            raise ValueError("scores of different draws")

    def __getitem__(self, name: str) -> Array:
        return self._scores[name]

    @property
    def names(self) -> list[str]:
        """Of the entrants."""
        return list(self._scores)

    def of_draws(self, indices: Sequence[int]) -> Scores:
        """The same of some draws."""
        return Scores({name: scores[:, list(indices)] for name, scores in self._scores.items()})

    # ---- estimates ---------------------------------------------------------------------------------------------

    def mean(self, name: str) -> Estimate:
        """The mean score."""
        return self._estimate(self._scores[name].mean(), self._resampled_means[name])

    def iqm(self, name: str) -> Estimate:
        """The interquartile mean: of the middle half of all scores."""
        value = trim_mean(self._scores[name], _QUARTER, axis=None)
        resampled = self._scores[name][self._runs(name)[:, :, None], self._draws[:, None, :]]
        return self._estimate(value, trim_mean(resampled.reshape(RESAMPLES, -1), _QUARTER, axis=1))

    def difference(self, name: str, reference: str) -> Estimate:
        """The mean of the paired differences: ``name`` less ``reference``."""
        value = self._scores[name].mean() - self._scores[reference].mean()
        return self._estimate(value, self._resampled_means[name] - self._resampled_means[reference])

    def improvement(self, name: str, reference: str) -> Estimate:
        """The probability that ``name`` is better than ``reference`` on a draw; a tie counts as a half."""
        if name == reference:
            return Estimate(0.5, 0.5, 0.5)
        wins = _wins(self._scores[name], self._scores[reference])
        of_runs = wins @ self._draw_counts.T
        total = np.einsum("rob,br,bo->b", of_runs, self._run_counts(name), self._run_counts(reference))
        return self._estimate(wins.mean(), total / wins.size)

    def gap_closed(self, name: str, low: str, high: str) -> Estimate:
        """How much of the way from ``low`` to ``high`` a entrant's mean score has come."""
        means, resampled = {one: self._scores[one].mean() for one in (name, low, high)}, self._resampled_means
        with np.errstate(divide="ignore", invalid="ignore"):
            value = np.float64(means[name] - means[low]) / (means[high] - means[low])
            return self._estimate(float(value), (resampled[name] - resampled[low]) / (resampled[high] - resampled[low]))

    # ---- resampling --------------------------------------------------------------------------------------------

    def _estimate(self, value: float, resampled: Array) -> Estimate:
        if self.draws < 2:
            return Estimate(float(value), math.nan, math.nan)
        low, high = np.quantile(resampled, _LEVELS)
        return Estimate(float(value), float(low), float(high))

    @cached_property
    def _draws(self) -> Indices:
        """[resamples, draws]"""
        return np.random.default_rng([_SEED, self.draws]).integers(self.draws, size=(RESAMPLES, self.draws))

    @cached_property
    def _draw_counts(self) -> Array:
        """How often each draw is in a resample: [resamples, draws]."""
        return _counts(self._draws)

    def _runs(self, name: str) -> Indices:
        """[resamples, runs]; each entrant's from a stream of its own."""
        runs = len(self._scores[name])
        return np.random.default_rng([_SEED, *name.encode()]).integers(runs, size=(RESAMPLES, runs))

    def _run_counts(self, name: str) -> Array:
        """How often each run is in a resample: [resamples, runs]."""
        return _counts(self._runs(name))

    @cached_property
    def _resampled_means(self) -> dict[str, Array]:
        """[resamples] of each entrant."""
        return {
            name: np.einsum("rb,br->b", scores @ self._draw_counts.T, self._run_counts(name)) / scores.size
            for name, scores in self._scores.items()
        }


def _counts(indices: Indices) -> Array:
    """How often each index is in a row: [rows, columns] both."""
    rows, columns = indices.shape
    places = indices + columns * np.arange(rows)[:, None]
    counts: Array = np.bincount(places.ravel(), minlength=rows * columns).reshape(rows, columns).astype(np.float64)
    return counts


def _wins(scores: Array, others: Array) -> Array:
    """Which of two is better, 1, 0 or a half: [runs, other's runs, draws]."""
    return 0.5 + 0.5 * np.sign(scores[:, None, :] - others[None, :, :])
