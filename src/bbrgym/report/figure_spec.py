# SPDX-License-Identifier: GPL-2.0-only
"""Figures as plain values: panels, axes and series, for any renderer.

    FigureSpec -> panels, row by row -> two axes and series: Line, Points, Bars, HeatMap, Bands or Ticks

`bbrgym.report.matplotlib_renderer` makes a PNG of a specification, `bbrgym.report.plotly_renderer` the interactive
figure of a page. Positions on an axis with names are 0, 1, 2, ...; an offset of less than 0.5 sets series apart there.
NaN is a missing value: a line has a gap, an estimate no interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
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


@dataclass(frozen=True)
class Axis:
    """An axis of a panel.

    Attributes:
        title: quantity with its unit.
        scale: of the numbers.
        starts_at_zero: whether the lower end is 0. Default: it follows from the values.
        limits: both ends. Default: they follow from the values.
        names: texts at 0, 1, 2, ... in the place of numbers.
        is_reversed: whether values grow downwards or to the left.
    """

    title: str = ""
    scale: Scale = "linear"
    starts_at_zero: bool = False
    limits: tuple[float, float] | None = None
    names: Sequence[str] = ()
    is_reversed: bool = False


@dataclass(frozen=True)
class Line:
    """Points, joined or not.

    Attributes:
        x, y: coordinates: [points] each.
        label: name in the legend; None for none.
        colour: as ``#rrggbb``.
        width: of the line in points; 0 leaves only the symbols.
        dash: pattern of the line.
        opacity: from 0 to 1.
        symbol: drawn at each point; None for none.
        symbol_size: of the symbols in points.
        fill: opacity of the area that the line encloses. Default: it is not filled.
        is_stepped: whether the line goes up or down at a point, then straight on to the next.
        band: lowest and highest values around the line: [points] each.
        notes: texts that the page shows at the points: [points].
    """

    x: npt.ArrayLike
    y: npt.ArrayLike
    label: str | None
    colour: str
    width: float = 1.2
    dash: Dash = "solid"
    opacity: float = 1.0
    symbol: Symbol | None = None
    symbol_size: float = 4.0
    fill: float = 0.0
    is_stepped: bool = False
    band: tuple[npt.ArrayLike, npt.ArrayLike] | None = None
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Points:
    """Estimates as symbols with their intervals.

    Attributes:
        positions: coordinates on the axis with names: [estimates].
        estimates: values on the other axis.
        along: axis of the values.
        label: name in the legend; None for none.
        colour: as ``#rrggbb``.
        symbol: drawn at each value.
        is_filled: whether symbols are filled.
    """

    positions: Sequence[float]
    estimates: Sequence[Estimate]
    along: Literal["x", "y"]
    label: str | None
    colour: str
    symbol: Symbol = "circle"
    is_filled: bool = True


@dataclass(frozen=True)
class Bars:
    """Estimates as horizontal bars with their intervals.

    Attributes:
        positions: middle of each bar on the y axis: [estimates].
        estimates: lengths of the bars.
        thickness: of a bar, on the y axis.
        label: name in the legend; None for none.
        colour: as ``#rrggbb``.
        opacity: from 0 to 1.
    """

    positions: Sequence[float]
    estimates: Sequence[Estimate]
    thickness: float
    label: str | None
    colour: str
    opacity: float = 1.0


@dataclass(frozen=True)
class HeatMap:
    """Values by colour, on two axes with names.

    Attributes:
        values: [names of y, names of x].
        title: quantity with its unit, beside the scale of colours.
        scale: of the colours.
        limits: values of the first and the last colour. Default: the lowest and the highest value.
        colours: from dark to light, or with white in the middle.
        shows_values: whether each field shows its value, rounded to a whole number.
    """

    values: npt.NDArray[Any]
    title: str = ""
    scale: Scale = "linear"
    limits: tuple[float, float] | None = None
    colours: Literal["sequential", "diverging"] = "sequential"
    shows_values: bool = False


@dataclass(frozen=True)
class Bands:
    """Intervals of the x axis, shaded over the whole height of the panel, behind all else.

    Attributes:
        spans: begin and end of each interval.
        label: name in the legend; None for none.
        colour: as ``#rrggbb``.
        opacity: from 0 to 1.
    """

    spans: Sequence[tuple[float, float]]
    label: str | None
    colour: str
    opacity: float = 0.3


@dataclass(frozen=True)
class Ticks:
    """Places on the x axis, marked by short lines at the upper edge of the panel.

    Attributes:
        at: the places.
        label: name in the legend; None for none.
        colour: as ``#rrggbb``.
    """

    at: Sequence[float]
    label: str | None
    colour: str


TICK_HEIGHT = 0.07  # of the panel's

Series: TypeAlias = Line | Points | Bars | HeatMap | Bands | Ticks


@dataclass(frozen=True)
class Panel:
    """Two axes and the series on them; a heat map is the only one of its panel."""

    x: Axis
    y: Axis
    series: Sequence[Series]
    title: str = ""


@dataclass(frozen=True)
class FigureSpec:
    """A figure.

    Attributes:
        name: of its file, without the ending.
        title: what the figure shows.
        panels: row by row.
        subject: what it shows it of: the heading of the PNG, which stands alone. Default: the title.
        columns: panels side by side.
        column_widths: relative widths of the columns. Default: equal ones.
        shares_x, shares_y: whether all panels have the first one's axis.
        width_in, height_in: size of the PNG in inches; the page's figures are as high in proportion.
        note: text below the figure on the page.
        is_folded: whether the page shows the title alone until it is clicked.
    """

    name: str
    title: str
    panels: Sequence[Panel]
    subject: str = ""
    columns: int = 1
    column_widths: Sequence[float] = ()
    shares_x: bool = False
    shares_y: bool = False
    width_in: float = 8.0
    height_in: float = 4.5
    note: str = ""
    is_folded: bool = False

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
