# SPDX-License-Identifier: GPL-2.0-only
"""The report of an evaluation: tables as text, figures and a page in its run folder."""

from __future__ import annotations

from pathlib import Path

from bbrgym.evaluate.results import Results
from bbrgym.report.evaluation_page import evaluation_page
from bbrgym.report.output_settings import OutputSettings
from bbrgym.report.report_files import write_report_files
from bbrgym.report.tables import tables_of_results


def write_report(
    folder: Path, results: Results, command: str | None = None, output: OutputSettings | None = None
) -> None:
    """Write summary.txt, with Matplotlib figures/, and report.html, each file whole or not at all.

    Args:
        folder: run folder of the evaluation.
        results: of the evaluation.
        command: command line shown on the page. Default: none.
        output: format and style of figures/, and whether the records are copied. Default: PNG, and no copies.

    Raises:
        OSError: a file cannot be written.
    """
    write_report_files(folder, tables_of_results(results), evaluation_page(results, command), output)
