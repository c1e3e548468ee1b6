# SPDX-License-Identifier: GPL-2.0-only
"""The files of a report: tables as text, figures, and a page of both."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rich.table import Table

from bbrgym.atomic_files import write_text
from bbrgym.drawing import reason_not_to_draw
from bbrgym.report.page import Page, write_page
from bbrgym.report.tables import plain_text


def write_report_files(folder: Path, tables: Iterable[Table], page: Page) -> None:
    """Write summary.txt, with Matplotlib figures/, and report.html, each file whole or not at all.

    Args:
        folder: run folder.
        tables: of summary.txt.
        page: content of report.html, whose figures figures/ holds too.

    Raises:
        OSError: a file cannot be written.
    """
    write_text(folder / "summary.txt", plain_text(tables))
    if reason_not_to_draw() is None:
        from bbrgym.report.matplotlib_renderer import write_figures  # Matplotlib, which only the end of a command needs

        write_figures(folder / "figures", page.figures)
    write_page(folder / "report.html", page)
