# SPDX-License-Identifier: GPL-2.0-only
"""Image of an episode so far: goodput, delays and tunables over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bbrgym.worlds import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDTH_PX, _HEIGHT_PX, _DPI = 960, 720, 96
_MARGINS = {"left": 0.09, "right": 0.985, "bottom": 0.07, "top": 0.94, "hspace": 0.07}
_Y_LABEL_X = -0.065  # fixed: tick labels of any width leave it in place
_TICK_LABEL_PX = 6  # of which a tick label reaches over the end of its axis
_MAX_LEGEND = 16  # more names would hide the lines
_TOPS = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0)  # ends of an axis, times powers of 10


@dataclass
class _Panel:
    """One of the plots: lines, to which each interval adds a row of values."""

    label: str
    names: Sequence[str]
    colours: Sequence[str]
    styles: Sequence[Any]
    highest: float = 0.0
    rows: list[Table] = field(default_factory=list)

    def add(self, row: Table) -> None:
        self.rows.append(row)
        self.highest = max(self.highest, float(np.max(row, initial=0.0, where=np.isfinite(row))))


class History:
    """Intervals of an episode, to be drawn."""

    def __init__(self, title: str, duration_s: float, flow_names: Sequence[str], tunable_names: Sequence[str]) -> None:
        flows, rtts = len(flow_names), [f"RTT {name}" for name in flow_names]
        self._title = title
        self._duration_s = duration_s
        self._now_s: list[float] = []
        self._goodput = _Panel("goodput (Mbit/s)", flow_names, _cycle(flows), ["-"] * flows)
        self._delay = _Panel("delay (ms)", [*rtts, "queue"], [*_cycle(flows), "black"], ["-"] * flows + [":"])
        count = len(tunable_names)
        self._tunables = _Panel("tunables (fraction of range)", tunable_names, _cycle(count), ["-"] * count, 1.0)
        self._picture: _Picture | None = None

    def add(self, now_s: float, flows: Mapping[str, Table], link: Mapping[str, float], tunables: Table) -> None:
        """Add an interval."""
        self._now_s.append(now_s)
        self._goodput.add(flows["goodput_mbps"].copy())
        rtt_ms = np.where(flows["rtt_mean_ms"] > 0, flows["rtt_mean_ms"], np.nan)
        self._delay.add(np.append(rtt_ms, link["queue_delay_mean_ms"]))
        self._tunables.add(tunables)

    def draw(self) -> NDArray[np.uint8]:
        """Return an RGB image [720, 960, 3] that depends on the intervals alone, not on earlier images."""
        if self._picture is None:
            panels = (self._goodput, self._delay, self._tunables)
            self._picture = _Picture(self._title, self._duration_s, panels)
        return self._picture.draw(self._now_s)


class _Picture:
    """Picture of panels, of which a frame draws only what is new."""

    def __init__(self, title: str, duration_s: float, panels: Sequence[_Panel]) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # takes longer than all else an episode imports
        from matplotlib.figure import Figure

        figure = Figure((_WIDTH_PX / _DPI, _HEIGHT_PX / _DPI), dpi=_DPI)
        self._canvas: Any = FigureCanvasAgg(figure)  # no pyplot: nothing global, any thread
        axes = figure.subplots(len(panels), 1, sharex=True, gridspec_kw=_MARGINS)
        figure.suptitle(title)
        axes[-1].set_xlabel("simulated time (s)")
        axes[-1].set_xlim(0.0, duration_s)
        self._plots = [_Plot(self._canvas, *one) for one in zip(axes, panels, strict=True)]
        self._canvas.draw()  # type: ignore[no-untyped-call]
        for plot in self._plots:
            plot.keep()

    def draw(self, now_s: Sequence[float]) -> NDArray[np.uint8]:
        """Return the image with all intervals, [720, 960, 3]."""
        for plot in self._plots:
            plot.draw(np.array(now_s))
        return np.array(np.asarray(self._canvas.buffer_rgba())[:, :, :3])


class _Plot:
    """Plot of a panel, drawn in this order: what never changes, the y axis, the lines, the legend.

    What never changes, and the y axis of these limits, are kept as pixels.
    """

    def __init__(self, canvas: Any, axes: Axes, panel: _Panel) -> None:
        from matplotlib.collections import LineCollection
        from matplotlib.lines import Line2D

        self._canvas, self._axes, self._panel = canvas, axes, panel
        self._background: Any = None
        self._top = 0.0  # end of the y axis
        looks: Any = {"capstyle": "projecting", "joinstyle": "round", "animated": True}  # as a Line2D's
        self._lines = LineCollection([], colors=panel.colours, linestyles=panel.styles, **looks)
        axes.add_collection(self._lines, autolim=False)
        axes.grid(alpha=0.3)
        axes.set_ylabel(panel.label)
        axes.yaxis.set_label_coords(_Y_LABEL_X, 0.5)
        axes.yaxis.set_animated(True)
        shown = zip(panel.names, panel.colours, panel.styles, strict=True)
        handles = [Line2D([], [], label=name, color=colour, linestyle=style) for name, colour, style in shown]
        if len(handles) <= _MAX_LEGEND:  # opaque and with square corners, so that its pixels can be put above lines
            axes.legend(handles=handles, loc="upper left", fontsize="x-small", ncols=4, framealpha=1.0, fancybox=False)

    def keep(self) -> None:
        """Keep the pixels of what never changes, just drawn."""
        from matplotlib.transforms import Bbox

        _, low, _, high = self._axes.bbox.extents
        self._area = Bbox.from_extents(0, int(low) - _TICK_LABEL_PX, _WIDTH_PX, int(high) + _TICK_LABEL_PX)
        self._blank = self._canvas.copy_from_bbox(self._area)
        legend = self._axes.get_legend()
        self._legend = legend and self._canvas.copy_from_bbox(legend.get_window_extent().padded(1))

    def draw(self, now_s: Table) -> None:
        """Draw the plot with all intervals, whose times are given."""
        top = _top(self._panel.highest)
        if top != self._top:
            self._top = top
            self._canvas.restore_region(self._blank)
            self._axes.set_ylim(-0.05 * top, 1.05 * top)
            self._axes.draw_artist(self._axes.yaxis)
            self._background = self._canvas.copy_from_bbox(self._area)
        self._canvas.restore_region(self._background)
        rows = np.reshape(self._panel.rows, (len(now_s), len(self._panel.names)))
        self._lines.set_segments([np.column_stack((now_s, column)) for column in rows.T])
        self._axes.draw_artist(self._lines)
        if self._legend is not None:
            self._canvas.restore_region(self._legend)


def _cycle(count: int) -> list[str]:
    """Return Matplotlib's colours of so many lines."""
    return [f"C{i % 10}" for i in range(count)]


def _top(highest: float) -> float:
    """Return the end of an axis for a largest value: rarely another one, so that few frames draw the axis again."""
    if highest <= 0.0:
        return 1.0
    unit = 10.0 ** np.floor(np.log10(highest))
    return float(next((unit * one for one in _TOPS if unit * one >= highest), unit * _TOPS[-1]))
