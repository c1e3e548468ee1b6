# SPDX-License-Identifier: GPL-2.0-only
"""Order of variants, a best fixed setting and a trained portfolio, in the worlds linux and twin; see kernel.py."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

import bbrgym
from bbrgym.report.markdown import markdown_table
from bbrgym.scenario.distribution import load_distribution, split_seeds
from bbrgym.scenario.model import Scenario
from bbrgym.worlds import LateRunError

DISTRIBUTION = "wan_mix"
SEARCHED_DRAWS = 1000
MAX_MBPS = 100.0  # what the emulator holds in real time
TWO_AT_ONCE_MBPS = 30.0  # up to here two emulators leave two cores time for the sockets
INTERVAL_S = 0.5  # between two decisions
ATTEMPTS = 4  # at a draw in the kernel: one refused run ends the evaluation, and the next goes on from there
RESAMPLES = 10_000

#: Each entrant, by its name in the kernel: the variant of the world twin, which has models of the kernel's own.
VARIANTS = {"kernel-bbr": "bbr", "kernel-cubic": "cubic"} | {cc: cc for cc in ("bbq", "bbr-acd", "bbr-plus", "bbr-pg")}
PORTFOLIO, BEST_FIXED = "portfolio", "best fixed"
ENTRANTS = (*VARIANTS, BEST_FIXED, PORTFOLIO)

Scores = np.ndarray
"""Scores of a world: [entrants, draws]."""


@dataclass(frozen=True)
class Plan:
    """A comparison."""

    run: Path  # folder of a training of `agent=portfolio`
    kept: Path  # folder of the evaluations that have been made
    draws: int  # number of draws
    seeds: int  # of the twin, on each draw; the first is that of the kernel's run

    def scenarios(self) -> Iterator[tuple[int, Scenario]]:
        """Yield the seed and the scenario of the first test draws whose rate never exceeds `MAX_MBPS`."""
        distribution = load_distribution(DISTRIBUTION)
        slow = (
            (seed, scenario)
            for seed in split_seeds("test", SEARCHED_DRAWS)
            if highest_mbps(scenario := distribution(seed)) <= MAX_MBPS
        )
        for (seed, scenario), _ in zip(slow, range(self.draws), strict=False):
            yield seed, scenario

    def folder(self, world: str, seed: int) -> Path:
        """Return the run folder of a draw's evaluation."""
        return self.kept / f"{world}-{seed}"

    def evaluate(self, world: str, seed: int, scenario: Scenario) -> None:
        """Run what is missing of a draw.

        Raises:
            LateRunError: a run was refused; those before it are kept.
        """
        bbrgym.evaluate(
            beside_the_kernels(scenario) if world == "linux" else scenario,
            list(VARIANTS if world == "linux" else VARIANTS.values()),
            agent={PORTFOLIO: str(self.run), "best-fixed": f"library-best:{self.run}"},
            world=world,
            seeds=[seed] if world == "linux" else [seed, *range(1, self.seeds)],
            interval_s=INTERVAL_S,
            output_dir=self.folder(world, seed),
            resume=self.folder(world, seed).exists(),
            jobs=2 if world == "twin" or highest_mbps(scenario) <= TWO_AT_ONCE_MBPS else 1,
        )

    def scores(self, world: str, seed: int) -> list[float] | None:
        """Return the mean score of each entrant on a draw; None if not all of them have run."""
        table = self.folder(world, seed) / "summary.parquet"
        if not table.exists():
            return None
        rows = pl.read_parquet(table).unique(["variant", "agent", "seed"])
        if world == "twin" and rows["seed"].n_unique() < self.seeds:
            return None
        means = rows.group_by("variant", "agent").agg(pl.col("score").mean())
        found = {(row["agent"], row["variant"]): float(row["score"]) for row in means.iter_rows(named=True)}
        names = [("fixed", cc) for cc in (VARIANTS if world == "linux" else VARIANTS.values())]
        return [found[name] for name in (*names, ("best-fixed", "bbr-mix"), (PORTFOLIO, "bbr-mix"))]


