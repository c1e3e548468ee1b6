# SPDX-License-Identifier: GPL-2.0-only
"""Verdicts in Markdown, for the terminal and the page of the documentation, docs/own_control.md."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from pathlib import Path

from bbrgym.conformance.setup import Condition
from bbrgym.conformance.verdicts import OUTCOMES, DraftVerdict
from bbrgym.errors import ConfigError
from bbrgym.evaluate.behaviour import behaviour_mark
from bbrgym.report.markdown import markdown_table
from bbrgym.runs.atomic_files import write_text
from bbrgym.untrusted_files import MAX_TEXT_BYTES, read_text

_BEGIN, _END = "<!-- begin verdicts, written by bbrgym conformance -->\n", "<!-- end verdicts -->\n"
_BEHAVIOUR = "steady lossy policer deep_buffer / bbr bbr2 bbr3"  # with which the verdicts become stale


def verdict_line(one: DraftVerdict) -> str:
    """Return a verdict in a line; of a statement that failed the moment and what was measured."""
    line = f"{one.case.name}, {_path_text(one.path)}, {one.sender.name}: {one.outcome}"
    if one.failed is not None and one.failed.failed_s is not None:
        line += f" at {one.failed.failed_s:.6g} s: {one.failed.text}: {one.failed.measured}"
    return line + (f" ({one.reason})" if one.reason else "")


def _path_text(path: Condition) -> str:
    rate, rtt = path.rate_mbps, path.rtt_ms
    rate_text = (
        f"{rate / 1000:g} Gbit/s" if rate >= 1000 else f"{rate:g} Mbit/s" if rate >= 1 else f"{1000 * rate:g} kbit/s"
    )
    rtt_text = f"{rtt / 1000:g} s" if rtt >= 1000 else f"{rtt:g} ms"
    return ", ".join(text for text in (rtt_text, rate_text, path.variation) if text)


def verdicts_text(verdicts: Sequence[DraftVerdict]) -> str:
    """Return runs by outcome, case by case and of all cases."""
    senders = list(dict.fromkeys(one.sender for one in verdicts))
    names = [sender.name for sender in senders]
    cases = {one.case.name: one.case for one in verdicts}
    totals = [_counts_text(one for one in verdicts if one.sender == sender) for sender in senders]
    rows = [
        [
            *(str(case.number), f"`{case.name}`"),
            *(_counts_text(one for one in verdicts if (one.case, one.sender) == (case, sender)) for sender in senders),
        ]
        for case in cases.values()
    ]
    case = f"case; runs {'/'.join(OUTCOMES)}"
    return markdown_table(["", case, *names], [*rows, ["", "all", *totals]])


def _counts_text(verdicts: Iterable[DraftVerdict]) -> str:
    """Return how many verdicts have each outcome."""
    found = [one.outcome for one in verdicts]
    return "/".join(str(found.count(outcome)) for outcome in OUTCOMES)


def write_verdicts(page: Path, verdicts: Sequence[DraftVerdict], command: str) -> None:
    """Replace the verdicts of a page by those of a command line.

    Raises:
        ConfigError: the page cannot be read, or has no marks.
    """
    before, begin, rest = read_text(page, MAX_TEXT_BYTES).partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise ConfigError(f"write: {str(page)!r} has no {_BEGIN.strip()!r} followed by {_END.strip()!r}")
    head = f"{behaviour_mark(_BEHAVIOUR)}\n\n`{command}`, {datetime.date.today().isoformat()}:"
    heading, line, *_, totals = verdicts_text(verdicts).splitlines()  # case by case the command prints them
    write_text(page, "\n".join([f"{before}{begin}{head}", "", heading, line, totals, f"{end}{after}"]))
