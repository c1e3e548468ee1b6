# SPDX-License-Identifier: GPL-2.0-only
"""Findings of the draft's test cases, for the terminal, the run folder and the documentation."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from rich.table import Table

from bbrgym.conformance.draft_cases import DRAFT_CASES
from bbrgym.conformance.findings import OUTCOMES, counts
from bbrgym.conformance.setup import DRAFT_CONSTANTS, DRAFT_FACTS
from bbrgym.report.markdown import markdown_table
from bbrgym.report.tables import new_table, plain_text
from bbrgym.runs.atomic_files import write_text
from bbrgym.runs.provenance import commit_of

_SENDER = ("world", "cc", "reading")
_COUNTS = ("world", "sender", *OUTCOMES, "cases passed or explained")
_ROWS = ("case", "path", "sender", "world", "outcome", "moment", "statement", "measured or reason")


def conformance_tables(findings: pl.DataFrame) -> Iterator[Table]:
    """Yield the counts by world and sender, and what did not pass."""
    yield _table("Draft cases, runs by outcome", _COUNTS, list(count_rows(findings)))
    rows = [_cells(row) for row in findings.to_dicts() if row["outcome"] != "passed"]
    if rows:
        yield _table("What did not pass", _ROWS, rows)


def _table(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = new_table(title, headings)
    for row in rows:
        table.add_row(*row)
    return table


def count_rows(findings: pl.DataFrame) -> Iterator[list[str]]:
    """Yield the cells of the counts: runs by outcome, and cases all of whose runs passed or were explained."""
    for (world, cc, reading), rows in findings.group_by(_SENDER, maintain_order=True):
        cases = rows.group_by("case", maintain_order=True).agg(pl.col("outcome"))
        applicable = [set(one) for one in cases["outcome"].to_list() if set(one) != {"not applicable"}]
        passed = sum(one <= {"passed", "explained", "not applicable"} for one in applicable)
        numbers = [str(count) for count in counts(rows["outcome"])]
        yield [str(world), sender_text(str(cc), str(reading)), *numbers, f"{passed} of {len(applicable)}"]


def sender_text(cc: str, reading: str) -> str:
    """Return the name of a sender: ``bbr3``, or ``bbr3 (draft)`` where it reads the draft as written."""
    return f"{cc} (draft)" if reading == "draft" else cc


def _cells(row: dict[str, Any]) -> list[str]:
    sender = sender_text(row["cc"], row["reading"])
    what = row["reason"] if row["outcome"] in ("not applicable", "broken") else row["measured"]
    return [row["case"], path_text(row), sender, row["world"], row["outcome"], _moment(row), row["statement"], what]


def path_text(row: dict[str, Any]) -> str:
    """Return a path in words: its RTT, rate and variation."""
    rate = row["rate_mbps"]
    rate_text = (
        f"{rate / 1000:g} Gbit/s" if rate >= 1000 else f"{rate:g} Mbit/s" if rate >= 1 else f"{1000 * rate:g} kbit/s"
    )
    rtt = row["rtt_ms"]
    rtt_text = f"{rtt / 1000:g} s" if rtt >= 1000 else f"{rtt:g} ms"
    return ", ".join(text for text in (rtt_text, rate_text, row["variation"]) if text)


def _moment(row: dict[str, Any]) -> str:
    return "" if row["failed_s"] is None else f"{row['failed_s']:.6g} s"


def write_conformance_report(folder: Path, findings: pl.DataFrame) -> None:
    """Write summary.txt."""
    write_text(folder / "summary.txt", plain_text(conformance_tables(findings)))


# ---- the documentation --------------------------------------------------------------------------------

_INTRODUCTION = """\
# The draft's test cases

The appendix "BBR Example Test Cases" of draft-ietf-ccwg-bbr-06 lists 22 cases. `bbrgym conformance` runs each at
several RTTs and rates. A case is a scenario of one flow, changes of the path or the application at moments that the
sender's state decides ("when DRAIN begins"), and statements about that state, checked at every ACK. The run folder
holds `findings.csv`, with the moment, the statement and the reason of each finding, and the ACKs in `traces/`.

    bbrgym conformance
    bbrgym conformance reading=draft case=drain-inflight
    bbrgym conformance 'world=[twin,ns3]' 'cc=[bbr3,bbr2,bbr]'

- **passed**: every statement holds at every ACK that is checked.
- **explained**: a statement cannot hold as the draft has it, for a known reason; all others hold.
- **failed**: a statement does not hold. The exit code is 1.
- **not applicable**: the algorithm has no such rule, or the world cannot run the case.

