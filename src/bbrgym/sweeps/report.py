# SPDX-License-Identifier: GPL-2.0-only
"""Writes the report of a multirun: tables, figures and a page in the multirun's folder."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path

from bbrgym.report.page import Code, Page, Section
from bbrgym.report.report_files import write_report_files
from bbrgym.runs.run_folder import RunFolder
from bbrgym.sweeps.figures import figures_of
from bbrgym.sweeps.results import MultirunResults, jobs_table, settings_table, tables_of
from bbrgym.untrusted_files import read_end

_LOG_LINES = 30  # of each failed job, its last ones
_LOG_BYTES = 2**16  # that hold them


def write_multirun_report(
    folder: RunFolder, results: MultirunResults, logs: Mapping[str, Path], request: str = "", command: str | None = None
) -> None:
    """Write tables, figures and the page."""
    page = _page(results, logs, request, command)
    folder.write_table("summary.parquet", results.summary)
    folder.write_text("summary.csv", results.summary.write_csv())
    if len(results.curves):
        folder.write_table("curves.parquet", results.curves)
    write_report_files(folder.path, tables_of(results), page)


def _page(results: MultirunResults, logs: Mapping[str, Path], request: str, command: str | None) -> Page:
    settings = settings_table(results)
    texts = {name: read_end(log, _LOG_BYTES, below=log.parent).splitlines() for name, log in logs.items()}
    ends = [Code(f"{name}: end of its log", "\n".join(lines[-_LOG_LINES:])) for name, lines in texts.items()]
    sections = [
        Section("Settings", [*([settings] if settings.row_count else []), *figures_of(results)]),
        Section("Jobs", [jobs_table(results), *ends]),
        Section("Configuration", [Code("multirun.yaml", request)] if request else []),
    ]
    jobs = results.summary["job"].n_unique()
    facts = [f"{datetime.date.today():%d %B %Y}", f"{jobs} jobs", f"{jobs - len(results.failed)} done"]
    shown = [section for section in sections if section.items]
    return Page(f"Multirun {results.title}", shown, facts, command)
