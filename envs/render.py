# SPDX-License-Identifier: GPL-2.0-only
"""Image of an episode so far: goodput, delays and tunables over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bbrgym.worlds import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDTH_PX, _HEIGHT_PX, _DPI = 960, 720, 96
_MAX_LEGEND = 16  # more names would hide the lines


class History:
    """Intervals of an episode, to be drawn.

    Args:
        title: title of the image.
        duration_s: end of the time axis.
        flow_names: names of the flows.
        tunable_names: labels of the tunables.
    """

    def __init__(self, title: str, duration_s: float, flow_names: Sequence[str], tunable_names: Sequence[str]) -> None:
        self._title = title
        self._duration_s = duration_s
        self._flow_names = flow_names
        self._tunable_names = tunable_names
        self._now_s: list[float] = []
        self._goodput_mbps: list[Table] = []
        self._rtt_ms: list[Table] = []
        self._queue_delay_ms: list[float] = []
        self._tunables: list[Table] = []

    def add(self, now_s: float, flows: Mapping[str, Table], link: Mapping[str, float], tunables: Table) -> None:
        """Add an interval.

        Args:
            now_s: simulated time of its end.
            flows: measurements by field, [flows] each.
            link: measurements of the link by field.
            tunables: fractions of the ranges of the tunables, from 0 to 1.
        """
        self._now_s.append(now_s)
        self._goodput_mbps.append(flows["goodput_mbps"].copy())
        self._rtt_ms.append(np.where(flows["rtt_mean_ms"] > 0, flows["rtt_mean_ms"], np.nan))
        self._queue_delay_ms.append(link["queue_delay_mean_ms"])
        self._tunables.append(tunables)

    def draw(self) -> NDArray[np.uint8]:
        """Return an RGB image [720, 960, 3]."""
        from matplotlib.backends.backend_agg import (
            FigureCanvasAgg,
        )  # takes longer than all else that an episode imports
        from matplotlib.figure import Figure

        figure = Figure((_WIDTH_PX / _DPI, _HEIGHT_PX / _DPI), dpi=_DPI, layout="constrained")
        canvas = FigureCanvasAgg(figure)  # no pyplot: nothing global, any thread
        goodput, delay, tunable = figure.subplots(3, 1, sharex=True)
        figure.suptitle(self._title)
        self._plot(goodput, self._goodput_mbps, self._flow_names)
        goodput.set_ylabel("goodput (Mbit/s)")
        self._plot(delay, self._rtt_ms, [f"RTT {name}" for name in self._flow_names])
        delay.plot(self._now_s, self._queue_delay_ms, color="black", linestyle=":", label="queue")
        delay.set_ylabel("delay (ms)")
        self._plot(tunable, self._tunables, self._tunable_names)
        tunable.set_ylabel("tunables (fraction of range)")
        tunable.set_ylim(-0.05, 1.05)
        tunable.set_xlabel("simulated time (s)")
        tunable.set_xlim(0.0, self._duration_s)
        for axes in (goodput, delay, tunable):
            axes.grid(alpha=0.3)
            if len(axes.lines) <= _MAX_LEGEND:
                axes.legend(loc="upper left", fontsize="x-small", ncols=4)
        canvas.draw()  # type: ignore[no-untyped-call]
        pixels: NDArray[np.uint8] = np.asarray(canvas.buffer_rgba())  # type: ignore[no-untyped-call]
        return np.array(pixels[:, :, :3])

    def _plot(self, axes: Axes, rows: list[Table], names: Sequence[str]) -> None:
        columns = np.reshape(rows, (len(rows), len(names)))
        for i, name in enumerate(names):
            axes.plot(self._now_s, columns[:, i], label=name)
