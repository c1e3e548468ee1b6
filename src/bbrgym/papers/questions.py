# SPDX-License-Identifier: GPL-2.0-only
"""Open questions: what every other choice changes beside the first one, scenario by scenario.

A scenario is an experiment with `Experiment.compared`; those with the same ``figure`` belong to one question.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from bbrgym.evaluate.statistics import Estimate
from bbrgym.papers.experiment import Experiment, FlowMetric

SLIGHT = 0.01  # ratio to the first choice less 1, below which a difference beyond chance is not reported
_HIGHER_IS_BETTER = frozenset({"goodput_mbps", "utilisation", "jain"})


@dataclass(frozen=True)
class Question:
    """A question, and each quantity of each other choice over that of the first one in each scenario."""

    title: str
    first: str  # the choice that the others are compared with
    others: Sequence[str]
    quantities: Sequence[FlowMetric]
    # mean of the seeds' ratios with its 95 % interval, NaN where no seed has one, by scenario, choice and quantity
    ratios: Mapping[tuple[str, str, FlowMetric], Estimate]

    @property
    def headings(self) -> list[str]:
        """Headings of `rows`."""
        return ["scenario", f"beside `{self.first}`", *(one.title for one in self.quantities)]

    def rows(self, only_significant: bool = False) -> Iterator[list[str]]:
        """Yield a row for each scenario and other choice, or for those with a significant ratio, which is bold."""
        for scenario, choice in dict.fromkeys((scenario, choice) for scenario, choice, _ in self.ratios):
            ratios = [self.ratios[scenario, choice, quantity] for quantity in self.quantities]
            verdicts = [_verdict(ratio, quantity) for ratio, quantity in zip(ratios, self.quantities, strict=True)]
            is_bold = [verdict in ("better", "worse") for verdict in verdicts]
            if any(is_bold) or not only_significant:
                texts = [ratio.text(2) for ratio in ratios]
                bold = [f"**{text}**" if strong else text for text, strong in zip(texts, is_bold, strict=True)]
                yield [scenario, f"`{choice}`", *bold]

    def conclusions(self) -> Iterator[str]:
        """Yield a sentence for each other choice: the scenarios where the choice is better or worse."""
        for choice in self.others:
            found: dict[str, dict[str, list[str]]] = {"better": {}, "worse": {}, "chance": {}, "none": {}}
            for (scenario, other, quantity), ratio in self.ratios.items():
                if other == choice:
                    found[_verdict(ratio, quantity)].setdefault(quantity.title, []).append(scenario)
            parts = [f"{verdict} in {_places(found[verdict])}" for verdict in ("better", "worse") if found[verdict]]
            cells = {verdict: sum(map(len, of_titles.values())) for verdict, of_titles in found.items()}
            known = sum(cells.values()) - cells["none"]
            parts.append(f"within chance or 1 % in {cells['chance']} of {known} cells")
            yield f"`{choice}` is {'; '.join(parts)}."


def _places(scenarios: Mapping[str, Sequence[str]]) -> str:
    return ", ".join(f"{title} ({', '.join(names)})" for title, names in scenarios.items())


def _verdict(ratio: Estimate, quantity: FlowMetric) -> str:
    """Return ``better``, ``worse``, ``none``, or ``chance``: the interval holds 1, or the ratio is within 1 % of it."""
    if math.isnan(ratio.low):
        return "none"
    if abs(ratio.value - 1) < SLIGHT or ratio.low <= 1 <= ratio.high:
        return "chance"
    return "better" if (ratio.value > 1) == (quantity.metric in _HIGHER_IS_BETTER) else "worse"


def questions_of(experiments: Sequence[Experiment], numbers: pl.DataFrame) -> Iterator[Question]:
    """Yield each question of the experiments that were measured, by rows of numbers.parquet of one world."""
    measured = set(numbers["experiment"])
    experiments = [one for one in experiments if one.name in measured and one.compared]
    for title in dict.fromkeys(one.figure for one in experiments):
        scenarios = [one for one in experiments if one.figure == title]
        first, *others = scenarios[0].variants
        cells = [(one, choice, compared) for one in scenarios for choice in others for compared in one.compared]
        ratios = {
            (one.title, choice, compared): _ratio(one, choice, compared, numbers) for one, choice, compared in cells
        }
        yield Question(title, first, others, scenarios[0].compared, ratios)


def _ratio(experiment: Experiment, choice: str, compared: FlowMetric, numbers: pl.DataFrame) -> Estimate:
    own = numbers.filter(
        (pl.col("experiment") == experiment.name)
        & (pl.col("variant") == choice)
        & (pl.col("metric") == compared.metric)
        & pl.col("flow").eq_missing(pl.lit(compared.flow, pl.String))
        & (pl.col("over") == next(iter(experiment.variants)))
    )
    values = own.select("measured", "low", "high").fill_null(math.nan)
    return Estimate(*values.row(0)) if len(own) else Estimate(math.nan)
