# SPDX-License-Identifier: GPL-2.0-only
"""A picture of the run so far: what each flow got, how long packets waited, what the controller set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from bbrgym.worlds import Table

_WIDTH_PX, _HEIGHT_PX, _DPI = 960, 720, 96
_MAX_LEGEND = 16  # more names would hide the lines


class History:
    """The intervals of one run, and how to draw them."""

    def __init__(self, title: str, duration_s: float, flow_names: Sequence[str], setting_names: Sequence[str]) -> None:
        self._title = title
        self._duration_s = duration_s
        self._flow_names = flow_names
        self._setting_names = setting_names
        self._now_s: list[float] = []
        self._goodput_mbps: list[Table] = []
        self._rtt_ms: list[Table] = []
        self._queue_delay_ms: list[float] = []
        self._settings: list[Table] = []

    def add(self, now_s: float, flows: Mapping[str, Table], link: Mapping[str, float], settings: Table) -> None:
        """One interval that ended now; settings from 0 to 1."""
        self._now_s.append(now_s)
        self._goodput_mbps.append(flows["goodput_mbps"].copy())
        self._rtt_ms.append(np.where(flows["rtt_mean_ms"] > 0, flows["rtt_mean_ms"], np.nan))
        self._queue_delay_ms.append(link["queue_delay_mean_ms"])
        self._settings.append(settings)

    def draw(self) -> NDArray[np.uint8]:
        """RGB image [720, 960, 3]."""
        figure = Figure((_WIDTH_PX / _DPI, _HEIGHT_PX / _DPI), dpi=_DPI, layout="constrained")
        canvas = FigureCanvasAgg(figure)  # no pyplot: nothing global, any thread
        goodput, delay, setting = figure.subplots(3, 1, sharex=True)
        figure.suptitle(self._title)
        self._plot(goodput, self._goodput_mbps, self._flow_names)
        goodput.set_ylabel("goodput (Mbit/s)")
        self._plot(delay, self._rtt_ms, [f"RTT {name}" for name in self._flow_names])
        delay.plot(self._now_s, self._queue_delay_ms, color="black", linestyle=":", label="queue")
        delay.set_ylabel("delay (ms)")
        self._plot(setting, self._settings, self._setting_names)
        setting.set_ylabel("tunables (part of range)")
        setting.set_ylim(-0.05, 1.05)
        setting.set_xlabel("simulated time (s)")
        setting.set_xlim(0.0, self._duration_s)
        for axes in (goodput, delay, setting):
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
