# SPDX-License-Identifier: GPL-2.0-only
"""The report of a reproduction: tables, the papers' figures redrawn, a page, and the page of the documentation."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from rich.table import Table

from bbrgym.errors import ConfigError
from bbrgym.papers.catalogue import PAPERS, notes_of, select_experiments
from bbrgym.papers.experiment import Experiment
from bbrgym.papers.figures import experiment_figures
from bbrgym.papers.numbers_table import numbers_table
from bbrgym.papers.questions import questions_of
from bbrgym.papers.results import ReproducedExperiment
from bbrgym.papers.summary import TESTBEDS, heading_of, rows_of_testbeds, unmeasured, verdict_headings, verdict_rows
from bbrgym.papers.tables import (
    CLAIMS,
    DISTRIBUTIONS,
    NUMBERS,
    OVERVIEW,
    claim_rows,
    distribution_rows,
    number_rows,
    overview_rows,
    reasons_text,
    table_of,
)
from bbrgym.report.markdown import markdown_table
from bbrgym.report.page import Item, Page, Section
from bbrgym.report.report_files import write_report_files
from bbrgym.runs.atomic_files import write_text
from bbrgym.runs.provenance import commit_of
from bbrgym.untrusted_files import MAX_TEXT_BYTES, read_text
from bbrgym.worlds import FAST_WORLD


def write_papers_report(folder: Path, results: Sequence[ReproducedExperiment], stack: str, command: str) -> None:
    """Write summary.txt, with Matplotlib figures/, and report.html, which shows the command line, into a run folder.

    ``stack`` is that of every sender, see `Reproduction.stack_text`.
    """
    write_report_files(folder, papers_tables(results, stack), _page(results, stack, command))


def papers_tables(results: Sequence[ReproducedExperiment], stack: str) -> Iterator[Table]:
    """Yield the tables of a reproduction: of each experiment, and at the end the overview of the papers."""
    for result in results:
        yield from _tables_of(result)
    yield from _overview(results, stack)


def _overview(results: Sequence[ReproducedExperiment], stack: str) -> Iterator[Table]:
    numbers, experiments = numbers_table(results), [result.experiment for result in results]
    groups, testbeds = groups_of(experiments), [one for one in experiments if one.is_testbed]
    for world in numbers["world"].unique(maintain_order=True):
        rows = list(overview_rows(numbers.filter(pl.col("world") == world), groups))
        if rows:
            yield table_of(f"Published numbers and claims in world {world}{_with(stack)}", OVERVIEW, iter(rows))
    if testbeds:
        yield table_of(f"Numbers of testbeds{_with(stack)}", TESTBEDS, rows_of_testbeds(testbeds, numbers))
    for world in numbers["world"].unique(maintain_order=True):
        for question in questions_of(experiments, numbers.filter(pl.col("world") == world)):
            where = f"{question.title}, in world {world}{_with(stack)}: ratio to `{question.first}` [95 %]"
            yield table_of(where, question.headings, question.rows())


def _with(stack: str) -> str:
    return f" with stack={stack}" if stack else ""


def groups_of(experiments: Sequence[Experiment]) -> Mapping[str, Sequence[str]]:
    """Return names of experiments by paper, and for each paper those whose numbers are in the authors' files.

    Experiments on testbeds and scenarios of questions have tables of their own.
    """
    groups: dict[str, Sequence[str]] = {}
    for paper, names in papers_of(_of_papers(experiments)).items():
        groups[paper] = names
        in_files = [one for one in experiments if one.paper == paper and one.reference is not None]
        if in_files:
            groups[f"{paper}: {', '.join(one.id for one in in_files)}"] = [one.name for one in in_files]
    return groups


def _of_papers(experiments: Sequence[Experiment]) -> list[Experiment]:
    return [one for one in experiments if not one.is_testbed and not one.compared]


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
            ("distribution over seeds", DISTRIBUTIONS, list(distribution_rows(own))),
            ("claims", CLAIMS, list(claim_rows(own))),
        ):
            if rows:
                yield table_of(f"{where}: {what}", headings, iter(rows))


# ---- the page -----------------------------------------------------------------------------------------


def _page(results: Sequence[ReproducedExperiment], stack: str, command: str) -> Page:
    simulated_s, wall_s = sum(one.simulated_s for one in results), sum(one.wall_s for one in results)
    sections = [Section("Papers", list(_overview(results, stack)), _LEGEND)]
    shown: set[str] = set()
    for result in results:
        items: list[Item] = [*experiment_figures(result), *_tables_of(result)]
        experiment = result.experiment
        if experiment.paper not in shown and notes_of(experiment.paper):
            sections.append(Section(PAPERS[experiment.paper], [], notes_of(experiment.paper)))
        shown.add(experiment.paper)
        text = f"{_text(experiment)} {reasons_text(numbers_table([result]))}".rstrip()
        sections.append(Section(heading_of(experiment), items, text))
    return Page(
        title="Experiments of the papers",
        sections=sections,
        facts=[
            f"{datetime.date.today():%d %B %Y}",
            f"{len(results)} experiments{_with(stack)}",
            f"{simulated_s:,.0f} s simulated in {wall_s:,.0f} s",
        ],
        command=command,
    )


#: What the words of the tables mean.
_TERMS = {
    "agrees": (
        "a number is within the published spread, within 10 %, or within the precision with which it is known; a claim "
        "with a published bound holds."
    ),
    "shape": ("a number is within a factor of 2, and order and trend are as published; a claim without a bound holds."),
    "no": "neither.",
    "inside": (
        "a number of a testbed is within the range of its runs, widened by 5 points of a share or 10 % of the mean of "
        "another quantity."
    ),
    "near": "the same with 10 points or 25 %.",
    "mean difference": (
        "from the testbed's means, in points of a ratio or percent of the mean; beside it that of another model, named "
        "in the experiment's notes."
    ),
    "verdict on an experiment": (
        "the best verdict that at least 80 % of its numbers and claims reach. Where its variants are readings of what "
        "the paper leaves open, it is that of the best reading, named in brackets."
    ),
    "not run": "where a run broke, nothing of its point counts as run.",
    "within 1.25, 1.6": (
        "the share of the published numbers above 0 that the measured ones are within such a factor of; in a row with "
        "names of experiments, of the numbers in the authors' files."
    ),
    "one seed within 1.25, 1.6": (
        "the same share of our own single seeds, each beside the mean of the others: what published single runs would "
        "reach if only chance parted them from ours."
    ),
    "percentile": "the share of the seeds whose value is below the published number.",
    "read off the figure to": "the precision with which a number was read off a figure.",
}
_LEGEND = " ".join(f"{term[0].upper()}{term[1:]}: {meaning}" for term, meaning in _TERMS.items())


def _text(experiment: Experiment) -> str:
    causes = [experiment.cause, *(one.cause for one in experiment.published), *(one.cause for one in experiment.claims)]
    parts = [experiment.figure[0].upper() + experiment.figure[1:] + ".", experiment.notes, experiment.no_run]
    return " ".join(part.strip() for part in dict.fromkeys([*parts, *causes]) if part)


# ---- the documentation --------------------------------------------------------------------------------

_INTRODUCTION = (
    "Every experiment of the five papers, of four testbeds and of a draft's questions is a file of "
    "`conf/experiment/`: its network, stack, flows and variants, the published numbers with their sources, what they "
    "leave open (`notes`) and why a number is not met (`cause`). `bbrgym reproduce experiment=bbq/fig13` runs one; its "
    "report shows each published number beside the measured one, redraws the figure and prints notes and causes. A "
    "published number is never used to tune."
)
#: What the figures of the page depend on.
_INPUTS = "cc tcp twin world conf/experiment"
_MARK = "# "  # begins a line that is not a row
_STACK = f"{_MARK}stack="
_EFFORT = f"{_MARK}effort="
_ANEW = f"{_MARK}again="
_COMMIT = f"{_MARK}commit="
_OWN = "null"


def effort_text(results: Sequence[ReproducedExperiment], elapsed_s: float, cores: int) -> str:
    """Return how many runs a reproduction has, and how long they took."""
    minutes, seconds = divmod(round(elapsed_s), 60)
    simulated_s = sum(one.simulated_s for one in results)
    runs = sum(one.runs for one in results)
    on = "1 core" if cores == 1 else f"{cores} cores"
    return f"{runs:,} runs of {simulated_s:,.0f} simulated s in {minutes} min {seconds} s on {on}"


def write_papers_docs(
    folder: Path, results: Sequence[ReproducedExperiment], stack: str, command: str, effort: str = ""
) -> None:
    """Write the measured numbers, and papers.md, which shows them.

    Those of the experiments' own stacks go to papers.csv, those of another to a file beside it; what such a file has of
    other shipped experiments stays. papers.md shows both, and needs papers.csv; beside another stack it has all shipped
    experiments of the papers there.
    """
    written = _WrittenNumbers(
        command=command,
        date=datetime.date.today().isoformat(),
        stack=stack,
        effort=effort,
        numbers=numbers_table(results).with_columns(pl.selectors.float().round_sig_figs(6)),
        commit=commit_of(_INPUTS),
    )
    csv = folder / _csv_name(stack)
    if csv.exists():
        written = written.beside(_read_numbers(csv))
    write_text(csv, written.text)
    own_stacks = folder / _csv_name("")
    if own_stacks.exists():
        experiments = [result.experiment for result in results]
        if stack or written.again:
            papers = {name.split("/")[0] for name in _read_numbers(own_stacks).numbers["experiment"]}
            shipped = [one for one in select_experiments(None, ()) if one.paper in papers]
            experiments = shipped + [one for one in experiments if one.paper not in PAPERS]
        write_text(folder / "papers.md", papers_page(folder, experiments))


def _csv_name(stack: str) -> str:
    parts = ["papers", *re.findall(r"[\w.-]+", stack)]
    return f"{'-'.join(parts)}.csv"


@dataclass(frozen=True)
class _WrittenNumbers:
    """A file of measured numbers."""

    command: str  # that measured them
    date: str  # of it
    stack: str  # of every sender; empty: the experiments' own
    effort: str  # of the command, see `effort_text`; empty: not known
    numbers: pl.DataFrame  # the rows
    again: Sequence[str] = ()  # commands that measured a part of them again, each with its date
    commit: str = "unknown"  # of the code that measured them, with a plus where files differed from it

    def beside(self, old: _WrittenNumbers) -> _WrittenNumbers:
        """Return these numbers with the rows of an older file whose experiments they have not, if these are shipped."""
        order = [one.name for one in select_experiments(None, ())]
        kept = old.numbers.join(self.numbers, on=["experiment", "world"], how="anti")
        kept = kept.filter(pl.col("experiment").is_in(order))
        if not len(kept):
            return self
        rank = {name: place for place, name in enumerate(order)}
        place = pl.col("experiment").replace_strict(rank, default=len(rank))
        numbers = pl.concat([kept, self.numbers]).sort(pl.col("claim").is_not_null(), place, maintain_order=True)
        again = (*(one for one in old.again if self.command not in one), f"{self.date} {self.command}")
        return _WrittenNumbers(old.command, old.date, self.stack, old.effort, numbers, again, old.commit)

    @property
    def text(self) -> str:
        """Content of the file."""
        head = [f"{_MARK}{self.command}", f"{_MARK}{self.date}", f"{_STACK}{self.stack or _OWN}"]
        head += [f"{_EFFORT}{self.effort}"] if self.effort else []
        head += [f"{_ANEW}{one}" for one in self.again]
        head.append(f"{_COMMIT}{self.commit}")
        return "\n".join(head) + "\n" + self.numbers.write_csv()

    @property
    def origin(self) -> str:
        """The commands with their dates, in Markdown."""
        parts = [one.partition(" ") for one in self.again]
        effort = f": {self.effort}" if self.effort else ""
        return f"`{self.command}`, {self.date}{effort}." + "".join(
            f" A part of it again: `{command}`, {date}." for date, _, command in parts
        )


def _read_numbers(csv: Path) -> _WrittenNumbers:
    """Return the numbers in a file.

    Raises:
        ConfigError: it cannot be read, or is not such a file.
    """
    text = read_text(csv, MAX_TEXT_BYTES)
    lines = text.splitlines()
    try:
        command, date, stack = lines[:3]
        numbers = pl.read_csv(text.encode(), comment_prefix=_MARK, schema=numbers_table([]).schema)
    except (ValueError, pl.exceptions.PolarsError):
        raise ConfigError(f"docs: {str(csv)!r} holds no numbers of bbrgym reproduce") from None
    return _WrittenNumbers(
        command=command.removeprefix(_MARK),
        date=date.removeprefix(_MARK),
        stack=stack.removeprefix(_STACK).replace(_OWN, ""),
        effort="".join(line.removeprefix(_EFFORT) for line in lines[3:] if line.startswith(_EFFORT)),
        numbers=numbers,
        again=[line.removeprefix(_ANEW) for line in lines[3:] if line.startswith(_ANEW)],
        commit="".join(line.removeprefix(_COMMIT) for line in lines[3:] if line.startswith(_COMMIT)) or "unknown",
    )


def papers_page(folder: Path, experiments: Sequence[Experiment]) -> str:
    """Return the page of the documentation, in Markdown, by the numbers that `write_papers_docs` left in a folder."""
    own_stacks = _read_numbers(folder / _csv_name(""))
    others = {one.stack: one.numbers for one in map(_read_numbers, sorted(folder.glob("papers-*.csv")))}
    numbers = own_stacks.numbers
    shown = ["agrees", "shape", "no", "verdict on an experiment", "within 1.25, 1.6", "one seed within 1.25, 1.6"]
    shown += ["inside", "near", "mean difference"] if any(one.is_testbed for one in experiments) else []
    terms = [f"- **{term}**: {_TERMS[term]}" for term in shown]
    terms += [f"- **`stack={stack}`**: the verdict with that stack for every sender." for stack in others]
    parts = [
        "<!-- Written by `bbrgym reproduce docs=docs`. -->",
        f"# The papers' experiments\n\n{_INTRODUCTION}\n\n" + "\n".join(terms),
        f"## Counts\n\n<!-- figures of {_INPUTS} at {own_stacks.commit} -->\n\n{own_stacks.origin}",
    ]
    for world in numbers["world"].unique(maintain_order=True):
        rows = overview_rows(numbers.filter(pl.col("world") == world), groups_of(experiments))
        parts.append(f"World `{world}`:\n\n{markdown_table(OVERVIEW, rows)}")
    testbeds = [one for one in experiments if one.is_testbed]
    for paper, names in papers_of(_of_papers(experiments)).items():
        own = [one for one in experiments if one.name in names]
        table = markdown_table(verdict_headings(list(others)), verdict_rows(own, numbers, others))
        parts += [f"## {PAPERS.get(paper, paper)}", table, "\n".join(unmeasured(own, numbers))]
    if testbeds:
        sources = "\n".join(f"- `{paper}`: {PAPERS.get(paper, paper)}" for paper in papers_of(testbeds))
        table = markdown_table(TESTBEDS, rows_of_testbeds(testbeds, numbers))
        parts += ["## Testbeds", sources, table, "\n".join(unmeasured(testbeds, numbers))]
    questions = list(questions_of(experiments, numbers.filter(pl.col("world") == FAST_WORLD)))
    for paper in papers_of(one for one in experiments if one.compared) if questions else ():
        parts += [f"## {PAPERS.get(paper, paper)}", notes_of(paper)]
    for question in questions:
        answers = "\n".join(f"- {sentence}" for sentence in question.conclusions())
        parts += [f"### {question.title}", answers, markdown_table(question.headings, question.rows())]
    return "\n\n".join(part for part in parts if part) + "\n"
