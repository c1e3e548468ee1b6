# SPDX-License-Identifier: GPL-2.0-only
"""Tables, a figure and the page of a comparison."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Sequence

import polars as pl
from rich.table import Table

from bbrgym.evaluate.statistics import MIN_DRAWS
from bbrgym.host.comparison import ARMS, ComparisonFolder, ComparisonRequest
from bbrgym.host.comparison_differences import ControlDifference, differences
from bbrgym.report.figure_spec import NEUTRAL, Axis, FigureSpec, Line, Panel, Points, colour
from bbrgym.report.page import Page, Section
from bbrgym.report.report_files import write_report_files
from bbrgym.report.tables import new_table


def write_comparison_report(folder: ComparisonFolder, request: ComparisonRequest, command: str) -> list[Table]:
    """Write summary.txt, figures and report.html; return the tables."""
    rows = folder.connections()
    found = list(differences(compared(rows, request)))
    tables = [difference_table(found, request), needed_table(found), _counts_table(folder, request, rows)]
    title = f"{request.b} (B) against {request.a} (A)"
    sections = [
        Section("Differences", [tables[0], difference_figure(found, title)], _METHOD),
        Section("Connections", tables[1:]),
    ]
    write_report_files(folder.path, tables, Page(title, sections, list(_facts(request, rows)), command))
    return tables


_METHOD = (
    "Connections of the same peer (/24, /48) are compared with each other, by the control that they were given at "
    "random. Means are over connections that sent data, each counted once whatever its size; all but those of what was "
    "sent again are geometric. Left out are connections that had another control than they were given, or fewer bytes "
    "than least_bytes. "
    "Intervals are of 95 %, by bootstrap of the peers."
)


def compared(rows: pl.DataFrame, request: ComparisonRequest) -> pl.DataFrame:
    """Return the rows of large enough connections that kept the given control."""
    return rows.filter("kept_control", pl.col("acked_bytes") >= request.least_bytes)


def difference_table(found: Sequence[ControlDifference], request: ComparisonRequest) -> Table:
    """Return a table with a row per metric."""
    few = min(one.peers for one in found) < MIN_DRAWS
    how = f"{MIN_DRAWS} or more peers have intervals" if few else "95 % intervals by bootstrap of the peers"
    title = f"{request.b} (B) against {request.a} (A): {how}"
    table = new_table(title, ["mean, each connection once"], ["A", "B", "B minus A", "connections", "peers"])
    for one in found:
        unit = " %" if one.metric.is_ratio else " points"
        difference = one.estimate.text(2, "+")
        means = ("-" if math.isnan(mean) else f"{float(f'{mean:.4g}'):,g}" for mean in one.means)
        table.add_row(
            one.metric.name,
            *means,
            difference if difference == "-" else difference + unit,
            f"{one.connections:,}",
            f"{one.peers:,}",
        )
    return table


def needed_table(found: Sequence[ControlDifference]) -> Table:
    """Return a table of how many additional connections find a difference in 80 of 100 comparisons."""
    sizes = len(found[0].needed)
    headings = [text for _ in range(sizes) for text in ("difference", "connections")]
    title = "Additional connections, of as many more peers, that find a difference in 80 of 100 comparisons"
    table = new_table(title, ["of"], headings)
    for one in found:
        unit = "%" if one.metric.is_ratio else "points"
        pairs = zip(one.metric.sought, one.needed, strict=True)
        cells = [text for size, more in pairs for text in (f"{size:g} {unit}", _count(more))]
        table.add_row(one.metric.name.split(",")[0], *cells)
    return table


def _counts_table(folder: ComparisonFolder, request: ComparisonRequest, rows: pl.DataFrame) -> Table:
    """Return a table of what became of the connections, by control."""
    headings = ["given it", "ended", "sent data", "all acknowledged", "had another", "compared", "not ended"]
    table = new_table("Connections", ["", "control"], headings)
    times = folder.counts()
    for arm, control in enumerate((request.a, request.b)):
        own = rows.filter(pl.col("arm") == ARMS[arm])
        given, ended = (sum(one[name][arm] for one in times) for name in ("given", "ended"))
        changed, left = (~own["kept_control"]).sum(), len(compared(own, request))
        numbers = (given, ended, len(own), own["is_whole"].sum(), changed, left, given - ended)
        table.add_row(ARMS[arm], control, *(f"{number:,}" for number in numbers))
    lost, refused = (sum(one[name] for one in times) for name in ("lost", "refused"))
    notes = [_changed(rows)] if not rows["kept_control"].all() else []
    notes += [f"{lost:,} more ended, of which the rows were lost"] if lost else []
    notes += [f"to {refused:,} more the kernel gave none of them, as where a route locks another"] if refused else []
    table.caption = "; ".join(notes) or None
    return table


def _changed(rows: pl.DataFrame) -> str:
    """Return the number of connections that lost the given control, by the control at the end."""
    at_end = rows.filter(~pl.col("kept_control"))["control_at_end"].value_counts(sort=True).rows()
    names = ", ".join(f"{name} {count:,}" for name, count in at_end)
    return f"{sum(count for _, count in at_end):,} had another control than they were given (at their end {names})"


def difference_figure(found: Sequence[ControlDifference], title: str) -> FigureSpec:
    """Specify points of the differences: ratios in percent, and points of percent."""
    panels = []
    for is_ratio, axis in ((True, "B minus A, %"), (False, "B minus A, points of %")):
        own = [one for one in found if one.metric.is_ratio == is_ratio]
        places = list(range(len(own)))
        zero = Line([0, 0], [-0.5, len(own) - 0.5], None, NEUTRAL)
        points = Points(places, [one.estimate for one in own], "x", None, colour(0))
        names = Axis(names=[one.metric.name.split(",")[0] for one in own], is_reversed=True)
        panels.append(Panel(Axis(axis), names, [zero, points]))
    return FigureSpec("differences", "Differences with intervals of 95 %", panels, title, columns=2, height_in=2.6)


def _facts(request: ComparisonRequest, rows: pl.DataFrame) -> Iterator[str]:
    yield f"{datetime.date.today():%d %B %Y}"
    own = compared(rows, request)
    yield f"{len(own):,} connections of {own['peer'].n_unique():,} peers"
    if not rows["kept_control"].all():
        yield f"left out: {_changed(rows)}"
    yield f"share of B {request.share:g}"
    if request.ports:
        yield f"ports {', '.join(map(str, request.ports))}"
    if request.cgroup:
        yield f"cgroup {request.cgroup}"
    if request.least_bytes:
        yield f"of at least {request.least_bytes:,} bytes"


def _count(number: float) -> str:
    return "-" if math.isinf(number) else f"{number:,.0f}"
