# SPDX-License-Identifier: GPL-2.0-only
"""Figures on paper: specifications drawn by Matplotlib, as PNG, PDF or SVG files."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Literal

import matplotlib
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import Colormap, LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from bbrgym.evaluate.statistics import Estimate
from bbrgym.processes import end_with_parent
from bbrgym.report.figure_spec import (
    TICK_HEIGHT,
    Axis,
    Bands,
    Bars,
    FigureSpec,
    HeatMap,
    Line,
    Panel,
    Points,
    Series,
    Ticks,
)
from bbrgym.report.output_settings import FigureSettings
from bbrgym.runs.atomic_files import write_atomically

_DPI = 130
_PNG_LEVEL = 1  # of zlib's: an eighth more bytes than by default, in two thirds of the time
_SHARE = 8  # figures at least of each process: to load Matplotlib takes as long as to draw two or three
_LEGEND_COLUMNS = 4  # at most
_LEGEND_TEXT = 12.0  # characters per inch of a legend's text
_LEGEND_SYMBOL = 7  # characters that a symbol and the room around it take
_LONG_TITLE = 9.0  # characters per inch of width from which on a heading is set smaller
_SMALL = 4.0  # size of a symbol in points below which it has no edge
_DASHES = {"solid": "-", "dash": "--", "dot": ":"}
_SYMBOLS = {"circle": "o", "diamond": "D"}
_DIVERGING = LinearSegmentedColormap.from_list("diverging", ["#D55E00", "#FFFFFF", "#0072B2"])


# Same specification, same bytes: no dates, and names of parts that do not differ from run to run.
_METADATA: dict[str, dict[str, None]] = {"png": {}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}
_FILES: dict[str, Any] = {"pdf.fonttype": 42, "svg.hashsalt": "bbrgym"}
_STYLE: dict[str, Any] = {"axes.titley": 1.0}  # titles stay there: no labels are above a panel, where to look is slow

# Widths of one and of both columns of the usual two-column papers, and letters as small as their captions'.
_PAPER_WIDTHS_IN = (3.35, 7.0)
_PAPER_SCALE = 0.64  # of heights and of letters
_PAPER_LINES = 0.75  # of the width of lines and the size of symbols
_PAPER: dict[str, Any] = {
    "font.size": 7,
    "figure.titlesize": 7,
    "axes.titlesize": 7,
    "axes.labelsize": 7,
    "axes.labelpad": 2,
    "axes.linewidth": 0.5,
    "grid.linewidth": 0.4,
    "legend.fontsize": 6.5,
    "legend.handlelength": 1.6,
    "legend.columnspacing": 1.2,
    **{f"{letter}tick.labelsize": 6.5 for letter in "xy"},
    **{f"{letter}tick.major.{what}": value for letter in "xy" for what, value in (("width", 0.5), ("size", 2.5))},
    **{f"{letter}tick.minor.{what}": value for letter in "xy" for what, value in (("width", 0.4), ("size", 1.5))},
}


def write_figures(folder: Path, specs: Iterable[FigureSpec], settings: FigureSettings | None = None) -> None:
    """Write each figure as ``<name>.png``, or in the format and style of settings, whole or not at all.

    Many are drawn on all cores.
    """
    specs = list(specs)
    write = partial(_write_figures, folder, settings=FigureSettings() if settings is None else settings)
    shares = max(1, min(len(os.sched_getaffinity(0)), len(specs) // _SHARE))
    if shares == 1:
        write(specs)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(shares - 1, context, initializer=end_with_parent, initargs=(os.getpid(),)) as pool:
        others = [pool.submit(write, specs[number::shares]) for number in range(1, shares)]
        write(specs[::shares])
        for other in others:
            other.result()


def _write_figures(folder: Path, specs: Sequence[FigureSpec], settings: FigureSettings) -> None:
    ending = settings.format or "png"
    of_style: Any = _FILES | _STYLE | (_PAPER if settings.style == "paper" else {})
    with matplotlib.rc_context(of_style):
        for spec in specs:
            figure = draw(spec, settings.style)
            save: Callable[..., None] = partial(figure.savefig, format=ending, dpi=_DPI)
            if ending == "png":  # savefig draws once more, for what other formats and styles need
                save = partial(FigureCanvasAgg(figure).print_png, pil_kwargs={"compress_level": _PNG_LEVEL})
            write = partial(save, metadata=_METADATA[ending])
            write_atomically(folder / f"{spec.name}.{ending}", write)


def draw(spec: FigureSpec, style: Literal["screen", "paper"] = "screen") -> Figure:
    """Return a specification as a Matplotlib figure."""
    is_paper = style == "paper"
    width_in, height_in = spec.width_in, spec.height_in
    if is_paper:
        width_in, height_in = _PAPER_WIDTHS_IN[spec.columns > 1], _PAPER_SCALE * height_in
    figure = Figure(figsize=(width_in, height_in), dpi=_DPI, layout="constrained")
    FigureCanvasAgg(figure)
    grid: list[Axes] = (
        figure.subplots(
            spec.rows,
            spec.columns,
            sharex=spec.shares_x,
            sharey=spec.shares_y,
            squeeze=False,
            width_ratios=spec.column_widths or None,
        )
        .ravel()
        .tolist()
    )
    for axes in grid[len(spec.panels) :]:
        axes.set_visible(False)
    for axes, panel in zip(grid, spec.panels, strict=False):
        _draw_panel(figure, axes, panel)
    _draw_axes(figure, grid, spec)
    if is_paper:
        for line in (line for axes in grid for line in axes.lines):
            line.set(linewidth=_PAPER_LINES * line.get_linewidth(), markersize=_PAPER_LINES * line.get_markersize())
    if spec.has_legend:
        _draw_legend(figure, grid, width_in / (_PAPER_SCALE if is_paper else 1.0))
    if not is_paper:  # which has a caption
        heading = spec.subject or spec.title
        figure.suptitle(heading, fontsize="medium" if len(heading) > _LONG_TITLE * spec.width_in else "large")
    return figure


def _draw_panel(figure: Figure, axes: Axes, panel: Panel) -> None:
    if panel.title:
        axes.set_title(panel.title, fontsize="medium", loc="left")
    if not any(isinstance(series, HeatMap) for series in panel.series):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
        axes.set_axisbelow(True)
    for series in panel.series:
        if isinstance(series, HeatMap):
            _draw_heat_map(figure, axes, series)
        else:
            _DRAW[type(series)](axes, series)


def _draw_bands(axes: Axes, bands: Bands) -> None:
    corners = [[(begin, 0), (begin, 1), (end, 1), (end, 0)] for begin, end in bands.spans]
    style: dict[str, Any] = {"facecolor": bands.colour, "alpha": bands.opacity, "linewidth": 0, "zorder": 0.5}
    axes.add_collection(
        PolyCollection(corners, transform=axes.get_xaxis_transform(), label=bands.label, **style), autolim=False
    )


def _draw_ticks(axes: Axes, ticks: Ticks) -> None:
    lines = [[(at, 1 - TICK_HEIGHT), (at, 1)] for at in ticks.at]
    style: dict[str, Any] = {"color": ticks.colour, "linewidth": 0.8, "label": ticks.label}
    axes.add_collection(LineCollection(lines, transform=axes.get_xaxis_transform(), **style), autolim=False)


def _draw_line(axes: Axes, line: Line) -> None:
    if line.band is not None:
        axes.fill_between(np.asarray(line.x), *line.band, color=line.colour, alpha=0.15, linewidth=0)
    if line.fill:
        axes.fill(np.asarray(line.x), np.asarray(line.y), color=line.colour, alpha=line.fill, linewidth=0)
    axes.plot(
        np.asarray(line.x),
        np.asarray(line.y),
        color=line.colour,
        label=line.label,
        linewidth=line.width,
        linestyle=_DASHES[line.dash] if line.width else "none",
        alpha=line.opacity,
        marker=_SYMBOLS[line.symbol] if line.symbol else None,
        markersize=line.symbol_size,
        markeredgewidth=0 if line.symbol_size < _SMALL else None,
        drawstyle="steps-pre" if line.is_stepped else "default",
    )


def _draw_points(axes: Axes, points: Points) -> None:
    values = [estimate.value for estimate in points.estimates]
    style: dict[str, Any] = {"fmt": _SYMBOLS[points.symbol], "color": points.colour, "label": points.label}
    style |= {"markersize": 5, "capsize": 2, "elinewidth": 1, f"{points.along}err": _errors(points.estimates)}
    axes.errorbar(*((values, points.positions) if points.along == "x" else (points.positions, values)), **style)


def _draw_bars(axes: Axes, bars: Bars) -> None:
    axes.barh(
        bars.positions,
        [estimate.value for estimate in bars.estimates],
        height=bars.thickness,
        xerr=_errors(bars.estimates),
        color=bars.colour,
        alpha=bars.opacity,
        label=bars.label,
        error_kw={"elinewidth": 1, "capsize": 2},
    )


_DRAW: dict[type[Series], Callable[[Axes, Any], None]] = {
    Line: _draw_line,
    Points: _draw_points,
    Bars: _draw_bars,
    Bands: _draw_bands,
    Ticks: _draw_ticks,
}


def _errors(estimates: Sequence[Estimate]) -> npt.NDArray[np.float64]:
    """Return the lengths of error bars, below and above the values; NaN draws none.

    Of equal values the mean and the ends of its interval differ by rounding, on either side.
    """
    lengths = [[one.value - one.low for one in estimates], [one.high - one.value for one in estimates]]
    return np.maximum(0.0, lengths)


def _draw_heat_map(figure: Figure, axes: Axes, heat_map: HeatMap) -> None:
    colours: str | Colormap = "viridis" if heat_map.colours == "sequential" else _DIVERGING
    image = axes.imshow(heat_map.values, origin="lower", aspect="auto", cmap=colours)
    if heat_map.limits is not None:
        image.set_clim(*heat_map.limits)
    if heat_map.shows_values:
        is_dark = np.asarray(image.norm(heat_map.values), np.float64) < 0.5
        for (row, column), value in np.ndenumerate(heat_map.values):
            text = "" if np.isnan(value) else f"{value:.0f}"
            shade = "white" if heat_map.colours == "sequential" and is_dark[row, column] else "black"
            axes.text(column, row, text, ha="center", va="center", fontsize="small", color=shade)
    figure.colorbar(image, ax=axes, label=heat_map.title)


def _draw_axes(figure: Figure, grid: Sequence[Axes], spec: FigureSpec) -> None:
    """Set scales, limits, names and titles; of shared axes once."""
    for index, (axes, panel) in enumerate(zip(grid, spec.panels, strict=False)):
        if index == 0 or not spec.shares_x:
            _set_axis(axes, "x", panel.x)
        if index == 0 or not spec.shares_y:
            _set_axis(axes, "y", panel.y)
        if not spec.shares_x or index + spec.columns >= len(spec.panels):  # no panel is below
            axes.set_xlabel(panel.x.title)
            axes.tick_params(labelbottom=True)
        if not spec.shares_y or len(spec.panels) == 1:
            axes.set_ylabel(panel.y.title)
    if spec.shares_y and len(spec.panels) > 1 and spec.panels[0].y.title:
        figure.supylabel(spec.panels[0].y.title, fontsize="medium")


def _set_axis(axes: Axes, letter: str, axis: Axis) -> None:
    if axis.scale == "log":
        getattr(axes, f"set_{letter}scale")("log")
        ticks = getattr(axes, f"{letter}axis")
        ticks.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        ticks.set_major_formatter(StrMethodFormatter("{x:g}"))
        ticks.set_minor_formatter(NullFormatter())
    if axis.names:
        getattr(axes, f"set_{letter}ticks")(range(len(axis.names)), axis.names)
    if axis.limits is not None:
        getattr(axes, f"set_{letter}lim")(*axis.limits)
    elif axis.starts_at_zero:
        getattr(axes, f"set_{letter}lim")(0, None)
    if axis.is_reversed:
        getattr(axes, f"invert_{letter}axis")()


def _draw_legend(figure: Figure, grid: Sequence[Axes], width_in: float) -> None:
    """Draw one legend for all panels, each name once, in as many columns as fit."""
    entries: dict[str, Any] = {}
    for axes in grid:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    fitting = int(_LEGEND_TEXT * width_in / (max(map(len, entries)) + _LEGEND_SYMBOL))
    columns = max(1, min(_LEGEND_COLUMNS, fitting))
    figure.legend(list(entries.values()), list(entries), loc="outside lower center", ncols=columns, frameon=False)
