# SPDX-License-Identifier: GPL-2.0-only
"""The report of an evaluation: tables as text, figures and a page in its run folder."""

from __future__ import annotations

from pathlib import Path

from bbrgym.atomic_files import write_text
from bbrgym.evaluate.results import Results
from bbrgym.report.evaluation_page import evaluation_page
from bbrgym.report.matplotlib_renderer import write_figures
from bbrgym.report.page import write_page
from bbrgym.report.tables import plain_text, tables_of_results


def write_report(folder: Path, results: Results, command: str | None = None) -> None:
    """Write summary.txt, figures/ and report.html, each file whole or not at all.

    Args:
        folder: run folder of the evaluation.
        results: of the evaluation.
        command: command line shown on the page. Default: none.

    Raises:
        OSError: a file cannot be written.
    """
    write_text(folder / "summary.txt", plain_text(tables_of_results(results)))
    page = evaluation_page(results, command)
    write_figures(folder / "figures", page.figures)
    write_page(folder / "report.html", page)
