# SPDX-License-Identifier: GPL-2.0-only
"""Estimates with 95 % intervals: means over seeds by Student's t, scores over draws by bootstrap.

One scenario run with several seeds (`student_mean`)
    Few, alike, nearly normal values: Student's t, exact for normal values from 2 on.

Draws of a distribution (`bootstrap_mean`, `Scores`)
    The estimates hold for the distribution, not for the draws at hand. The draws are resampled, the same ones for all
    entrants, so comparisons stay paired. The training runs of an agent that was trained several times are resampled
    too, each with all of its draws. The ends are percentiles. With few draws such intervals are far too narrow: with 2
    normal values they hold the mean in 50 of 100 cases, with 5 in 82, with 10 in 91. Below `MIN_DRAWS` there are none.

Clusters of unequal weight, such as the peers of a server (`cluster_mean`)
    The clusters are resampled. The ends are expanded percentiles (Hesterberg, What teachers should know about the
    bootstrap, The American Statistician, 2015): as wide with few clusters as Student's t is for normal values. Unequal
    weights count as fewer clusters, by Kish's effective number.

The interquartile mean and the probability of improvement are those of Agarwal et al., Deep reinforcement learning at
the edge of the statistical precipice, NeurIPS 2021 (the package rliable), with a draw in the place of a task. The tests
compare the values with rliable's and the intervals with SciPy's. Neither is imported here: rliable resamples runs
within each task, never the tasks, has no paired difference and needs arch, pandas and Seaborn; SciPy would be 143 MB
for one quantile and one trimmed mean.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

MIN_DRAWS = 10
"""Draws from which on there are bootstrap intervals."""

RESAMPLES = 5000
_BLOCK = 2**22  # draws of clusters at a time
_SEED = 1  # of the resampling: the same scores give the same intervals
_LEVELS = (0.025, 0.975)
_QUARTER = 0.25


@dataclass(frozen=True)
class Estimate:
    """A value and its 95 % interval. An unknown value or end is NaN."""

    value: float
    low: float = math.nan
    high: float = math.nan

    def text(self, digits: int, sign: str = "") -> str:
        """Return ``value [low, high]``; ``value`` without an interval, ``-`` without a value."""
        if math.isnan(self.value):
            return "-"
        value = _shown(self.value, digits, sign)
        if math.isnan(self.low):
            return value
        return f"{value} [{_shown(self.low, digits, sign)}, {_shown(self.high, digits, sign)}]"

    def short(self, digits: int) -> str:
        """Return ``value ± half the interval's width``; as `text` without an interval or a value."""
        if math.isnan(self.value) or math.isnan(self.low):
            return self.text(digits)
        return f"{_shown(self.value, digits, '')} ± {(self.high - self.low) / 2:.{digits}f}"

    def scaled(self, factor: float) -> Estimate:
        """Return the estimate in another unit."""
        return Estimate(factor * self.value, factor * self.low, factor * self.high)

    @property
    def excludes_zero(self) -> bool:
        """True if the interval is known and lies on one side of 0."""
        return self.low > 0 or self.high < 0


def _shown(value: float, digits: int, sign: str) -> str:
    return f"{round(value, digits) + 0.0:{sign}.{digits}f}"  # no -0.0


# ---- means of one scenario's runs ---------------------------------------------------------------------


def student_mean(values: npt.ArrayLike) -> Estimate:
    """Return the mean of independent values with Student's interval; NaN values are left out.

    The interval is unknown with a single value, the mean without any.
    """
    known = known_values(values)
    if len(known) == 0:
        return Estimate(math.nan)
    mean = float(np.mean(known))
    if len(known) == 1:
        return Estimate(mean)
    half_width = student_quantile(_LEVELS[1], len(known) - 1) * float(np.std(known, ddof=1)) / math.sqrt(len(known))
    return Estimate(mean, mean - half_width, mean + half_width)


@cache
def student_quantile(probability: float, freedom: int) -> float:
    """Return the quantile of Student's t distribution at a probability from 0.5 to below 1; freedom is a whole number.

    Inverts the closed form of Abramowitz and Stegun, 26.7.3 and 26.7.4, by bisection of the angle atan(t / sqrt(n)).
    """
    low, high = 0.0, math.pi / 2
    while True:
        middle = (low + high) / 2
        if middle in (low, high):
            return math.sqrt(freedom) * math.tan(middle)
        if _central_probability(middle, freedom) < 2 * probability - 1:
            low = middle
        else:
            high = middle


