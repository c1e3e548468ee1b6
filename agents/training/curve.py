# SPDX-License-Identifier: GPL-2.0-only
"""Figure of a training's curve."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


REWARD = "rollout/reward"  # a metric


def draw_curve(metrics: pl.DataFrame, validation: pl.DataFrame, variant: str, to_beat: float | None) -> Figure:
    """Draw the validation score (mean and interquartile range over the runs) and the training's reward, over steps.

    Args:
        metrics: of the training.
        validation: score of each run of each validation.
        variant: whose tunables are set.
        to_beat: score of its preset in the same runs. None: it is not drawn.
    """
    from matplotlib.figure import Figure  # Matplotlib, which only checkpoints need

    figure = Figure(figsize=(8, 5), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True)
    scores = validation.group_by("step", maintain_order=True).agg(
        pl.col("score").mean().alias("mean"),
        pl.col("score").quantile(0.25).alias("low"),
        pl.col("score").quantile(0.75).alias("high"),
    )
    band = {"alpha": 0.2, "linewidth": 0, "label": "middle half of the runs"}
    upper.fill_between(scores["step"], scores["low"], scores["high"], **band)
    upper.plot(scores["step"], scores["mean"], marker=".", label="agent, mean")
    if to_beat is not None:
        upper.axhline(to_beat, color="black", linestyle="--", linewidth=1.0, label=f"to beat: {variant}'s preset")
    upper.legend()
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