def beside_the_kernels(scenario: Scenario) -> Scenario:
    """Return a draw whose flows of `cubic` are the kernel's own, also in the name."""
    flows = tuple(
        flow.model_copy(update={"cc": "kernel-cubic"}) if flow.cc == "cubic" else flow for flow in scenario.flows
    )
    return scenario.model_copy(update={"flows": flows})


def highest_mbps(scenario: Scenario) -> float:
    """Return the highest rate of a link."""
    link = scenario.link
    return max(float(rate) for rate in (link.rate_mbps, *(change.rate_mbps for change in link.changes)) if rate)


def run(plan: Plan, until_s: float) -> None:
    """Make the missing runs, in the kernel until that time of the monotonic clock."""
    plan.kept.mkdir(parents=True, exist_ok=True)
    for seed, scenario in plan.scenarios():
        if plan.scores("twin", seed) is None:
            plan.evaluate("twin", seed, scenario)
        for _ in range(ATTEMPTS):
            if plan.scores("linux", seed) is not None or time.monotonic() > until_s:
                break
            try:
                plan.evaluate("linux", seed, scenario)
                print(f"draw {seed}", flush=True)
            except LateRunError as error:
                print(f"draw {seed}: repeated, {error.reason}", flush=True)


# ---- the section ---------------------------------------------------------------------------------------------


def ranks(values: np.ndarray) -> np.ndarray:
    """Return the place of each entrant, the highest score first: [entrants, ...]."""
    return np.argsort(np.argsort(-values, axis=0), axis=0) + 1


def rank_correlation(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return Spearman's correlation over the entrants: [entrants, ...] -> [...]."""
    count = len(one)
    between = ((ranks(one) - ranks(other)) ** 2).sum(axis=0)
    return np.asarray(1 - 6 * between / (count * (count**2 - 1)))


def shown(value: float, resampled: np.ndarray, form: str) -> str:
    """Return a figure with its 95 % interval."""
    low, high = np.percentile(resampled, [2.5, 97.5])
    return f"{value:{form}} [{low:{form}}, {high:{form}}]"


def section(plan: Plan) -> str:
    """Return the section of the draws that both worlds have run."""
    both = [(plan.scores("linux", seed), plan.scores("twin", seed)) for seed, _ in plan.scenarios()]
    done = [(kernel, twin) for kernel, twin in both if kernel is not None and twin is not None]
    if not done:
        raise SystemExit("no draw has run in both worlds yet: run it again, or with more --minutes")
    tables = [np.array(table).T for table in zip(*done, strict=True)]
    draws = tables[0].shape[1]
    picks = np.random.default_rng(0).integers(draws, size=(RESAMPLES, draws))
    means = [table[:, picks].mean(axis=2) for table in tables]
    values = [table.mean(axis=1) for table in tables]
    places = [ranks(value) for value in values]
    correlation = shown(float(rank_correlation(*values)), rank_correlation(*means), ".2f")
    rows = [
        [
            ENTRANTS[i],
            *(shown(value[i], mean[i], ".3f") for value, mean in zip(values, means, strict=True)),
            *(str(place[i]) for place in places),
        ]
        for i in np.argsort(places[0])
    ]
    return (
        f"The first {draws} draws of `{DISTRIBUTION}`'s test split whose rate never exceeds {MAX_MBPS:g} Mbit/s, a run "
        f"of each entrant on each draw in the kernel. `RUN` is a training, `bbrgym train agent=portfolio "
        f"scenario={DISTRIBUTION}`; *{BEST_FIXED}* is `library-best:RUN`. 95 % intervals by bootstrap over the draws; "
        f"Spearman's rank correlation of the {len(ENTRANTS)} mean scores: {correlation}.\n\n"
    ) + markdown_table(["entrant", "score, kernel", "score, twin", "place, kernel", "place, twin"], rows)
