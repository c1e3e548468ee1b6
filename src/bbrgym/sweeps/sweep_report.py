# SPDX-License-Identifier: GPL-2.0-only
"""Writes the report of a sweep: tables, figures and a page in its folder."""

from __future__ import annotations

import datetime

from bbrgym.report.page import Code, Page, Section
from bbrgym.report.report_files import write_report_files
from bbrgym.run_folder import CONFIG
from bbrgym.sweeps.figures import figures_of
from bbrgym.sweeps.results import SweepResults, jobs_table, settings_table, tables_of
from bbrgym.sweeps.sweep_folder import SweepFolder

_MULTIRUN = "multirun.yaml"


def write_sweep_report(folder: SweepFolder, results: SweepResults, command: str | None = None) -> None:
    """Write tables, figures and the page.

    Args:
        folder: of the sweep, open.
        results: of its jobs.
        command: shown on the page. Default: none.

    Raises:
        OSError: a file cannot be written.
    """
    folder.write_table("summary.parquet", results.summary)
    folder.write_text("summary.csv", results.summary.write_csv())
    if results.command == "train":
        folder.write_table("curves.parquet", results.curves)
    write_report_files(folder.path, tables_of(results), _page(folder, results, command))


def _page(folder: SweepFolder, results: SweepResults, command: str | None) -> Page:
    settings = settings_table(results)
    logs = [
        Code(f"{name}: end of its log", _tail(folder.log(name).read_text(encoding="utf-8", errors="replace")))
        for name in results.failed
        if folder.log(name).exists()
    ]
    sections = [
        Section("Settings", [*([settings] if settings.row_count else []), *figures_of(results)]),
        Section("Jobs", [jobs_table(results), *logs]),
        *(
            Section("Configuration", [Code(name, (folder.path / name).read_text(encoding="utf-8"))])
            for name in (CONFIG, _MULTIRUN)
            if (folder.path / name).exists()
        ),
    ]
    jobs = results.summary["job"].n_unique()
    facts = [f"{datetime.date.today():%d %B %Y}", f"{jobs} jobs", f"{jobs - len(results.failed)} done"]
    shown = [section for section in sections if section.items]
    return Page(f"Sweep {results.title}", shown, facts, command)


def _tail(log: str, lines: int = 30) -> str:
    return "\n".join(log.splitlines()[-lines:])
