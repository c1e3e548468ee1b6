# SPDX-License-Identifier: GPL-2.0-only
"""What a sweep leaves in its folder beside the jobs' own."""

from __future__ import annotations

import datetime

from bbrgym.files import write_atomically
from bbrgym.report.matplotlib_renderer import write_figures
from bbrgym.report.page import Code, Page, Section, write_page
from bbrgym.report.tables import plain_text
from bbrgym.sweeps.figures import figures_of
from bbrgym.sweeps.folder import SweepFolder
from bbrgym.sweeps.results import Results, jobs_table, settings_table, tables_of


def write_outcome(folder: SweepFolder, results: Results, asked: str, command: str | None = None) -> None:
    """Writes tables, figures and the page.

    Args:
        folder: of the sweep.
        results: what came out.
        asked: what was asked for, in YAML.
        command: that asked.
    """
    folder.write_table("summary.parquet", results.summary)
    write_atomically(folder.path / "summary.csv", results.summary.write_csv)
    if results.command == "train":
        folder.write_table("curves.parquet", results.curves)
    folder.write_text("summary.txt", plain_text(tables_of(results)))
    page = _page(folder, results, asked, command)
    write_figures(folder.path / "figures", page.figures)
    write_page(folder.path / "report.html", page)


def _page(folder: SweepFolder, results: Results, asked: str, command: str | None) -> Page:
    settings = settings_table(results)
    logs = [
        Code(f"{name}: end of its log", _tail(folder.log(name).read_text(encoding="utf-8", errors="replace")))
        for name in results.failed
        if folder.log(name).exists()
    ]
    sections = [
        Section("Settings", [*([settings] if settings.row_count else []), *figures_of(results)]),
        Section("Jobs", [jobs_table(results), *logs]),
        Section("Configuration", [Code("The sweep", asked)]),
    ]
    jobs = results.summary["job"].n_unique()
    facts = [f"{datetime.date.today():%d %B %Y}", f"{jobs} jobs", f"{jobs - len(results.failed)} done"]
    shown = [section for section in sections if section.items]
    return Page(f"Sweep {results.title}", shown, facts, command)


def _tail(log: str, lines: int = 30) -> str:
    return "\n".join(log.splitlines()[-lines:])
