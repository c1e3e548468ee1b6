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
    `tests/evaluate/test_statistics.py` counts how many of 100 intervals hold the truth.

The interquartile mean and the probability of improvement are those of Agarwal et al., Deep reinforcement learning at
the edge of the statistical precipice, NeurIPS 2021 (the package rliable), with a draw in the place of a task. The tests
compare the values with rliable's. Nothing is imported here: rliable resamples runs within each task, never the tasks,
has no paired difference and needs arch, pandas and Seaborn; SciPy, 143 MB, has no studentised bootstrap.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
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
    return known_mean(np.atleast_2d(np.asarray(values, np.float64)))


def known_mean(values: Array) -> Estimate:
    """Return the same of the draws of which every training run has a value: [runs, draws]."""
    known = values[:, ~np.isnan(values).any(axis=0)]
    return Scores({"": known}).mean("") if known.size else Estimate(math.nan)


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
    generator, block = np.random.default_rng([_SEED, len(value)]), max(1, _BLOCK // len(value))
    sizes = [(min(block, RESAMPLES - first), len(value)) for first in range(0, RESAMPLES, block)]
    counts = (_counts(generator.integers(len(value), size=size)) for size in sizes)
    return _studentised(weight * value, weight, counts, effective)


def _studentised(
    top: Array, bottom: Array, counts: Iterable[Array], effective: float, of_runs: Sequence[tuple[float, int]] = ()
) -> Estimate:
    """Return the ratio of two means over draws with its studentised bootstrap interval.

    Args:
        top: of each draw.
        bottom: of each draw.
        counts: number of times that each draw is in a resample: [resamples, draws] each.
        effective: number of draws.
        of_runs: variances of the ratio by training runs, with their degrees of freedom.
    """
    value = float(top.sum() / bottom.sum())
    apart = top - value * bottom
    columns = np.column_stack([apart, bottom, apart**2, apart * bottom, bottom**2])
    sums = np.concatenate([columns.sum(axis=0)[None], *(block @ columns for block in counts)])
    with np.errstate(divide="ignore", invalid="ignore"):  # resamples whose bottom is 0
        shifts = sums[:, 0] / sums[:, 1]
        squares = sums[:, 2] - 2 * shifts * sums[:, 3] + shifts**2 * sums[:, 4]
        variances = np.maximum(squares, 0.0) / sums[:, 1] ** 2 * effective / (effective - 1)
    freedom = math.floor(effective) - 1
    error, freedom_of_all = _error([(float(variances[0]), freedom), *of_runs])
    if not error > 0:
        return Estimate(value, value + error, value + error)
    least = max(_LEAST_ERROR**2 * variances[0], np.finfo(np.float64).tiny)
    beyond = math.erfc(_expanded_quantile(freedom) / math.sqrt(2)) / 2
    low, high = np.nanquantile(shifts[1:] / np.sqrt(np.maximum(variances[1:], least)), (beyond, 1 - beyond))
    reach = student_quantile(_LEVELS[1], freedom_of_all)
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
        return self._estimate(self._scores[name].mean(axis=0), np.ones(self.draws), (name, 1.0))

    def iqm(self, name: str) -> Estimate:
        """Estimate the interquartile mean: the mean of the middle half of all scores."""
        scores = self._scores[name]
        value = float(_interquartile_mean(scores.ravel())) if not np.isnan(scores).any() else math.nan
        if self.draws < MIN_DRAWS or math.isnan(value):
            return Estimate(value)
        resampled = np.moveaxis(scores[:, self._draws], 1, 0).reshape(RESAMPLES, -1)
        ends = np.quantile(_interquartile_mean(resampled), _LEVELS)
        variances = _variances(np.clip(scores, *np.quantile(scores, (_QUARTER, 1 - _QUARTER))))
        error, freedom = _error(variances)
        widened = error / math.sqrt(variances[0][0]) if variances[0][0] > 0 else 1.0
        expanded = value + (ends - value) * widened * _expanded_quantile(freedom) / _NORMAL_QUANTILE
        low, high = np.clip(expanded, scores.min(), scores.max())
        return Estimate(value, float(low), float(high))

    def difference(self, name: str, reference: str) -> Estimate:
        """Estimate the mean of the paired differences, ``name`` minus ``reference``."""
        return self._estimate(self._gains(name, reference), np.ones(self.draws), (name, 1.0), (reference, -1.0))

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
        top, bottom = self._gains(name, low), self._gains(high, low)
        gap, ratio = bottom.mean(), top.mean() / bottom.mean()
        return self._estimate(top, bottom, (name, 1 / gap), (low, (ratio - 1) / gap), (high, -ratio / gap))

    # ---- resampling --------------------------------------------------------------------------------------------

    def _gains(self, name: str, reference: str) -> Array:
        gains: Array = self._scores[name].mean(axis=0) - self._scores[reference].mean(axis=0)
        return gains

    def _estimate(self, top: Array, bottom: Array, *derivatives: tuple[str, float]) -> Estimate:
        """Return the ratio of two means over draws with its interval; the derivatives are by the entrants' means."""
        if self.draws < MIN_DRAWS:
            return Estimate(float(top.mean() / bottom.mean()))
        weights: dict[str, float] = {}
        for name, derivative in derivatives:
            weights[name] = weights.get(name, 0.0) + derivative
        of_runs = [
            (weight**2 * variance, freedom)
            for name, weight in weights.items()
            for variance, freedom in _variances(self._scores[name])[1:]
        ]
        return _studentised(top, bottom, [self._draw_counts], self.draws, of_runs)

    @cached_property
    def _draws(self) -> Indices:
        """Indices of the draws in each resample: [resamples, draws]."""
        return np.random.default_rng([_SEED, self.draws]).integers(self.draws, size=(RESAMPLES, self.draws))

    @cached_property
    def _draw_counts(self) -> Array:
        """Number of times that each draw is in a resample: [resamples, draws]."""
        return _counts(self._draws)


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
