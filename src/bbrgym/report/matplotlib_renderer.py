# SPDX-License-Identifier: GPL-2.0-only
"""Figures on paper: specifications drawn by Matplotlib, as PNG, PDF or SVG files."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from itertools import repeat
from pathlib import Path
from typing import Any, Literal

import matplotlib
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.axis import Axis as AxisArtist
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import Colormap, LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.markers import TICKDOWN, TICKLEFT
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter
from matplotlib.transforms import ScaledTranslation
from PIL import Image

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
_GRID_OPACITY = 0.25
_SMALL = 4.0  # size of a symbol in points below which it has no edge
_DASHES = {"solid": "-", "dash": "--", "dot": ":"}
_SYMBOLS = {"circle": "o", "diamond": "D"}
_MARGIN_IN = 0.06  # around texts and panels
_TICK_IN = 0.1  # from a panel to the labels of its ticks
_PAD_IN = 0.04  # from the labels of ticks to the name of their axis
_NAME_IN = 0.08  # around the name of an axis, or the title of a panel
_SCALE_IN = 0.13  # width of a scale of colours, and its distance from the panel
_LINE_HEIGHT = 1.2  # of a text, as a multiple of the size of its letters
_DIVERGING = LinearSegmentedColormap.from_list("diverging", ["#D55E00", "#FFFFFF", "#0072B2"])


# Same specification, same bytes: no dates, and names of parts that do not differ from run to run.
_METADATA: dict[str, dict[str, None]] = {"png": {}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}
_FILES: dict[str, Any] = {"pdf.fonttype": 42, "svg.hashsalt": "bbrgym"}
_STYLE: dict[str, Any] = {"axes.titley": 1.0, "text.hinting": "none"}  # to look for labels above, and to hint, is slow

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
                save = partial(_save_png, figure.canvas)
            write = partial(save, metadata=_METADATA[ending])
            write_atomically(folder / f"{spec.name}.{ending}", write)


def _save_png(canvas: Any, path: Path, metadata: object) -> None:  # noqa: ARG001 - of other formats
    canvas.draw()
    picture = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
    picture.save(path, "png", compress_level=_PNG_LEVEL, dpi=(_DPI, _DPI))


def draw(spec: FigureSpec, style: Literal["screen", "paper"] = "screen") -> Figure:
    """Return a specification as a Matplotlib figure."""
    is_paper = style == "paper"
    width_in, height_in = spec.width_in, spec.height_in
    if is_paper:
        width_in, height_in = _PAPER_WIDTHS_IN[spec.columns > 1], _PAPER_SCALE * height_in
    figure = Figure(figsize=(width_in, height_in), dpi=_DPI)
    FigureCanvasAgg(figure)
    grid: list[Axes] = (
        figure.subplots(
            spec.rows,
            spec.columns,
            sharex=spec.shares_x,
            sharey=spec.shares_y,
            squeeze=False,
        )
        .ravel()
        .tolist()
    )
    for axes in grid[len(spec.panels) :]:
        axes.set_visible(False)
    scales: dict[Axes, Axes] = {}  # of colours, beside the panels of heat maps
    for axes, panel in zip(grid, spec.panels, strict=False):
        _draw_panel(figure, axes, panel, scales)
    _draw_axes(figure, grid, spec)
    if is_paper:
        for line in (line for axes in grid for line in axes.lines):
            line.set(linewidth=_PAPER_LINES * line.get_linewidth(), markersize=_PAPER_LINES * line.get_markersize())
    if spec.has_legend:
        _draw_legend(figure, grid, width_in / (_PAPER_SCALE if is_paper else 1.0))
    if not is_paper:  # which has a caption
        heading = spec.subject or spec.title
        figure.suptitle(heading, fontsize="medium" if len(heading) > _LONG_TITLE * spec.width_in else "large")
    _arrange(figure, grid, scales, spec)
    return figure


def _draw_panel(figure: Figure, axes: Axes, panel: Panel, scales: dict[Axes, Axes]) -> None:
    if panel.title:
        axes.set_title(panel.title, fontsize="medium", loc="left")
    if not any(isinstance(series, HeatMap) for series in panel.series):
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_axisbelow(True)
    for series in panel.series:
        if isinstance(series, HeatMap):
            scales[axes] = _draw_heat_map(figure, axes, series)
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


def _draw_heat_map(figure: Figure, axes: Axes, heat_map: HeatMap) -> Axes:
    """Draw a heat map; return the axes of the scale of colours."""
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
    scale = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    figure.colorbar(image, cax=scale, label=heat_map.title)
    return scale


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
    figure.legend(list(entries.values()), list(entries), loc="lower center", ncols=columns, frameon=False)


# ---- places -------------------------------------------------------------------------------------------


def _arrange(figure: Figure, grid: Sequence[Axes], scales: Mapping[Axes, Axes], spec: FigureSpec) -> None:
    """Place the panels, those of a row equally high and those of a column as wide, so that all texts have room.

    Matplotlib's constrained layout lays out all texts three times, which takes half of the time of a figure.
    """
    cells = [(*divmod(index, spec.columns), axes) for index, axes in enumerate(grid[: len(spec.panels)])]
    headings = [text for text in figure.texts if text.get_rotation() == 0]
    top = sum(_height_in(text.get_text(), text.get_fontsize()) for text in headings) + _MARGIN_IN
    left = sum(_height_in(text.get_text(), text.get_fontsize()) for text in figure.texts if text not in headings)
    for text in figure.texts:
        if text in headings:
            text.set_y(1 - _MARGIN_IN / figure.get_figheight())
        else:
            text.set_x(_MARGIN_IN / figure.get_figwidth())
    bottom = max((box.get_window_extent().y1 / figure.dpi for box in figure.legends), default=_MARGIN_IN)
    above, below = np.zeros((2, spec.rows))
    under: dict[Axes, float] = {}  # inches from a panel to the name of its x axis, and of its y axis
    beside: dict[Axes, float] = {}
    for row, _, axes in cells:
        offset = axes.yaxis.get_major_formatter().get_offset() if _labels(axes.yaxis) else ""
        above[row] = max(above[row], _height_in(axes.get_title(loc="left"), "medium") + _height_in(offset) + _NAME_IN)
        texts = [text for _, text in _labels(axes.xaxis)]
        under[axes] = _TICK_IN + max(map(_height_in, texts), default=0.0)
        below[row] = max(below[row], under[axes] + _name_in(axes.xaxis))
    rooms = _rooms(figure.get_figheight(), (top, bottom), above, below, np.ones(spec.rows))
    for row, _, axes in cells:  # the ticks of an axis depend on its length
        axes.set_position((0.1, 1 - rooms[row, 1], 0.8, rooms[row, 1] - rooms[row, 0]))
    before, after = np.zeros((2, spec.columns))
    for _, column, axes in cells:
        width = 0.8 * figure.get_figwidth() / spec.columns
        across = [(place * width, _width_in(text) / 2) for place, text in _labels(axes.xaxis)]
        beside[axes] = _TICK_IN + max((_width_in(text) for _, text in _labels(axes.yaxis)), default=0.0)
        own = max(beside[axes] + _name_in(axes.yaxis), *(half - place for place, half in across), 0.0)
        before[column] = max(before[column], own + _MARGIN_IN)
        beyond = max((place + half - width for place, half in across), default=0.0)
        if axes in scales:
            scale = scales[axes]
            scale.set_position(axes.get_position())
            labels = (_width_in(text) for _, text in _labels(scale.yaxis))
            beyond = 2 * _SCALE_IN + _TICK_IN + max(labels, default=0.0) + _name_in(scale.yaxis)
        after[column] = max(after[column], beyond, 0.0)
    shares = np.array(spec.column_widths or [1.0] * spec.columns)
    columns = _rooms(figure.get_figwidth(), (left, _MARGIN_IN), before, after, shares)
    for row, column, axes in cells:
        (x, end), (y, lower) = columns[column], 1 - rooms[row]
        axes.set_position((x, lower, end - x, y - lower))
        # Matplotlib would measure all labels of the row or column once more.
        axes.xaxis.set_label_coords(0.5, -(under[axes] + _PAD_IN) / (y - lower) / figure.get_figheight())
        axes.yaxis.set_label_coords(-(beside[axes] + _PAD_IN) / (end - x) / figure.get_figwidth(), 0.5)
        if axes in scales:
            unit = _SCALE_IN / figure.get_figwidth()
            scales[axes].set_position((end + unit, lower, unit, y - lower))
        for axis in (axes.xaxis, axes.yaxis):
            _draw_scale(axes, axis, has_grid=axes not in scales)


def _rooms(
    length_in: float,
    margins_in: tuple[float, float],
    before_in: npt.NDArray[np.float64],
    after_in: npt.NDArray[np.float64],
    shares: npt.NDArray[np.float64],
) -> npt.NDArray[np.float64]:
    """Return the beginning and the end of each row or column as parts of a figure: [rows, 2]."""
    free_in = max(0.1 * length_in, length_in - sum(margins_in) - float((before_in + after_in).sum()))
    lengths_in = free_in * shares / shares.sum()
    ends = margins_in[0] + np.cumsum(before_in + lengths_in + after_in) - after_in
    return np.stack([ends - lengths_in, ends], axis=1) / length_in


def _draw_scale(axes: Axes, axis: AxisArtist, *, has_grid: bool) -> None:
    """Draw the grid, the ticks and the labels of an axis: Matplotlib's own are five artists a tick."""
    if axis.get_major_formatter().get_offset():  # placed by the labels that Matplotlib drew
        axis.grid(visible=has_grid, alpha=_GRID_OPACITY)
        return
    is_x, ticks = axis is axes.xaxis, "xtick" if axis is axes.xaxis else "ytick"
    rc: Mapping[str, Any] = matplotlib.rcParams  # type: ignore[assignment]

    def draw_line(along: npt.ArrayLike, across: npt.ArrayLike, **style: Any) -> None:
        places = (along, across) if is_x else (across, along)
        axes.add_artist(Line2D(*places, transform=axes.transAxes, zorder=0.5, **style))

    major = _places(axis, axis.get_majorticklocs())
    if has_grid:
        style = {name: rc[f"grid.{name}"] for name in ("color", "linestyle", "linewidth")}
        draw_line(np.repeat(major, 3), np.tile([0.0, 1.0, np.nan], len(major)), alpha=_GRID_OPACITY, **style)
    for size, places in (("major", major), ("minor", _places(axis, axis.get_minorticklocs()))):
        style = {"markersize": rc[f"{ticks}.{size}.size"], "markeredgewidth": rc[f"{ticks}.{size}.width"]}
        style |= {"marker": TICKDOWN if is_x else TICKLEFT, "linestyle": "none", "color": rc[f"{ticks}.color"]}
        draw_line(places, np.zeros(len(places)), clip_on=False, **style)
    away = -(rc[f"{ticks}.major.size"] + rc[f"{ticks}.major.pad"]) / 72
    moved = ScaledTranslation(0 if is_x else away, away if is_x else 0, axes.figure.dpi_scale_trans)
    aligned: dict[str, Any] = {"ha": "center", "va": "top"} if is_x else {"ha": "right", "va": "center_baseline"}
    for place, text in _labels(axis):
        at = (place, 0.0) if is_x else (0.0, place)
        axes.text(*at, text, transform=axes.transAxes + moved, fontsize=rc[f"{ticks}.labelsize"], **aligned)
    sides = ("bottom", "labelbottom") if is_x else ("left", "labelleft")
    axis.set_tick_params(which="both", **dict.fromkeys(sides, False))


