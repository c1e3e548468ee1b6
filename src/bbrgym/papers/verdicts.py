# SPDX-License-Identifier: GPL-2.0-only
"""Verdicts on published numbers and claims.

    agrees    within the published spread, or within 10 %, or within the precision with which the value is known
    shape     not so, but within a factor of 2, and the order of variants and flows and the trend along the sweep are
              as published
    no        neither
    not run   nothing was measured

Numbers of a testbed, which say how far its runs differ, have other verdicts:

    inside    within the range of the testbed's runs, widened by 5 points of a share or 10 % of another quantity
    near      within the range widened by 10 points or 25 %

A claim that holds has the shape of what was published; if one side of it is a published bound, it agrees.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from bbrgym.papers.experiment import Claim, Published, Quantity

Verdict: TypeAlias = Literal["agrees", "shape", "no", "not run", "inside", "near"]
VERDICTS: tuple[Verdict, ...] = ("agrees", "shape", "no", "not run")
TESTBED_VERDICTS: tuple[Verdict, ...] = ("inside", "near", "no")

TOLERANCE = 0.1  # of the published value
FACTOR = 2.0  # between a published value and a measured one of the same shape
INSIDE_POINTS, NEAR_POINTS = 0.05, 0.1  # of a share, beyond the range of a testbed's runs
INSIDE_PART, NEAR_PART = 0.1, 0.25  # of another quantity's mean, beyond that range


@dataclass(frozen=True)
class Compared:
    """A published number and the measured counterpart, NaN if there is none."""

    number: Published
    measured: float


def verdicts_of(compared: Sequence[Compared]) -> list[Verdict]:
    """Return the verdict on each number of an experiment, in the experiment's order."""
    return [_verdict(one, compared) for one in compared]


def _verdict(one: Compared, all_of_them: Sequence[Compared]) -> Verdict:
    if math.isnan(one.measured):
        return "not run"
    if one.number.is_testbed:
        return verdict_on_testbed(one.number, one.measured)
    if agrees(one.number, one.measured):
        return "agrees"
    is_near = 1 / FACTOR <= one.measured / one.number.value <= FACTOR if one.number.value else False
    return "shape" if is_near and has_shape(one, all_of_them) else "no"


def agrees(number: Published, measured: float) -> bool:
    """Return whether a measured value is the published one within the spread, 10 % or the precision."""
    low, high = number.bounds
    slack = max(number.precision, 0.0 if number.spread else TOLERANCE * abs(number.value))
    rounding = 1e-9 * max(abs(low), abs(high))  # of the sums here
    return low - slack - rounding <= measured <= high + slack + rounding


def verdict_on_testbed(number: Published, measured: float) -> Verdict:
    """Return the verdict on a measured value beside the range of a testbed's runs."""
    low, high = number.bounds
    beyond = max(low - measured, measured - high, 0.0)
    inside, near = INSIDE_PART * abs(number.value), NEAR_PART * abs(number.value)
    if number.metric in ("share", "queue_share"):
        inside, near = INSIDE_POINTS, NEAR_POINTS
    return "inside" if beyond <= inside else "near" if beyond <= near else "no"


def has_shape(one: Compared, all_of_them: Sequence[Compared]) -> bool:
    """Return whether a number compares with the companions as published; False if no published difference is clear.

    Companions have the same metric and differ in the variant alone, in the flow alone, or are the next points of the
    sweep. A ratio of two variants is an order itself, below or above 1. A published difference is clear if it is above
    10 % and above the precision of both values.
    """
    pairs = [other for other in _companions(one, all_of_them) if _is_clear(one.number, other.number)]
    if one.number.over is not None and _is_clear(one.number, _EQUAL.number):
        pairs.append(_EQUAL)
    return bool(pairs) and all(
        (one.number.value < other.number.value) == (one.measured < other.measured) for other in pairs
    )


#: A variant beside itself.
_EQUAL = Compared(Published(variant="", metric="", value=1.0, unit="ratio", source="itself"), measured=1.0)


def _companions(one: Compared, all_of_them: Sequence[Compared]) -> Iterator[Compared]:
    mine = one.number.quantity
    measured = [other for other in all_of_them if other is not one and not math.isnan(other.measured)]
    for other in measured:
        its = other.number.quantity
        is_beside = (mine.metric, mine.over, mine.at) == (its.metric, its.over, its.at)
        if is_beside and (mine.variant == its.variant) != (mine.flow == its.flow):
            yield other
    along = [other for other in measured if _is_along(mine, other.number.quantity)]
    before = [other for other in along if _at(other) < _at(one)]
    after = [other for other in along if _at(other) > _at(one)]
    if before:
        yield max(before, key=_at)
    if after:
        yield min(after, key=_at)


def _is_along(one: Quantity, other: Quantity) -> bool:
    """Return whether two quantities differ in the point of the sweep alone."""
    return one.at is not None and other == one.model_copy(update={"at": other.at}) and other.at is not None


def _at(one: Compared) -> float:
    return math.nan if one.number.at is None else one.number.at


def _is_clear(one: Published, other: Published) -> bool:
    larger = max(abs(one.value), abs(other.value))
    return abs(one.value - other.value) > max(TOLERANCE * larger, one.precision, other.precision)


def verdict_of_claim(claim: Claim, less: float, than: float) -> Verdict:
    """Return the verdict on a claim, given the values of the sides."""
    if math.isnan(less) or math.isnan(than):
        return "not run"
    if not less < claim.times * than:
        return "no"
    return "agrees" if claim.has_bound else "shape"


ENOUGH = 0.8  # of an experiment's numbers and claims


def verdict_of_all(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the verdict on an experiment: the best one that at least 80 % of the numbers and claims reach."""
    run = [one for one in verdicts if one != "not run"]
    if not run:
        return "not run"
    is_testbed = any(one in ("inside", "near") for one in run)
    if sum(one in ("agrees", "inside") for one in run) >= ENOUGH * len(run):
        return "inside" if is_testbed else "agrees"
    if sum(one != "no" for one in run) >= ENOUGH * len(run):
        return "near" if is_testbed else "shape"
    return "no"


def verdict_of_readings(verdicts: Sequence[Verdict], readings: Sequence[str | None]) -> tuple[Verdict, str | None]:
    """Return the verdict on an experiment and the reading with that verdict; None stands for all readings."""
    names = list(dict.fromkeys(name for name in readings if name is not None))
    if not names:
        return verdict_of_all(verdicts), None

    def share(name: str) -> float:
        own = _of_reading(verdicts, readings, name)
        return sum(one != "no" for one in own) / len(own)

    of_each = {name: verdict_of_all(_of_reading(verdicts, readings, name)) for name in names}
    best = min(names, key=lambda name: (VERDICTS.index(of_each[name]), -share(name)))
    return of_each[best], best


def _of_reading(verdicts: Sequence[Verdict], readings: Sequence[str | None], name: str) -> list[Verdict]:
    return [one for one, reading in zip(verdicts, readings, strict=True) if reading in (name, None)]
