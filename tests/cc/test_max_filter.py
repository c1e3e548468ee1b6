# SPDX-License-Identifier: GPL-2.0-only
"""The three-sample windowed maximum against the maximum over all samples of the window."""

from hypothesis import given
from hypothesis import strategies as st

from bbrgym import _cc

SERIES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1000)), min_size=1, max_size=200)


def feed(series: list[tuple[int, int]], window: int) -> list[tuple[int, int, int, int]]:
    """(time, value, what the filter says, what brute force says) after each sample."""
    tested = _cc.MaxFilter()
    seen: list[tuple[int, int]] = []
    time = 0
    rows = []
    for step, value in series:
        time += step
        seen.append((time, value))
        exact = max(v for t, v in seen if time - t <= window)
        rows.append((time, value, tested.update(time, window, value), exact))
    return rows


@given(SERIES, st.integers(4, 40))
def test_never_above_the_exact_maximum_and_never_below_the_newest(series: list[tuple[int, int]], window: int) -> None:
    for _time, value, filtered, exact in feed(series, window):
        assert value <= filtered <= exact


@given(SERIES, st.integers(4, 40))
def test_a_maximum_is_taken_at_once_and_kept_for_its_window(series: list[tuple[int, int]], window: int) -> None:
    best_time = best = -1
    for time, value, filtered, exact in feed(series, window):
        if value == exact:
            best, best_time = value, time
        if time - best_time <= window:
            assert filtered == best == exact


@given(st.integers(1, 1000), st.integers(4, 40))
def test_a_maximum_is_forgotten_after_its_window(peak: int, window: int) -> None:
    rows = feed([(0, peak), *[(1, 0)] * (window + 1)], window)
    assert [filtered for *_, filtered, _exact in rows] == [peak] * (window + 1) + [0]


def test_a_falling_series_by_the_kernels_rules() -> None:
    # Worked out by hand: e0 leaves after 10 rounds; e1 was set at dt 3 (> 10/4), e2 at dt 6 (> 10/2) after it.
    falling = [(1, v) for v in (100, 90, 80, 70, 60, 50, 40, 30, 20, 10, 9, 8, 7)]
    filtered = [row[2] for row in feed(falling, 10)]
    assert filtered[:11] == [100] * 11
    assert filtered[11] == 70