def _labels(axis: AxisArtist) -> list[tuple[float, str]]:
    """Return the labels of the ticks that show, with their places along the axis from 0 to 1."""
    ticks = axis.get_tick_params()
    if not any(ticks.get(f"label{side}") for side in ("left", "bottom", "right")):
        return []
    at = axis.get_majorticklocs()
    texts = axis.get_major_formatter().format_ticks(at.tolist())
    places = _places(axis, at).tolist()
    return [(place, text) for place, text in zip(places, texts, strict=True) if place == place]


def _places(axis: AxisArtist, at: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return places along the axis from 0 to 1, NaN outside."""
    low, high = axis.get_transform().transform(axis.get_view_interval())
    places = (axis.get_transform().transform(at) - low) / (high - low)
    return np.where(np.abs(places - 0.5) <= 0.5 + 1e-9, places, np.nan)


def _name_in(axis: AxisArtist) -> float:
    return _height_in(axis.label.get_text(), axis.label.get_fontsize()) + _NAME_IN


def _height_in(text: str, size: float | str = "medium") -> float:
    points = FontProperties(size=size).get_size_in_points()
    return _LINE_HEIGHT / 72 * points * (text.count("\n") + 1) if text else 0.0


def _width_in(text: str) -> float:
    """Return the width of the label of a tick."""
    style = (matplotlib.rcParams["xtick.labelsize"], matplotlib.rcParams["text.hinting"])
    return max(map(_line_width_in, text.split("\n"), repeat(style)))


@cache  # the numbers of an axis are those of others
def _line_width_in(line: str, style: tuple[float | str, object]) -> float:
    renderer: Any = RendererAgg(1, 1, _DPI)  # type: ignore[no-untyped-call]
    return float(renderer.get_text_width_height_descent(line, FontProperties(size=style[0]), False)[0]) / _DPI
