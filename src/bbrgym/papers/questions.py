# SPDX-License-Identifier: GPL-2.0-only
"""Open questions: what every other choice changes beside the first one, scenario by scenario.

A scenario is an experiment with `Experiment.compared`; those with the same ``figure`` belong to one question.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from bbrgym.evaluate.statistics import Estimate
from bbrgym.papers.experiment import Experiment, FlowMetric

SLIGHT = 0.01  # ratio to the first choice less 1, below which a difference beyond chance is not reported
_HIGHER_IS_BETTER = frozenset({"goodput_mbps", "utilisation", "jain"})


@dataclass(frozen=True)
class ComparedQuantity:
    """A quantity of a choice over that of the first one: the mean of the seeds' ratios with its 95 % interval."""

    scenario: str
    choice: str
    quantity: FlowMetric
    ratio: Estimate  # NaN where no seed has one

    @property
    def verdict(self) -> str:
        """``better``, ``worse``, ``chance`` (the interval holds 1, or the ratio is within 1 % of it), or ``none``."""
        if math.isnan(self.ratio.low):
            return "none"
        if abs(self.ratio.value - 1) < SLIGHT or self.ratio.low <= 1 <= self.ratio.high:
            return "chance"
        return "better" if (self.ratio.value > 1) == (self.quantity.metric in _HIGHER_IS_BETTER) else "worse"

    @property
    def text(self) -> str:
        """The ratio with its interval, bold where it is not by chance."""
        text = self.ratio.text(2)
        return f"**{text}**" if self.verdict in ("better", "worse") else text


@dataclass(frozen=True)
class Question:
    """A question, and each quantity of each other choice in each scenario."""

    title: str
    first: str  # the choice that the others are compared with
    others: Sequence[str]
    quantities: Sequence[FlowMetric]
    cells: Sequence[ComparedQuantity]

    @property
    def headings(self) -> list[str]:
        """Headings of `rows`."""
        return ["scenario", f"beside `{self.first}`", *(one.title for one in self.quantities)]

    def rows(self) -> Iterator[list[str]]:
        """Yield a row for each scenario and other choice."""
        for scenario in dict.fromkeys(cell.scenario for cell in self.cells):
            for choice in self.others:
                own = [one for one in self.cells if (one.scenario, one.choice) == (scenario, choice)]
                yield [scenario, f"`{choice}`", *(one.text for one in own)]

    def conclusions(self) -> Iterator[str]:
        """Yield a sentence for each other choice: where it is better, where worse."""
        for choice in self.others:
            own = [one for one in self.cells if one.choice == choice]
            parts = [f"{verdict} in {where}" for verdict in ("better", "worse") if (where := _places(own, verdict))]
            known = [one.verdict for one in own if one.verdict != "none"]
            parts.append(f"within chance or 1 % in {known.count('chance')} of {len(known)} cells")
            yield f"`{choice}` is {'; '.join(parts)}."


def _places(cells: Sequence[ComparedQuantity], verdict: str) -> str:
    """Return the quantities with a verdict, each with its scenarios."""
    found: dict[str, list[str]] = {}
    for one in cells:
        if one.verdict == verdict:
            found.setdefault(one.quantity.title, []).append(one.scenario)
    return ", ".join(f"{title} ({', '.join(scenarios)})" for title, scenarios in found.items())


def questions_of(experiments: Sequence[Experiment], numbers: pl.DataFrame) -> Iterator[Question]:
    """Yield each question of the experiments that were measured, by rows of numbers.parquet of one world."""
    measured = set(numbers["experiment"])
    experiments = [one for one in experiments if one.name in measured]
    for title in dict.fromkeys(one.figure for one in experiments if one.compared):
        scenarios = [one for one in experiments if one.figure == title]
        first, *others = scenarios[0].variants
        panels = [(one, choice, panel) for one in scenarios for choice in others for panel in one.compared]
        cells = [_compared(*panel, numbers) for panel in panels]
        yield Question(title, first, others, scenarios[0].compared, cells)


def _compared(experiment: Experiment, choice: str, panel: FlowMetric, numbers: pl.DataFrame) -> ComparedQuantity:
    first = next(iter(experiment.variants))
    own = numbers.filter(
        (pl.col("experiment") == experiment.name)
        & (pl.col("variant") == choice)
        & (pl.col("metric") == panel.metric)
        & pl.col("flow").eq_missing(pl.lit(panel.flow, pl.String))
        & (pl.col("over") == first)
    )
    values = own.select("measured", "low", "high").fill_null(math.nan)
    ratio = Estimate(*values.row(0)) if len(own) else Estimate(math.nan)
    return ComparedQuantity(experiment.title, choice, panel, ratio)
