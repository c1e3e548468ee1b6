# SPDX-License-Identifier: GPL-2.0-only
"""Images of episodes: one drawn interval by interval is that of the whole episode drawn at once."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bbrgym.envs.render import History

pytest.importorskip("matplotlib", reason="NO MATPLOTLIB: nothing is drawn here")

INTERVALS = 40


def empty() -> History:
    return History("an episode", INTERVALS / 10, ["a", "b"], ["bbq_beta"])


def add(history: History, interval: int, rate: float) -> None:
    """Add an interval whose flows reach a rate; the first have no RTT yet."""
    draws = np.random.default_rng(interval).random(6)
    flows = {"goodput_mbps": rate * draws[:2], "rtt_mean_ms": rate * draws[2:4] * (interval > 3)}
    history.add((interval + 1) / 10, flows, {"queue_delay_mean_ms": rate * draws[4]}, draws[5:])


def whole(rates: Sequence[float]) -> History:
    history = empty()
    for interval, rate in enumerate(rates):
        add(history, interval, rate)
    return history


@settings(max_examples=8, deadline=None)
@given(st.lists(st.floats(0.0, 1e5), min_size=1, max_size=INTERVALS), st.sets(st.integers(0, INTERVALS - 1)))
def test_an_image_depends_on_the_intervals_and_not_on_the_images_before(rates: list[float], drawn: set[int]) -> None:
    history = empty()
    for interval, rate in enumerate(rates):
        add(history, interval, rate)
        if interval in drawn:
            history.draw()
    image = history.draw()
    assert np.array_equal(image, history.draw())
    assert np.array_equal(image, whole(rates).draw())


def test_every_interval_changes_the_image_and_the_figure_is_drawn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    draws, draw = [], FigureCanvasAgg.draw
    monkeypatch.setattr(FigureCanvasAgg, "draw", lambda canvas: (draws.append(canvas), draw(canvas))[1])
    history = empty()
    images = [history.draw()]
    for interval in range(INTERVALS):
        add(history, interval, 50.0)
        images.append(history.draw())
    # A line needs two intervals.
    assert all(np.any(one != two) for one, two in pairwise(images[1:]))
    assert len(draws) == 1  # what never changes; it takes most of the time


def test_lines_end_where_the_data_ends() -> None:
    image = whole([50.0] * (INTERVALS // 2)).draw()
    middle = image.shape[1] * (0.09 + 0.985) / 2  # of the time axis
    right = image[:, int(middle) + 4 : -40]
    assert np.all(np.ptp(right.astype(int), axis=2) == 0)  # grey alone: grid and frame, no coloured line