def _central_probability(angle: float, freedom: int) -> float:
    """Return the probability of |T| <= sqrt(freedom) tan(angle): a finite sum, since ``freedom`` is whole."""
    sine, cosine = math.sin(angle), math.cos(angle)
    is_odd = freedom % 2 == 1
    term, total = cosine if is_odd else 1.0, 0.0
    for power in range(1 if is_odd else 0, freedom - 1, 2):
        total += term
        term *= cosine * cosine * (power + 1) / (power + 2)
    return 2 / math.pi * (angle + sine * total) if is_odd else sine * total


# ---- scores over draws --------------------------------------------------------------------------------


def bootstrap_mean(values: npt.ArrayLike) -> Estimate:
    """Return the mean over draws with its bootstrap interval, unknown below `MIN_DRAWS`; NaN values are left out."""
    known = known_values(values)
    return Scores({"": known}).mean("") if len(known) else Estimate(math.nan)


def known_values(values: npt.ArrayLike) -> Array:
    """Return the values that are not NaN."""
    array = np.asarray(values, dtype=np.float64)
    return array[~np.isnan(array)]


def cluster_mean(values: npt.ArrayLike, weights: npt.ArrayLike) -> Estimate:
    """Return the weighted mean over clusters with its bootstrap interval, unknown below `MIN_DRAWS` effective ones.

    Args:
        values: of each cluster.
        weights: of each cluster, above 0.
    """
    value, weight = np.asarray(values, np.float64), np.asarray(weights, np.float64)
    if len(value) == 0:
        return Estimate(math.nan)
    mean = float(np.average(value, weights=weight))
    effective = float(weight.sum() ** 2 / np.square(weight).sum())
    if effective < MIN_DRAWS:
        return Estimate(mean)
    generator = np.random.default_rng([_SEED, len(value)])
    block = max(1, _BLOCK // len(value))
    resampled = []
    for first in range(0, RESAMPLES, block):
        draws = generator.integers(len(value), size=(min(block, RESAMPLES - first), len(value)))
        resampled.append((weight * value)[draws].sum(axis=1) / weight[draws].sum(axis=1))
    clusters = math.floor(effective)
    reach = math.sqrt(clusters / (clusters - 1)) * student_quantile(_LEVELS[1], clusters - 1)
    beyond = math.erfc(reach / math.sqrt(2)) / 2  # of a normal variable
    low, high = np.quantile(np.concatenate(resampled), (beyond, 1 - beyond))
    return Estimate(mean, float(low), float(high))


class Scores:
    """Scores of entrants on the same draws.

    Args:
        by_name: [runs, draws] of each entrant: one row per training run of an agent, one row for every other entrant.

    Raises:
        ValueError: the entrants' numbers of draws differ.
    """

    def __init__(self, by_name: Mapping[str, npt.ArrayLike]) -> None:
        self._scores: dict[str, Array] = {
            name: np.atleast_2d(np.asarray(scores, np.float64)) for name, scores in by_name.items()
        }
        self.draws = next(iter(self._scores.values())).shape[1]
        if any(scores.shape[1] != self.draws for scores in self._scores.values()):
            numbers = {name: scores.shape[1] for name, scores in self._scores.items()}
            raise ValueError(f"scores of different draws: numbers of draws are {numbers}, expected equal ones")

    def __getitem__(self, name: str) -> Array:
        return self._scores[name]

    @property
    def names(self) -> list[str]:
        """Names of the entrants."""
        return list(self._scores)

    def of_draws(self, indices: Sequence[int]) -> Scores:
        """Return the scores on some of the draws."""
        return Scores({name: scores[:, list(indices)] for name, scores in self._scores.items()})

    # ---- estimates ---------------------------------------------------------------------------------------------

    def mean(self, name: str) -> Estimate:
        """Estimate the mean score."""
        return self._estimate(self._scores[name].mean(), self._resampled_means[name])

    def iqm(self, name: str) -> Estimate:
        """Estimate the interquartile mean: the mean of the middle half of all scores."""
        value = float(_middle_mean(self._scores[name].ravel()))
        resampled = self._scores[name][self._runs(name)[:, :, None], self._draws[:, None, :]]
        return self._estimate(value, _middle_mean(resampled.reshape(RESAMPLES, -1)))

    def difference(self, name: str, reference: str) -> Estimate:
        """Estimate the mean of the paired differences, ``name`` minus ``reference``."""
        value = self._scores[name].mean() - self._scores[reference].mean()
        return self._estimate(value, self._resampled_means[name] - self._resampled_means[reference])

    def improvement(self, name: str, reference: str) -> Estimate:
        """Estimate the probability that ``name`` is better than ``reference`` on a draw; a tie counts as a half."""
        if name == reference:
            return Estimate(0.5, 0.5, 0.5)
        wins = _wins(self._scores[name], self._scores[reference])
        of_runs = wins @ self._draw_counts.T
        total = np.einsum("rob,br,bo->b", of_runs, self._run_counts(name), self._run_counts(reference))
        return self._estimate(wins.mean(), total / wins.size)

    def gap_closed(self, name: str, low: str, high: str) -> Estimate:
        """Estimate the part of the way from ``low`` to ``high`` that an entrant's mean score has come.

        The ratio is undefined, and all of the estimate NaN, unless the interval of ``high`` minus ``low`` excludes 0.
        """
        if not self.difference(high, low).excludes_zero:
            return Estimate(math.nan)
        means, resampled = {one: self._scores[one].mean() for one in (name, low, high)}, self._resampled_means
        value = (means[name] - means[low]) / (means[high] - means[low])
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = (resampled[name] - resampled[low]) / (resampled[high] - resampled[low])
        return self._estimate(value, ratios)

    # ---- resampling --------------------------------------------------------------------------------------------

    def _estimate(self, value: float, resampled: Array) -> Estimate:
        if self.draws < MIN_DRAWS:
            return Estimate(float(value))
        low, high = np.quantile(resampled, _LEVELS)
        return Estimate(float(value), float(low), float(high))

    @cached_property
    def _draws(self) -> Indices:
        """Indices of the draws in each resample: [resamples, draws]."""
        return np.random.default_rng([_SEED, self.draws]).integers(self.draws, size=(RESAMPLES, self.draws))

    @cached_property
    def _draw_counts(self) -> Array:
        """Number of times that each draw is in a resample: [resamples, draws]."""
        return _counts(self._draws)

    def _runs(self, name: str) -> Indices:
        """Return the indices of an entrant's runs in each resample, from its own stream: [resamples, runs]."""
        runs = len(self._scores[name])
        return np.random.default_rng([_SEED, *name.encode()]).integers(runs, size=(RESAMPLES, runs))

    def _run_counts(self, name: str) -> Array:
        """Return the number of times that each run is in a resample: [resamples, runs]."""
        return _counts(self._runs(name))

    @cached_property
    def _resampled_means(self) -> dict[str, Array]:
        """Mean scores of each entrant: [resamples]."""
        return {
            name: np.einsum("rb,br->b", scores @ self._draw_counts.T, self._run_counts(name)) / scores.size
            for name, scores in self._scores.items()
        }


def _middle_mean(values: Array) -> Array:
    """Return the means over the last axis without its lowest and highest quarter: [..., values] -> [...]."""
    count = values.shape[-1]
    cut = int(_QUARTER * count)
    middle: Array = np.partition(values, (cut, count - cut - 1), axis=-1)[..., cut : count - cut].mean(axis=-1)
    return middle


def _counts(indices: Indices) -> Array:
    """Return the number of times that each index is in its row: [rows, columns] -> [rows, columns]."""
    rows, columns = indices.shape
    places = indices + columns * np.arange(rows)[:, None]
    counts: Array = np.bincount(places.ravel(), minlength=rows * columns).reshape(rows, columns).astype(np.float64)
    return counts


def _wins(scores: Array, others: Array) -> Array:
    """Compare each run with each other one: 1 where it is better, 0 or a half: [runs, other's runs, draws]."""
    return 0.5 + 0.5 * np.sign(scores[:, None, :] - others[None, :, :])
