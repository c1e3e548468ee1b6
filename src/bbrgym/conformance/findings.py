# SPDX-License-Identifier: GPL-2.0-only
"""The finding of a case about a sender under a condition, and the table of all."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import polars as pl

Outcome = Literal["passed", "failed", "explained", "not applicable", "broken"]

#: Of a case under a condition. ``explained``: a statement fails that cannot hold as the draft has it, with the reason.
OUTCOMES: tuple[Outcome, ...] = ("passed", "explained", "failed", "not applicable", "broken")

#: Columns of findings.parquet.
SCHEMA = pl.Schema(
    {
        "number": pl.Int64,
        **dict.fromkeys(("case", "world", "cc", "reading"), pl.String),
        **dict.fromkeys(("rtt_ms", "rate_mbps"), pl.Float64),
        "variation": pl.String,
        "outcome": pl.String,
        "failed_s": pl.Float64,
        **dict.fromkeys(("statement", "measured", "reason", "trace"), pl.String),
    }
)


@dataclass(frozen=True)
class Finding:
    """A row of the table."""

    outcome: Outcome  # see `OUTCOMES`
    failed_s: float | None = None  # first moment at which a statement failed. Default: none did
    statement: str = ""  # that failed. Default: none did
    measured: str = ""  # what was measured: of the statement that failed, else of all
    reason: str = ""  # why the case is not applicable, cannot hold as written, or broke
    trace: str = ""  # CSV of the ACKs. Default: there was no run


def failures(findings: pl.DataFrame) -> pl.DataFrame:
    """Return the rows that are neither passed, explained nor not applicable."""
    return findings.filter(pl.col("outcome").is_in(["failed", "broken"]))


def counts(rows: Iterable[str]) -> list[int]:
    """Return how many outcomes there are of each of `OUTCOMES`."""
    found = list(rows)
    return [found.count(outcome) for outcome in OUTCOMES]
