# SPDX-License-Identifier: GPL-2.0-only
"""The report of a reproduction: tables, the papers' figures redrawn, a page, and the page of the documentation."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import polars as pl
from rich.table import Table

from bbrgym.atomic_files import write_text
from bbrgym.papers.catalogue import PAPERS
from bbrgym.papers.experiment import Experiment
from bbrgym.papers.reproduction import ReproducedExperiment, numbers_table
from bbrgym.papers.verdicts import verdict_of_all
from bbrgym.report.matplotlib_renderer import write_figures
from bbrgym.report.page import Item, Page, Section, write_page
from bbrgym.report.papers_figures import experiment_figures
from bbrgym.report.papers_tables import (
    CLAIMS,
    NUMBERS,
    OVERVIEW,
    claim_rows,
    factors_text,
    number_rows,
    overview_rows,
    table_of,
)
from bbrgym.report.tables import plain_text


def write_papers_report(folder: Path, results: Sequence[ReproducedExperiment], command: str) -> None:
    """Write summary.txt, figures/ and report.html, each file whole or not at all.

    Raises:
        OSError: a file cannot be written.
    """
    write_text(folder / "summary.txt", plain_text(papers_tables(results)))
    page = _page(results, command)
    write_figures(folder / "figures", page.figures)
    write_page(folder / "report.html", page)


def papers_tables(results: Sequence[ReproducedExperiment]) -> Iterator[Table]:
    """Yield the tables of a reproduction: of each experiment, and at the end the overview of the papers."""
    for result in results:
        yield from _tables_of(result)
    yield from _overview(results)


def _overview(results: Sequence[ReproducedExperiment]) -> Iterator[Table]:
    numbers, papers = numbers_table(results), papers_of(result.experiment for result in results)
    for world in numbers["world"].unique(maintain_order=True):
        rows = overview_rows(numbers.filter(pl.col("world") == world), papers)
        yield table_of(f"Published numbers and claims in world {world}", OVERVIEW, rows)


def papers_of(experiments: Iterable[Experiment]) -> Mapping[str, Sequence[str]]:
    """Return the names of experiments by paper."""
    papers: dict[str, list[str]] = {}
    for one in experiments:
        papers.setdefault(one.paper, []).append(one.name)
    return papers


def _tables_of(result: ReproducedExperiment) -> Iterator[Table]:
    numbers = numbers_table([result])
    for world in numbers["world"].unique(maintain_order=True):
        own = numbers.filter(pl.col("world") == world)
        where = f"{result.experiment.name} ({result.experiment.figure}) in world {world}"
        for what, headings, rows in (
            ("published numbers", NUMBERS, list(number_rows(own))),
            ("claims", CLAIMS, list(claim_rows(own))),
        ):
            if rows:
                yield table_of(f"{where}: {what}", headings, iter(rows))


# ---- the page -----------------------------------------------------------------------------------------


def _page(results: Sequence[ReproducedExperiment], command: str) -> Page:
    simulated_s, wall_s = sum(one.simulated_s for one in results), sum(one.wall_s for one in results)
    sections = [Section("Papers", list(_overview(results)), _LEGEND)]
    for result in results:
        items: list[Item] = [*experiment_figures(result), *_tables_of(result)]
        experiment = result.experiment
        sections.append(Section(f"{experiment.name}: {experiment.title}", items, _text(experiment)))
    return Page(
        title="Experiments of the papers",
        sections=sections,
        facts=[
            f"{datetime.date.today():%d %B %Y}",
            f"{len(results)} experiments",
            f"{simulated_s:,.0f} s simulated in {wall_s:,.0f} s",
        ],
        command=command,
    )


_LEGEND = (
    "A number agrees if the mean over seeds is within the published spread, or within 10 %, or within the precision "
    "with which the number is known. It has the shape if it is within a factor of 2 and order and trend are as "
    "published. A claim of the paper without a number of its own has the shape if it holds. An experiment has the "
    "verdict that 80 % of its numbers and claims have or exceed. The percentile tells which part of the seeds is below "
    "the published number."
)


def _text(experiment: Experiment) -> str:
    causes = [experiment.cause, *(one.cause for one in experiment.published), *(one.cause for one in experiment.claims)]
    parts = [experiment.figure[0].upper() + experiment.figure[1:] + ".", experiment.notes, experiment.no_run]
    return " ".join(part.strip() for part in dict.fromkeys([*parts, *causes]) if part)


# ---- the documentation --------------------------------------------------------------------------------

_INTRODUCTION = (
    "Every experiment of the five papers is a file in `conf/experiment/`: network, sender's stack, flows and variants, "
    "and the published numbers with their sources. `bbrgym reproduce experiment=bbq/fig13` runs one and prints this "
    "comparison; its run folder holds the redrawn figures. A published number is never used to tune."
)
_MARK = "# "


def write_papers_docs(folder: Path, results: Sequence[ReproducedExperiment], command: str) -> None:
    """Write papers.csv, the measured numbers, and papers.md, which shows them.

    Raises:
        OSError: a file cannot be written.
    """
    head = f"{_MARK}{command}\n{_MARK}{datetime.date.today().isoformat()}\n"
    rounded = numbers_table(results).with_columns(pl.selectors.float().round_sig_figs(6))
    write_text(folder / "papers.csv", head + rounded.write_csv())
    write_text(folder / "papers.md", papers_page(folder / "papers.csv", [result.experiment for result in results]))


def papers_page(csv: Path, experiments: Sequence[Experiment]) -> str:
    """Return the page of the documentation, in Markdown.

    Args:
        csv: as `write_papers_docs` writes it.
        experiments: in the order of the page.
    """
    text = csv.read_text(encoding="utf-8")
    command, date = (line.removeprefix(_MARK) for line in text.splitlines()[:2])
    numbers = pl.read_csv(csv, comment_prefix=_MARK, schema=numbers_table([]).schema)
    worlds = numbers["world"].unique(maintain_order=True).to_list()
    parts = [f"# The papers' experiments\n\n{_INTRODUCTION}\n\n{_LEGEND}\n\n`{command}`, {date}."]
    for world in worlds:
        rows = overview_rows(numbers.filter(pl.col("world") == world), papers_of(experiments))
        parts.append(f"World `{world}`:\n\n{_markdown(OVERVIEW, rows)}")
    for paper, names in papers_of(experiments).items():
        parts.append(f"## {PAPERS.get(paper, paper)}")
        parts += [_section(one, numbers, worlds) for one in experiments if one.name in names]
    return "\n\n".join(parts) + "\n"


def _section(experiment: Experiment, numbers: pl.DataFrame, worlds: Sequence[str]) -> str:
    parts = [f"### {experiment.name}: {experiment.title}", _text(experiment)]
    for world in worlds:
        own = numbers.filter((pl.col("experiment") == experiment.name) & (pl.col("world") == world))
        if not len(own):
            continue
        verdict = verdict_of_all(own["verdict"].to_list())
        parts.append(f"World `{world}`: **{verdict}**. {factors_text(own)}".rstrip())
        for headings, rows in ((NUMBERS, list(number_rows(own))), (CLAIMS, list(claim_rows(own)))):
            if rows:
                parts.append(_markdown(headings, iter(rows)))
    return "\n\n".join(parts)


def _markdown(headings: Sequence[str], rows: Iterator[list[str]]) -> str:
    lines = [list(headings), ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
