# SPDX-License-Identifier: GPL-2.0-only
"""Order of variants, a fixed setting and a policy that each flow runs in its data path, in the worlds linux and twin.

See kernel.py.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import bbrgym
from bbrgym.agents.deploy.export_agent import export
from bbrgym.report.markdown import markdown_table
from bbrgym.scenario.distribution import load_distribution, split_seeds
from bbrgym.scenario.model import Scenario
from bbrgym.worlds import LateRunError

DISTRIBUTION = "wan_mix"
SEARCHED_DRAWS = 1000
MAX_MBPS = 50.0  # what the emulator holds in real time without the machine's other core
TWO_AT_ONCE_MBPS = 30.0  # up to here two emulators leave two cores time for the sockets
INTERVAL_S = 0.5  # between two decisions
ATTEMPTS = 4  # at a draw in the kernel: one refused run ends the evaluation, and the next goes on from there
RESAMPLES = 10_000

#: Each entrant, by its name in the kernel: the variant of the world twin, which has models of the kernel's own.
VARIANTS = {"kernel-bbr": "bbr", "kernel-cubic": "cubic"} | {cc: cc for cc in ("bbq", "bbr-acd", "bbr-plus", "bbr-pg")}
SETTING, SETTING_NAME = "shipped/fixed", "shipped-fixed"
LEARNED, TUNED = "policy", "bbr-mix"
ENTRANTS = (*VARIANTS, SETTING, LEARNED)

Scores = np.ndarray
"""Scores of a world: [entrants, draws]."""


@dataclass(frozen=True)
class Plan:
    """A comparison."""

    run: Path  # folder of a training whose agent each flow runs by itself
    kept: Path  # folder of the evaluations that have been made, and of the agent's compiled forms
    draws: int  # number of draws
    first_draw: int  # of the test split, from which they are looked for
    seeds: int  # of the twin, on each draw; the first is that of the kernel's run

    def scenarios(self) -> Iterator[tuple[int, Scenario]]:
        """Yield the seed and the scenario of the first draws whose rate never exceeds `MAX_MBPS`."""
        distribution = load_distribution(DISTRIBUTION)
        slow = (
            (seed, scenario)
            for seed in split_seeds("test", self.first_draw + SEARCHED_DRAWS)[self.first_draw :]
            if highest_mbps(scenario := distribution(seed)) <= MAX_MBPS
        )
        for (seed, scenario), _ in zip(slow, range(self.draws), strict=False):
            yield seed, scenario

    def folder(self, world: str, entrants: str, seed: int) -> Path:
        """Return the run folder of a draw's evaluation."""
        return self.kept / f"{entrants}-{world}-{seed}"

    def policy(self, world: str) -> Path:
        """Return the learned policy compiled for a world's data path."""
        file = self.kept / {"linux": "policy.bpf.o", "twin": "policy.so"}[world]
        if not file.exists():
            self.kept.mkdir(parents=True, exist_ok=True)
            if world == "linux":
                return export(self.run, "bpf", output=file)
            header = export(self.run, "c", output=file.with_suffix(".h"))
            flags = ["-O2", "-shared", "-fPIC", "-DBBRGYM_POLICY_ENTRY", "-x", "c"]
            subprocess.run(["cc", *flags, str(header), "-o", str(file)], check=True, timeout=600)
        return file

    def evaluate(self, world: str, seed: int, scenario: Scenario) -> None:
        """Run what is missing of a draw.

        Raises:
            LateRunError: a run was refused; those before it are kept.
        """
        variants = list(VARIANTS if world == "linux" else VARIANTS.values())
        others, tuned = self.folder(world, "others", seed), self.folder(world, LEARNED, seed)
        settings: dict[str, Any] = {
            "seeds": [seed] if world == "linux" else [seed, *range(1, self.seeds)],
            "interval_s": INTERVAL_S,
            "jobs": 2 if world == "twin" or highest_mbps(scenario) <= TWO_AT_ONCE_MBPS else 1,
        }
        scenario = beside_the_kernels(scenario) if world == "linux" else scenario
        if len(self.found(world, "others", seed)) < len(ENTRANTS) - 1:
            bbrgym.evaluate(
                scenario, variants, agent=SETTING, world=world, output_dir=others, resume=others.exists(), **settings
            )
        if not self.found(world, LEARNED, seed):
            shutil.rmtree(tuned, ignore_errors=True)  # a folder that names a program cannot be resumed
            policy = {world: {"options": {"policy": str(self.policy(world))}}}
            bbrgym.evaluate(scenario, [TUNED], world=policy, output_dir=tuned, **settings)

    def scores(self, world: str, seed: int) -> list[float] | None:
        """Return the mean score of each entrant on a draw; None if not all of them have run."""
        found = self.found(world, "others", seed)
        names = [("fixed", cc) for cc in (VARIANTS if world == "linux" else VARIANTS.values())]
        scores = [found.get(name) for name in (*names, (SETTING_NAME, TUNED))]
        scores.append(self.found(world, LEARNED, seed).get(("fixed", TUNED)))
        return None if None in scores else [score for score in scores if score is not None]

    def found(self, world: str, entrants: str, seed: int) -> dict[tuple[str, str], float]:
        """Return the mean score of each agent and variant that has run on a draw."""
        return mean_scores(self.folder(world, entrants, seed), 1 if world == "linux" else self.seeds)


def mean_scores(folder: Path, seeds: int) -> dict[tuple[str, str], float]:
    """Return the score of each agent and variant that has run with all seeds, a mean over these."""
    table = folder / "summary.parquet"
    if not table.exists():
        return {}
    runs = pl.read_parquet(table).unique(["variant", "agent", "seed"])
    runs = runs.filter(pl.len().over("variant", "agent") == seeds)
    means = runs.group_by("variant", "agent").agg(pl.col("score").mean())
    return {(row["agent"], row["variant"]): float(row["score"]) for row in means.iter_rows(named=True)}


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
    correlation = shown(float(rank_correlation(*values)), rank_correlation(*means), ".2f")
    gains = [table[-1] - table for table in tables]
    gains_means = [gain[:, picks].mean(axis=2) for gain in gains]
    rows = [
        [
            ENTRANTS[i],
            *(shown(value[i], mean[i], ".3f") for value, mean in zip(values, means, strict=True)),
            *(
                "" if ENTRANTS[i] == LEARNED else shown(float(gain[i].mean()), mean[i], "+.3f")
                for gain, mean in zip(gains, gains_means, strict=True)
            ),
        ]
        for i in np.argsort(-values[0])
    ]
    return (
        f"{draws} test draws of `{DISTRIBUTION}` from {plan.first_draw} on whose rate never exceeds {MAX_MBPS:g} "
        f"Mbit/s, a run of each entrant on each draw in the kernel. `RUN` is a training, `bbrgym train "
        f"experiment=wan_flow_portfolio`, which each flow runs in its data path: in BPF, and in C in the twin. 95 % "
        f"intervals by bootstrap over the draws; Spearman's rank correlation of the {len(ENTRANTS)} mean scores: "
        f"{correlation}.\n\n"
    ) + markdown_table(
        ["entrant", "score, kernel", "score, twin", "policy over it, kernel", "policy over it, twin"], rows
    )
