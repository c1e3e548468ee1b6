# SPDX-License-Identifier: GPL-2.0-only
"""Figures as plain values: panels, axes and series, for any renderer.

    FigureSpec -> panels, row by row -> two axes and series: Line, Points, Bars, HeatMap, Bands or Ticks

`bbrgym.report.matplotlib_renderer` makes a PNG of a specification, `bbrgym.report.plotly_renderer` the interactive
figure of a page. Positions on an axis with names are 0, 1, 2, ...; an offset of less than 0.5 sets series apart there.
NaN is a missing value: a line has a gap, an estimate no interval.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy.typing as npt

from bbrgym.evaluate.statistics import Estimate

Scale: TypeAlias = Literal["linear", "log"]
Dash: TypeAlias = Literal["solid", "dash", "dot"]
Symbol: TypeAlias = Literal["circle", "diamond"]

# The first eight are from Okabe and Ito's palette and Tol's, which the colour-blind can tell apart.
_PALETTE = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#882255"),
    *("#000000", "#999933", "#44AA99", "#AA4499", "#661100", "#6699CC", "#888888"),
)
NEUTRAL = "#7F7F7F"


def colour(index: int) -> str:
    """Return the colour of the series numbered ``index``; colours repeat after 14."""
    return _PALETTE[index % len(_PALETTE)]


def scale_of(values: Iterable[float], wide: float) -> Scale:
    """Return the scale of an axis: logarithmic where the highest value is more than ``wide`` times the lowest."""
    known = [value for value in values if not math.isnan(value)]
    return "log" if known and min(known) > 0 and max(known) > wide * min(known) else "linear"


@dataclass(frozen=True)
class Axis:
    """An axis of a panel."""

    title: str = ""  # quantity with its unit
    scale: Scale = "linear"  # of the numbers
    starts_at_zero: bool = False  # whether the lower end is 0. Default: it follows from the values
    limits: tuple[float, float] | None = None  # both ends. Default: they follow from the values
    names: Sequence[str] = ()  # texts at 0, 1, 2, ... in the place of numbers
    is_reversed: bool = False  # whether values grow downwards or to the left


@dataclass(frozen=True)
class Line:
    """Points, joined or not."""

    x: npt.ArrayLike  # coordinates: [points]
    y: npt.ArrayLike  # of the other axis: [points]
    label: str | None  # name in the legend; None for none
    colour: str  # as ``#rrggbb``
    width: float = 1.2  # of the line in points; 0 leaves only the symbols
    dash: Dash = "solid"  # pattern of the line
    opacity: float = 1.0  # from 0 to 1
    symbol: Symbol | None = None  # drawn at each point; None for none
    symbol_size: float = 4.0  # of the symbols in points
    fill: float = 0.0  # opacity of the area that the line encloses. Default: it is not filled
    is_stepped: bool = False  # whether the line goes up or down at a point, then straight on to the next
    band: tuple[npt.ArrayLike, npt.ArrayLike] | None = None  # lowest and highest values around the line: [points] each
    notes: Sequence[str] = ()  # texts that the page shows at the points: [points]


@dataclass(frozen=True)
class Points:
    """Estimates as symbols with intervals."""

    positions: Sequence[float]  # coordinates on the axis with names: [estimates]
    estimates: Sequence[Estimate]  # values on the other axis
    along: Literal["x", "y"]  # axis of the values
    label: str | None  # name in the legend; None for none
    colour: str  # as ``#rrggbb``
    symbol: Symbol = "circle"  # drawn at each value


@dataclass(frozen=True)
class Bars:
    """Estimates as horizontal bars with intervals."""

    positions: Sequence[float]  # middle of each bar on the y axis: [estimates]
    estimates: Sequence[Estimate]  # lengths of the bars
    thickness: float  # of a bar, on the y axis
    label: str | None  # name in the legend; None for none
    colour: str  # as ``#rrggbb``
    opacity: float = 1.0  # from 0 to 1


@dataclass(frozen=True)
class HeatMap:
    """Values by colour, on two axes with names."""

    values: npt.NDArray[Any]  # [names of y, names of x]
    title: str = ""  # quantity with its unit, beside the scale of colours
    # values of the first and the last colour. Default: the lowest and the highest value
    limits: tuple[float, float] | None = None
    colours: Literal["sequential", "diverging"] = "sequential"  # from dark to light, or with white in the middle
    shows_values: bool = False  # whether each field shows its value, rounded to a whole number


@dataclass(frozen=True)
class Bands:
    """Intervals of the x axis, shaded over the whole height of the panel, behind all else."""

    spans: Sequence[tuple[float, float]]  # begin and end of each interval
    label: str | None  # name in the legend; None for none
    colour: str  # as ``#rrggbb``
    opacity: float = 0.3  # from 0 to 1


@dataclass(frozen=True)
class Ticks:
    """Places on the x axis, marked by short lines at the upper edge of the panel."""

    at: Sequence[float]  # the places
    label: str | None  # name in the legend; None for none
    colour: str  # as ``#rrggbb``


TICK_HEIGHT = 0.07  # of the panel's

Series: TypeAlias = Line | Points | Bars | HeatMap | Bands | Ticks


@dataclass(frozen=True)
class Panel:
    """Two axes and the series drawn on the axes; a heat map is alone in a panel."""

    x: Axis
    y: Axis
    series: Sequence[Series]
    title: str = ""


@dataclass(frozen=True)
class FigureSpec:
    """A figure."""

    name: str  # of its file, without the ending
    title: str  # what the figure shows
    panels: Sequence[Panel]  # row by row
    subject: str = ""  # what it shows it of: the heading of the PNG, which stands alone. Default: the title
    columns: int = 1  # panels side by side
    column_widths: Sequence[float] = ()  # relative widths of the columns. Default: equal ones
    shares_x: bool = False  # whether all panels have the first one's x axis
    shares_y: bool = False  # whether all panels have the first one's y axis
    width_in: float = 8.0  # of the PNG in inches
    height_in: float = 4.5  # of the PNG in inches; the page's figures are as high in proportion
    note: str = ""  # text below the figure on the page
    is_folded: bool = False  # whether the page shows the title alone until it is clicked

    @property
    def rows(self) -> int:
        """Number of rows of panels."""
        return math.ceil(len(self.panels) / self.columns)

    @property
    def labels(self) -> list[str]:
        """Names in the legend, each once."""
        labels = [getattr(series, "label", None) for panel in self.panels for series in panel.series]
        return list(dict.fromkeys(label for label in labels if label))

    @property
    def has_legend(self) -> bool:
        """True if there are at least two names to tell apart."""
        return len(self.labels) > 1
