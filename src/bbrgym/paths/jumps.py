# SPDX-License-Identifier: GPL-2.0-only
"""Finds where a path's delay jumped in the samples of a connection.

Time is cut into bins of a quarter of a second and two RTTs, of each of which the least RTT counts. Between four bins
and four later ones (two after a fall, whose burst of ACKs lets senders overshoot), with one between them, the delay
jumped by the difference of their least RTTs if

- the two least RTTs of each side differ by at most a quarter of the jump, as a growing queue's do not;
- ACKs paused for longer than before by at least half of it, where the delay rose: a busy link goes on delivering;
- ACKs came sooner by at least half of it, where the delay fell: from a queue that drains, none come faster.

From jump to jump the delay is the least RTT but for the first and the last bin, so a queue that never emptied is in it.
If these delays differ by something else than the jumps, by more than half, a jump was missed, and none is told. Nor is
one where samples are rarer than ten in a second, connections share the path, or a capture lacks SACK blocks, without
which delivery leaps at a gap's end.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bbrgym.paths.series import PathSeries, nan_min

_BIN_S, _BIN_RTTS = 0.25, 2.0  # a bin is the longer of these
_MOST_STEP_S = 0.11  # from sample to sample
_SIDE, _SIDE_OF_FALL = 4, 2  # bins on each side of a jump, and after a fall
_LEAST_S, _LEAST_RTTS, _LEAST_PKTS = 0.005, 0.1, 4.0  # a jump is at least the longest of these
_STEADY, _PAUSE, _ERROR = 0.25, 0.5, 0.5  # of a jump: spread of a side's floor, pause of the ACKs, error of the delays


@dataclass(frozen=True)
class DelaySteps:
    """One-way delay that a path has beyond its least, [steps] each."""

    times_s: NDArray[np.float64]  # from 0 on, the first sample's
    delays_s: NDArray[np.float64]

    def at(self, times_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the delay at times from the first sample on."""
        return np.asarray(self.delays_s[np.searchsorted(self.times_s, times_s, side="right") - 1])


def delay_steps(series: PathSeries) -> DelaySteps | None:
    """Return the steps of a path's delay; None: it is not seen to jump."""
    known = ~np.isnan(series.rtt_s)
    time_s, rtt_s = series.time_s[known] - series.time_s[0], series.rtt_s[known]
    delivered = series.delivered_bytes[known]
    step_s = float(np.median(np.diff(time_s))) if len(time_s) > _SIDE else np.inf
    if step_s > _MOST_STEP_S or series.connections > 1 or series.largest.options_cut:
        return None
    bin_s = max(_BIN_S, _BIN_RTTS * series.floor_s)
    cuts = np.searchsorted(time_s, np.arange(0.0, time_s[-1], bin_s))
    floors_s = np.array([nan_min(rtt_s[begin:end]) for begin, end in itertools.pairwise(cuts)])
    packet_s = series.mss_bytes * time_s[-1] / max(np.ptp(delivered), 1.0)
    least_s = max(_LEAST_S, _LEAST_RTTS * series.floor_s, _LEAST_PKTS * packet_s)
    steps, at = [(0.0, 0.0)], _SIDE
    while at + _SIDE < len(floors_s):
        end = at + 1 + (_SIDE_OF_FALL if floors_s[at + 1] < floors_s[at - 1] else _SIDE)
        before_s, after_s = np.sort(floors_s[at - _SIDE : at]), np.sort(floors_s[at + 1 : end])
        jump_s = float(after_s[0] - before_s[0])
        is_steady = max(before_s[1] - before_s[0], after_s[1] - after_s[0]) <= _STEADY * abs(jump_s)
        is_seen = not np.isnan(floors_s[at - _SIDE : end]).any()
        if is_seen and is_steady and abs(jump_s) >= least_s:
            before, own, after = (
                slice(cuts[a], cuts[b]) for a, b in ((at - _SIDE, at), (at - 1, at + 2), (at + 1, end))
            )
            rates = [np.ptp(delivered[side]) / np.ptp(time_s[side]) for side in (before, after)]
            usual_s, shift_s = (_shift_s(time_s[part], delivered[part], rates, jump_s) for part in (before, own))
            is_old = (rtt_s[own] - before_s[0]) * np.sign(jump_s) < abs(jump_s) / 2
            if shift_s - usual_s >= _PAUSE * abs(jump_s) and is_old.any() and not is_old.all():
                index = np.flatnonzero(is_old)[-1] if jump_s > 0 else np.argmin(is_old)
                steps.append((float(time_s[own][index]), jump_s))
                at += _SIDE_OF_FALL
        at += 1
    times_s, jumps_s = np.array(steps).T
    begins_s, ends_s = times_s + bin_s * (times_s > 0), np.append(times_s[1:] - bin_s, np.inf)
    levels_s = np.array([nan_min(rtt_s[(time_s >= a) & (time_s < b)]) for a, b in zip(begins_s, ends_s, strict=True)])
    is_told = len(steps) > 1 and np.all(np.abs(np.diff(levels_s) - jumps_s[1:]) <= _ERROR * np.abs(jumps_s[1:]))
    return DelaySteps(times_s, levels_s - levels_s.min()) if is_told else None


def _shift_s(time_s: NDArray[np.float64], delivered: NDArray[np.float64], rates: list[float], jump_s: float) -> float:
    """Return how long ACKs paused by the lower rate, or the time that they gained by the higher one."""
    rate = max((min if jump_s > 0 else max)(rates), 1.0)
    late_s = (time_s - delivered / rate) * np.sign(jump_s)
    return float((late_s - np.minimum.accumulate(late_s)).max())
