# SPDX-License-Identifier: GPL-2.0-only
"""Estimates with 95 % intervals: means over seeds by Student's t, scores over draws by bootstrap.

One scenario run with several seeds (`student_mean`)
    Few, alike, nearly normal values: Student's t, exact for normal values from 2 on.

Draws of a distribution (`bootstrap_mean`, `Scores`), clusters such as the peers of a server (`cluster_mean`)
    The estimates hold for the distribution, not for the draws at hand. The draws are resampled, the same ones for all
    entrants, so comparisons stay paired. The variance between the training runs of an agent adds to the draws', with
    Satterthwaite's degrees of freedom. Below `MIN_DRAWS` there are no intervals. Equal values have one without a width;
    a NaN value makes the estimate NaN.

    Means, differences and ratios of means: a studentised bootstrap. Of 10 log-normal values (sigma 1) it holds the mean
    in 94 of 100 cases; percentiles, BCa and Student's t in 80 to 85. Quantiles are expanded (Hesterberg, What teachers
    should know about the bootstrap, The American Statistician, 2015), no end is nearer than Student's, and no
    resample's standard error counts as less than a fifth of the sample's, which would only widen the interval.

    Interquartile means: percentiles, expanded. Probabilities of improvement, whose resamples all agree where one
    entrant always wins: Wilson's interval, of as many trials as their variance tells (Korn and Graubard, Survey
    Methodology, 1998). Unequal weights count as fewer clusters, by Kish's effective number.
    `benchmarks/interval_coverage.py` measures how many of 100 intervals hold the truth.

The interquartile mean and the probability of improvement are those of Agarwal et al., Deep reinforcement learning at
the edge of the statistical precipice, NeurIPS 2021 (the package rliable), with a draw in the place of a task. The tests
compare the values with rliable's. Nothing is imported here: rliable resamples runs within each task, never the tasks,
has no paired difference and needs arch, pandas and Seaborn; SciPy, 143 MB, has no studentised bootstrap.
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
_NORMAL_QUANTILE = 1.959964
_QUARTER = 0.25
_LEAST_ERROR = 0.2  # standard error of a resample, by that of the sample


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
        """Return ``value ± distance of the farther end``; as `text` without an interval or a value."""
        if math.isnan(self.value) or math.isnan(self.low):
            return self.text(digits)
        return f"{_shown(self.value, digits, '')} ± {max(self.high - self.value, self.value - self.low):.{digits}f}"

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
    apart = weight * (value - mean)
    columns = np.column_stack([apart, weight, apart**2, apart * weight, weight**2])
    generator = np.random.default_rng([_SEED, len(value)])
    block = max(1, _BLOCK // len(value))
    sums = [columns.sum(axis=0)[None]]
    for first in range(0, RESAMPLES, block):
        draws = generator.integers(len(value), size=(min(block, RESAMPLES - first), len(value)))
        sums.append(_counts(draws) @ columns)
    total_apart, total, squares, products, squared_weights = np.concatenate(sums).T
    shift = total_apart / total
    spread = (squares - 2 * shift * products + shift**2 * squared_weights) / total**2
    return _studentised(mean + shift, spread * effective / (effective - 1), math.floor(effective) - 1)


def _studentised(values: Array, variances: Array, freedom: int, of_runs: Sequence[tuple[float, int]] = ()) -> Estimate:
    """Return the first value with its studentised bootstrap interval.

    Args:
        values: of the sample and of its resamples: [1 + resamples].
        variances: estimates of the values' variances: [1 + resamples].
        freedom: their degrees of freedom.
        of_runs: variances of the value by training runs, with their degrees of freedom.
    """
    variances = np.maximum(variances, 0.0)  # of equal values, rounding may leave less
    value, own_error = float(values[0]), math.sqrt(variances[0])
    error, whole_freedom = _error([(float(variances[0]), freedom), *of_runs])
    if not error > 0:
        return Estimate(value, value + error, value + error)
    least = max(_LEAST_ERROR * own_error, np.finfo(np.float64).tiny)
    ratios = (values[1:] - value) / np.maximum(np.sqrt(variances[1:]), least)
    beyond = math.erfc(_expanded_quantile(freedom) / math.sqrt(2)) / 2
    low, high = np.nanquantile(ratios, (beyond, 1 - beyond))  # NaN: a ratio of means whose denominator is 0
    reach = student_quantile(_LEVELS[1], whole_freedom)
    return Estimate(value, value - error * max(reach, float(high)), value + error * max(reach, -float(low)))


def _error(variances: Sequence[tuple[float, int]]) -> tuple[float, int]:
    """Return the standard error by all sources of chance, and its degrees of freedom."""
    total = sum(variance for variance, _ in variances)
    if not total > 0:
        return total, variances[0][1]
    freedom = 1 / sum((variance / total) ** 2 / freedom for variance, freedom in variances)
    return math.sqrt(total), math.floor(freedom + 1e-9)


def _expanded_quantile(freedom: int) -> float:
    """Return the normal quantile with which percentiles are as wide as Student's interval is for normal values."""
    return student_quantile(_LEVELS[1], freedom) * math.sqrt((freedom + 1) / freedom)


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
        self._centred = {
            name: scores.mean(axis=0, keepdims=True) - scores.mean() for name, scores in self._scores.items()
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
        return self._estimate(self._means[name], (name, 1.0))

    def iqm(self, name: str) -> Estimate:
        """Estimate the interquartile mean: the mean of the middle half of all scores."""
        scores = self._scores[name]
        value = float(_interquartile_mean(scores.ravel())) if not np.isnan(scores).any() else math.nan
        if self.draws < MIN_DRAWS or math.isnan(value):
            return Estimate(value)
        resampled = np.moveaxis(scores[:, self._draws], 1, 0).reshape(len(self._draws), -1)
        ends = np.quantile(_interquartile_mean(resampled), _LEVELS)
        variances = _variances(np.clip(scores, *np.quantile(scores, (_QUARTER, 1 - _QUARTER))))
        error, freedom = _error(variances)
        widened = error / math.sqrt(variances[0][0]) if variances[0][0] > 0 else 1.0
        expanded = value + (ends - value) * widened * _expanded_quantile(freedom) / _NORMAL_QUANTILE
        low, high = np.clip(expanded, scores.min(), scores.max())
        return Estimate(value, float(low), float(high))

    def difference(self, name: str, reference: str) -> Estimate:
        """Estimate the mean of the paired differences, ``name`` minus ``reference``."""
        return self._estimate(self._means[name] - self._means[reference], (name, 1.0), (reference, -1.0))

    def improvement(self, name: str, reference: str) -> Estimate:
        """Estimate the probability that ``name`` is better than ``reference`` on a draw; a tie counts as a half."""
        if name == reference:
            return Estimate(0.5, 0.5, 0.5)
        wins = _wins(self._scores[name], self._scores[reference])
        share = float(wins.mean())
        if self.draws < MIN_DRAWS:
            return Estimate(share)
        error, freedom = _error(_variances(wins))
        trials = min(self.draws, share * (1 - share) / error**2) if error > 0 else self.draws
        reach = student_quantile(_LEVELS[1], freedom) ** 2 / trials
        half_width = math.sqrt(reach * (share * (1 - share) + reach / 4))
        low, high = ((share + reach / 2 + side * half_width) / (1 + reach) for side in (-1, 1))
        return Estimate(share, low, high)

    def gap_closed(self, name: str, low: str, high: str) -> Estimate:
        """Estimate the part of the way from ``low`` to ``high`` that an entrant's mean score has come.

        The ratio is undefined, and all of the estimate NaN, unless the interval of ``high`` minus ``low`` excludes 0.
        """
        if not self.difference(high, low).excludes_zero:
            return Estimate(math.nan)
        with np.errstate(divide="ignore", invalid="ignore"):
            gap = self._means[high] - self._means[low]
            ratios = (self._means[name] - self._means[low]) / gap
            return self._estimate(ratios, (name, 1 / gap), (low, (ratios - 1) / gap), (high, -ratios / gap))

    # ---- resampling --------------------------------------------------------------------------------------------

    def _estimate(self, values: Array, *terms: tuple[str, Array | float]) -> Estimate:
        """Return the first value with its interval.

        Args:
            values: of the sample and of its resamples: [1 + resamples].
            terms: names of entrants, each with the derivative of the values by its mean: [1 + resamples].
        """
        if self.draws < MIN_DRAWS:
            return Estimate(float(values[0]))
        weights: dict[str, Array] = {}
        for name, weight in terms:
            weights[name] = weights.get(name, np.zeros(1)) + weight
        of_draws = np.zeros((1, 1))
        of_runs: list[tuple[float, int]] = []
        for name, weight in weights.items():
            of_draws = of_draws + weight[:, None] * self._centred[name]
            of_runs += [
                (weight[0] ** 2 * variance, freedom) for variance, freedom in _variances(self._scores[name])[1:]
            ]
        return _studentised(values, _variance_of_mean(of_draws, self._draw_counts), self.draws - 1, of_runs)

    @cached_property
    def _draws(self) -> Indices:
        """Indices of the draws in the sample and in its resamples: [1 + resamples, draws]."""
        resampled = np.random.default_rng([_SEED, self.draws]).integers(self.draws, size=(RESAMPLES, self.draws))
        return np.vstack([np.arange(self.draws), resampled])

    @cached_property
    def _draw_counts(self) -> Array:
        """Number of times that each draw is in the sample and in its resamples: [1 + resamples, draws]."""
        return _counts(self._draws)

    @cached_property
    def _means(self) -> dict[str, Array]:
        """Mean scores of each entrant in the sample and in its resamples: [1 + resamples]."""
        return {
            name: scores.mean() + _mean(self._centred[name], self._draw_counts) for name, scores in self._scores.items()
        }


def _mean(values: Array, counts: Array) -> Array:
    """Return the mean of each resample: values [resamples or 1, n], counts [resamples, n] -> [resamples]."""
    sums: Array = counts @ values[0] if len(values) == 1 else np.einsum("bi,bi->b", counts, values)
    sums /= counts.shape[1]
    return sums


def _variance_of_mean(values: Array, counts: Array) -> Array:
    """Return the estimated variance of `_mean`."""
    spread: Array = np.maximum(_mean(values**2, counts) - _mean(values, counts) ** 2, 0.0) / (counts.shape[1] - 1)
    return spread


def _variances(values: Array) -> list[tuple[float, int]]:
    """Return the variance of the mean by each axis, the last first, and its degrees of freedom."""
    found = []
    for axis, size in reversed(tuple(enumerate(values.shape))):
        if size > 1:
            means = np.moveaxis(values, axis, 0).reshape(size, -1).mean(axis=1)
            found.append((float(means.var()) / (size - 1), size - 1))
    return found


def _interquartile_mean(values: Array) -> Array:
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
