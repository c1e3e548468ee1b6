# SPDX-License-Identifier: GPL-2.0-only
"""The report of an explanation: tables as text, figures and a page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bbrgym.agents.explanation.explanation import Explanation
from bbrgym.report import explanation_figures as figures
from bbrgym.report.explanation_tables import explanation_tables, sentences
from bbrgym.report.page import Page, Section
from bbrgym.report.report_files import write_report_files


def write_explanation(folder: Path, explanation: Explanation, command: str) -> None:
    """Write summary.txt, with Matplotlib figures/, and report.html, each file whole or not at all."""
    facts = [f"{explanation.variant} on {explanation.scenario}", f"{len(explanation.episodes)} episodes"]
    page = Page(f"What {explanation.agent} does", list(_sections(explanation)), facts, command)
    write_report_files(folder, explanation_tables(explanation), page)


def _sections(explanation: Explanation) -> Iterator[Section]:
    yield Section("In words", explanation_tables(explanation), " ".join(sentences(explanation)))
    if explanation.rule is not None:
        agreement = figures.agreement_figure(explanation, explanation.rule)
        modes = figures.modes_figure(explanation, explanation.rule)
        yield Section("Modes", [modes, *([] if agreement is None else [agreement])])
    yield Section("One episode", [figures.episode_figure(explanation)])
