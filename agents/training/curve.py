# SPDX-License-Identifier: GPL-2.0-only
"""Figure of a training's curve."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from bbrgym.agents.training.loop import REWARD

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw_curve(metrics: pl.DataFrame, validation: pl.DataFrame) -> Figure:
    """Draw the validation score (mean and interquartile range over the runs) and the training's reward, over steps."""
    from matplotlib.figure import Figure  # Matplotlib, which only the end of a training needs

    figure = Figure(figsize=(8, 5), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True)
    scores = validation.group_by("step", maintain_order=True).agg(
        pl.col("score").mean().alias("mean"),
        pl.col("score").quantile(0.25).alias("low"),
        pl.col("score").quantile(0.75).alias("high"),
    )
    upper.fill_between(scores["step"], scores["low"], scores["high"], alpha=0.2, linewidth=0)
    upper.plot(scores["step"], scores["mean"], marker=".")
    _label(upper, "validation score")
    if REWARD in metrics.columns:
        rewards = metrics.drop_nulls(REWARD)
        lower.plot(rewards["step"], rewards[REWARD])
    _label(lower, "reward of a step")
    lower.set_xlabel("steps")
    return figure


def _label(axes: Axes, text: str) -> None:
    axes.set_ylabel(text)
    axes.grid(alpha=0.3)
