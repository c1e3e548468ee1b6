# SPDX-License-Identifier: GPL-2.0-only
"""Sentences on the numbers and claims of a paper: what is not met, and what the project aims at."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import polars as pl

from bbrgym.papers.distributions import FACTORS
from bbrgym.papers.experiment import Experiment
from bbrgym.papers.tables import outside, positive, shares_of_single_seeds, verdict_of_rows

AIMS: Mapping[float, float] = {1.25: 0.8, 1.6: 0.95}
"""Parts of the numbers in the authors' files that are to be within a factor."""


def heading_of(experiment: Experiment) -> str:
    """Return the heading of an experiment's section."""
    return f"{experiment.name}: {experiment.title}"


def summary_of(experiments: Sequence[Experiment], numbers: pl.DataFrame) -> str:
    """Return in Markdown what experiments of a paper do not meet; empty if there is nothing to tell.

    Args:
        experiments: of one paper.
        numbers: rows of numbers.parquet of one world.
    """
    in_files = [one for one in experiments if one.reference is not None]
    return "\n\n".join(part for part in (_unmet(experiments, numbers), _aims(in_files, numbers)) if part)


def _unmet(experiments: Sequence[Experiment], numbers: pl.DataFrame) -> str:
    """Return which experiments have the verdict no, with links to their causes."""
    parts = []
    for experiment in experiments:
        rows = numbers.filter(pl.col("experiment") == experiment.name)
        if len(rows) and verdict_of_rows(rows)[0] == "no":
            unmet, verdicts = rows.filter(pl.col("verdict") == "no"), rows["verdict"].count()
            parts.append(f"[{experiment.id}](#{_anchor(heading_of(experiment))}) ({len(unmet)} of {verdicts})")
    if not parts:
        return ""
    return (
        f"Verdict no, with the numbers and claims that are not met; each section tells the cause: {', '.join(parts)}."
    )


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _aims(in_files: Sequence[Experiment], numbers: pl.DataFrame) -> str:
    """Return whether the numbers in the authors' files meet `AIMS`, and where those lie that do not."""
    rows = positive(numbers.filter(pl.col("experiment").is_in([one.name for one in in_files])))
    if not len(rows):
        return ""
    names = ", ".join(one.id for one in in_files if one.name in set(rows["experiment"]))
    parts = [f"The authors' files hold {len(rows)} numbers above 0 ({names})."]
    parts += [_aim(factor, len(outside(rows, factor)), len(rows)) for factor in FACTORS]
    single = [part for part in shares_of_single_seeds(rows) if part is not None]
    if single:
        shares = " and ".join(f"{100 * part:.1f}" for part in single)
        factors = " and ".join(f"{factor:g}" for factor in FACTORS)
        parts.append(
            f"Single runs of ours are within {factors} of the mean of the others in {shares} % of the cases, so the "
            "authors' single runs could not be expected nearer to our means if chance alone parted them."
        )
    far = outside(rows, FACTORS[-1])
    if len(far):
        parts.append(f"The {len(far)} outside {FACTORS[-1]:g}, by place: {_places(in_files, far)}.")
    return " ".join(parts)


def _aim(factor: float, missing: int, numbers: int) -> str:
    aim = AIMS[factor]
    over = missing - int((1 - aim) * numbers + 1e-9)
    end = "reached" if over <= 0 else f"missed by {over} number{'s' if over > 1 else ''}"
    return (
        f"{100 * (1 - missing / numbers):.1f} % are within a factor of {factor:g}: the aim of {100 * aim:g} % is {end}."
    )


def _places(in_files: Sequence[Experiment], rows: pl.DataFrame) -> str:
    """Return how many numbers lie at which points of the sweeps, with their experiments and variants."""
    titles = {one.name: one.sweep.title for one in in_files if one.sweep is not None}
    at: dict[str, list[str]] = {}
    for row in rows.sort("at", maintain_order=True).iter_rows(named=True):
        name = row["experiment"]
        at.setdefault(f"{titles[name]} of {row['at']:g}", []).append(f"{name.split('/')[1]} {row['variant']}")
    return "; ".join(f"{point}: {len(of)} ({', '.join(of)})" for point, of in at.items())