`bbr3` is google/bbr's code; `bbr3 (draft)` is `bbr3` with the draft's reading wherever the two differ
([variants.md](variants.md#the-draft)): the facts {facts}, and the constants {constants}. The world `linux` runs the
cases on paths of 10 ms and more, up to 100 Mbit/s, that change nothing at a moment of the run.
"""
#: What the findings depend on.
_INPUTS = "cc tcp twin world src/bbrgym/conformance"


def write_conformance_docs(folder: Path, findings: pl.DataFrame, command: str) -> None:
    """Write conformance.md."""
    write_text(folder / "conformance.md", conformance_page(findings, command, datetime.date.today().isoformat()))


def conformance_page(findings: pl.DataFrame, command: str, date: str) -> str:
    """Return the page of the documentation, in Markdown, on a run with its command line and date."""
    facts = ", ".join(f"`{name}: {str(value).lower()}`" for name, value in DRAFT_FACTS.items())
    constants = ", ".join(f"`{name}: {value:g}`" for name, value in DRAFT_CONSTANTS.items())
    written = "<!-- Written by `bbrgym conformance docs=docs`. -->\n\n"
    worlds = findings["world"].unique(maintain_order=True).to_list()
    first = findings.filter(pl.col("world") == worlds[0])
    parts = [
        written + _INTRODUCTION.format(facts=facts, constants=constants).rstrip(),
        f"## Verdicts\n\n<!-- figures of {_INPUTS} at {commit_of(_INPUTS)} -->",
        f"`{command}`, {date}. Runs by outcome:",
        markdown_table(_COUNTS, list(count_rows(findings))),
        f"Runs of each case in the world `{worlds[0]}`, by outcome:",
        _verdicts(first),
        *(_differences(first, findings.filter(pl.col("world") == world), world) for world in worlds[1:]),
        *_for_authors(first),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _verdicts(rows: pl.DataFrame) -> str:
    """Return the table of the cases: runs by outcome, a column for each sender."""
    senders = rows.select("cc", "reading").unique(maintain_order=True).rows()
    table = []
    for name in rows["case"].unique(maintain_order=True):
        own = rows.filter(pl.col("case") == name)
        case = DRAFT_CASES[name]
        cells = (
            _outcomes(own.filter((pl.col("cc") == cc) & (pl.col("reading") == reading))["outcome"])
            for cc, reading in senders
        )
        table.append([str(case.number), f"`{name}`", case.title, *cells])
    return markdown_table(["", "case", "title", *(sender_text(*one) for one in senders)], table)


def _outcomes(outcomes: pl.Series) -> str:
    """Return how many runs have each outcome."""
    return ", ".join(f"{count} {outcome}" for outcome, count in zip(OUTCOMES, counts(outcomes), strict=True) if count)


def _for_authors(findings: pl.DataFrame) -> Iterator[str]:
    """Yield what cannot hold as written with the draft's own reading, each reason once with the cases it is about."""
    rows = findings.filter((pl.col("outcome") == "explained") & (pl.col("reading") == "draft"))
    if not len(rows):
        return
    lines = []
    for (reason,), own in rows.group_by("reason", maintain_order=True):
        cases = own.select("number", "case").unique(maintain_order=True).rows()
        lines.append(f"- {reason} ({', '.join(f'{number}, `{name}`' for number, name in cases)})")
    yield "## What cannot hold as written\n\nWith the draft's own reading:\n\n" + "\n".join(lines)


def _cell(row: dict[str, Any]) -> str:
    if row["outcome"] in ("passed", "not applicable"):
        return str(row["outcome"])
    if row["outcome"] == "broken":
        return f"**broken**: {row['reason']}"
    mark = f"**{row['outcome']}**" if row["outcome"] == "failed" else row["outcome"]
    return f"{mark} at {_moment(row)}: {row['statement']}: {row['measured']}"


def _differences(first: pl.DataFrame, other: pl.DataFrame, world: str) -> str:
    """Return in a sentence how a world's outcomes differ from the first one's, of the runs that it can judge."""
    keys = ("case", "cc", "reading", "rtt_ms", "rate_mbps", "variation")
    before = {tuple(row[key] for key in keys): row["outcome"] for row in first.to_dicts()}
    asked = [row for row in other.to_dicts() if before[tuple(row[key] for key in keys)] != "not applicable"]
    judged = [row for row in asked if row["outcome"] != "not applicable"]
    if not judged:
        return f"World `{world}` can judge none of it." if asked else ""
    name, part = f"World `{world}`", f" judges {len(judged)} of {len(asked)} runs" if len(judged) < len(asked) else ""
    differing = [
        f"`{row['case']}`, {path_text(row)} ({sender_text(row['cc'], row['reading'])}): {_cell(row)}"
        + (f" ({row['reason']})" if row["outcome"] == "explained" else "")
        for row in judged
        if row["outcome"] != before[tuple(row[key] for key in keys)]
    ]
    if not differing:
        return f"{name}{part}: the same outcomes."
    return f"{name}{part}{' and' if part else ''} differs: {'; '.join(differing)}."
