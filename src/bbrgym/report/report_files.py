# SPDX-License-Identifier: GPL-2.0-only
"""The files of a report: tables as text, figures, a page of both, and records as CSV."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rich.table import Table

from bbrgym.report.output_settings import OutputSettings
from bbrgym.report.page import Page, write_page
from bbrgym.report.tables import plain_text
from bbrgym.runs.atomic_files import write_text
from bbrgym.runs.drawing import reason_not_to_draw
from bbrgym.runs.run_folder import RunFolder


def write_report_files(folder: Path, tables: Iterable[Table], page: Page, output: OutputSettings | None = None) -> None:
    """Write summary.txt, report.html and, if they are asked for, figures/, each file whole or not at all."""
    output = OutputSettings() if output is None else output
    write_text(folder / "summary.txt", plain_text(tables))
    if output.figures.are_asked_for and reason_not_to_draw() is None:
        from bbrgym.report.matplotlib_renderer import write_figures  # Matplotlib, which only the end of a command needs

        write_figures(folder / "figures", page.figures, output.figures)
    write_page(folder / "report.html", page)
    for parquet in sorted(folder.glob("*.parquet")) if output.records.csv else ():  # not those of single runs
        write_text(parquet.with_suffix(".csv"), RunFolder(folder).read_table(parquet.name).write_csv())
