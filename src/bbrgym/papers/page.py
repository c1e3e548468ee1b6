# SPDX-License-Identifier: GPL-2.0-only
"""The page docs/papers.md, and the measured numbers on that page, docs/papers.csv."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from bbrgym.errors import ConfigError
from bbrgym.evaluate.behaviour import behaviour_mark
from bbrgym.papers.catalogue import select_experiments
from bbrgym.papers.experiment import Experiment
from bbrgym.papers.names import PAPERS, notes_of
from bbrgym.papers.questions import questions_of
from bbrgym.papers.reproduction import NUMBERS
from bbrgym.papers.tables import (
    EXPERIMENTS,
    OVERVIEW,
    TESTBEDS,
    experiment_rows,
    of_papers,
    overview_rows,
    rows_of_testbeds,
    unmeasured,
)
from bbrgym.report.markdown import markdown_table
from bbrgym.runs.atomic_files import write_text
from bbrgym.untrusted_files import MAX_TEXT_BYTES, read_text
from bbrgym.worlds import FAST_WORLD

_INTRODUCTION = """\
Every experiment of the five papers, of six testbeds, of C4's tests and of a draft's questions is a file of \
`conf/experiment/`: its network, stack, flows and variants, the published numbers with their sources, what they leave \
open (`notes`) and why a number is not met (`cause`). `bbrgym reproduce experiment=bbq/fig13` runs one and prints \
each published number beside the measured one, with notes and causes. A published number is never used to tune.

- **agrees**: a number is within the published spread, within 10 %, or within the precision with which it is known; a \
claim with a published bound holds.
- **shape**: a number is within a factor of 2, and order and trend are as published; a claim without a bound holds.
- **no**: neither.
- **verdict on an experiment**: the best verdict that at least 80 % of its numbers and claims reach. Where its \
variants are readings of what the paper leaves open, it is that of the best reading, named in brackets.
- **within 1.25, 1.6**: the share of the published numbers above 0 that the measured ones are within such a factor of.
- **inside**: a number of a testbed is within the range of its runs, widened by 5 points of a share or 10 % of the \
mean of another quantity.
- **near**: the same with 10 points or 25 %.
- **mean difference**: from the testbed's means, in points of a ratio or percent of the mean; beside it that of \
another model, named in the experiment's notes."""
#: With which the numbers of the page become stale.
_BEHAVIOUR = "rtt_fairness lossy congested deep_buffer / bbr bbr-plus bbr-acd bbq bbr-pg bbr2 bbr3 cubic reno"
_MARK = "# "  # begins a line that is not a row


def write_papers_docs(folder: Path, numbers: pl.DataFrame, experiments: Sequence[Experiment], source: str) -> None:
    """Write the measured numbers into papers.csv, where those of other shipped experiments stay, and papers.md."""
    csv, sources, mark = folder / "papers.csv", [f"{source}, {datetime.date.today().isoformat()}"], ""
    numbers = numbers.with_columns(pl.selectors.float().round_sig_figs(6))
    if csv.exists():
        shipped = select_experiments(None, ())
        old, old_sources, old_mark = _read_numbers(csv)
        kept = old.join(numbers, on=["experiment", "world"], how="anti")
        kept = kept.filter(pl.col("experiment").is_in([one.name for one in shipped]))
        if len(kept):
            rank = {one.name: place for place, one in enumerate(shipped)}
            place = pl.col("experiment").replace_strict(rank, default=len(rank))
            numbers = pl.concat([kept, numbers]).sort(place, maintain_order=True)
            sources = [*(one for one in old_sources if not one.startswith(source)), *sources]
            mark = old_mark
            experiments = [*shipped, *(one for one in experiments if one.name not in rank)]
    head = [_MARK + one for one in (*sources, mark or behaviour_mark(_BEHAVIOUR))]
    write_text(csv, "\n".join(head) + "\n" + numbers.write_csv())
    write_text(folder / "papers.md", papers_page(folder, experiments))


def _read_numbers(csv: Path) -> tuple[pl.DataFrame, list[str], str]:
    """Return the numbers in a file, what measured them, and the mark of its behaviour."""
    text = read_text(csv, MAX_TEXT_BYTES)
    head = [line.removeprefix(_MARK) for line in text.splitlines() if line.startswith(_MARK)]
    try:
        return pl.read_csv(text.encode(), comment_prefix=_MARK, schema=NUMBERS), head[:-1], head[-1]
    except (IndexError, ValueError, pl.exceptions.PolarsError):
        raise ConfigError(f"docs: {str(csv)!r} holds no numbers of bbrgym reproduce") from None


def papers_page(folder: Path, experiments: Sequence[Experiment]) -> str:
    """Return the page of the documentation, in Markdown, by the numbers that `write_papers_docs` left in a folder."""
    numbers, sources, mark = _read_numbers(folder / "papers.csv")
    papers = {name.split("/")[0] for name in numbers["experiment"]}
    experiments = [one for one in experiments if one.paper in papers]
    parts = [
        "<!-- Written by `bbrgym reproduce docs=docs`. -->",
        f"# The papers' experiments\n\n{_INTRODUCTION}",
        f"## Counts\n\n{mark}",
        "Measured by\n\n" + "\n".join(f"- {one}" for one in sources),
    ]
    for world in numbers["world"].unique(maintain_order=True):
        rows = overview_rows(experiments, numbers.filter(pl.col("world") == world))
        parts.append(f"World `{world}`:\n\n{markdown_table(OVERVIEW, rows)}")
    for paper, own in of_papers(experiments).items():
        table = markdown_table(EXPERIMENTS, experiment_rows(own, numbers))
        parts += [f"## {PAPERS.get(paper, paper)}", table, "\n".join(unmeasured(own, numbers))]
    testbeds = [one for one in experiments if one.is_testbed]
    if testbeds:
        listed = "\n".join(f"- `{one}`: {PAPERS.get(one, one)}" for one in dict.fromkeys(one.paper for one in testbeds))
        table = markdown_table(TESTBEDS, rows_of_testbeds(testbeds, numbers))
        parts += ["## Testbeds", listed, table, "\n".join(unmeasured(testbeds, numbers))]
    questions = list(questions_of(experiments, numbers.filter(pl.col("world") == FAST_WORLD)))
    for paper in dict.fromkeys(one.paper for one in experiments if one.compared) if questions else ():
        parts += [f"## {PAPERS.get(paper, paper)}", notes_of(paper)]
    for question in questions:
        answers = "\n".join(f"- {sentence}" for sentence in question.conclusions())
        rows = question.rows(only_significant=True)
        parts += [f"### {question.title}", answers, markdown_table(question.headings, rows)]
    return "\n\n".join(part for part in parts if part) + "\n"
