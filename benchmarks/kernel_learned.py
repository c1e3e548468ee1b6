# SPDX-License-Identifier: GPL-2.0-only
"""A policy that each flow runs in its data path on draws of commons, in the worlds linux and twin; see kernel.py.

A draw's runs are those of the entrants and, where there are other flows, of the others' own controls in place of the
tuned flows, which harm is measured against. Each is kept as it ends.
"""

from __future__ import annotations

import hashlib
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path

import numpy as np
import polars as pl

from bbrgym.agents.deploy.export_agent import export
from bbrgym.agents.shipped import SHIPPED
from bbrgym.evaluate.evaluation import prepare_evaluation
from bbrgym.evaluate.harm import with_harm
from bbrgym.evaluate.records import FIXED, EvaluationFolder, per_run
from bbrgym.evaluate.runner import EvaluationJob, run_each
from bbrgym.evaluate.statistics import known_mean
from bbrgym.report.markdown import markdown_table
from bbrgym.scenario.distribution import load_distribution, split_seeds
from bbrgym.scenario.files import load_scenario
from bbrgym.scenario.flow import Flow
from bbrgym.scenario.model import Scenario
from bbrgym.worlds import WorldError

DISTRIBUTION = "commons"
SEARCHED_DRAWS = 1000
MAX_MBPS = 50.0  # what the emulator holds in real time without the machine's other core
TWO_AT_ONCE_MBPS = 30.0  # up to here two emulators leave two cores time for the sockets
INTERVAL_S = 0.5  # between two decisions
ATTEMPTS = 2  # at a draw in the kernel, each with the repetitions of an evaluation

SETTING, TUNED = "shipped/fixed", "bbr-mix"
OWN_OF_KERNEL = {"bbr": "kernel-bbr"}  # `cubic` and `reno` are the kernel's own there
COLUMNS = {"score": "N", "own_score": "own", "harm": "harm"}


@dataclass(frozen=True)
class Plan:
    """A comparison."""

    learned: str  # a shipped agent, or the folder of a training, whose policy each flow runs by itself
    kept: Path  # folder of the runs that have been made, and of the policy's compiled forms
    draws: int  # number of draws
    first_draw: int  # of the test split, from which they are looked for
    seeds: int  # of the twin, on each draw; the first is that of the kernel's run
    seconds: float  # of each run

    @property
    def entrants(self) -> tuple[str, ...]:
        """Their names, in the order of their runs."""
        return (self.learned, SETTING, "cubic", "bbr", "bbq")

    @cached_property
    def scenarios(self) -> dict[int, Scenario]:
        """The first draws whose rate does not exceed `MAX_MBPS` in those seconds, by seed."""
        return dict(islice(self._slow(), self.draws))

    def _slow(self) -> Iterator[tuple[int, Scenario]]:
        distribution = load_distribution(DISTRIBUTION)
        for seed in split_seeds("test", SEARCHED_DRAWS, self.first_draw):
            drawn = distribution(seed)
            fields = drawn.model_dump(exclude_none=True)
            changes = [change for change in fields["link"]["changes"] if change["at_s"] < self.seconds]
            link = {**fields["link"], "changes": changes}
            scenario = load_scenario({**fields, "link": link, "duration_s": self.seconds})
            if highest_mbps(scenario) <= MAX_MBPS:
                yield seed, scenario

    def folder(self, world: str) -> EvaluationFolder:
        """Return the folder of a world's runs."""
        return EvaluationFolder(self.kept / world)

    @cached_property
    def policies(self) -> dict[str, str]:
        """The learned policy compiled for each world's data path; its file's name changes with it."""
        run, kept = SHIPPED.get(self.learned, Path(self.learned)), self.kept.resolve()
        kept.mkdir(parents=True, exist_ok=True)
        header = export(run, "c", output=kept / "policy.h")
        digest = hashlib.sha256(header.read_bytes()).hexdigest()[:16]
        library, program = (kept / f"policy-{digest}.{end}" for end in ("so", "bpf.o"))
        if not program.exists():
            flags = ["-O2", "-shared", "-fPIC", "-DBBRGYM_POLICY_ENTRY", "-x", "c"]
            subprocess.run(["cc", *flags, str(header), "-o", str(library)], check=True, timeout=600)
            export(run, "bpf", output=program)
        return {"linux": str(program), "twin": str(library)}

    def jobs(self, world: str, seed: int) -> dict[str, list[EvaluationJob]]:
        """Return a draw's runs by entrant, and by control of others that is none."""
        scenario = self.scenarios[seed]
        controls = [flow.cc for flow in scenario.flows if flow.role != "tuned"]
        seeds = [seed, *range(1, self.seeds if world == "twin" else 1)]
        scenario = in_kernel(scenario) if world == "linux" else scenario
        found = {}
        for name in dict.fromkeys((*self.entrants, *controls)):
            cc = OWN_OF_KERNEL.get(name, name) if world == "linux" else name
            policy = {"policy": self.policies[world]} if name == self.learned else {}
            settings = {"seeds": seeds, "interval_s": INTERVAL_S, "world": {world: {"options": policy}}}
            variants = [] if name == SETTING else [TUNED if policy else cc]
            agent = SETTING if name == SETTING else FIXED
            prepared = prepare_evaluation(scenario, {**settings, "variants": variants}, agent=agent)
            found[name] = list(prepared.jobs)
        return found

    def run(self, world: str, seed: int) -> list[WorldError]:
        """Make what is missing of a draw, and return why runs broke."""
        at_once = 2 if world == "twin" or highest_mbps(self.scenarios[seed]) <= TWO_AT_ONCE_MBPS else 1
        jobs = [job for jobs in self.jobs(world, seed).values() for job in jobs]
        folder = self.folder(world)
        with folder.opened(resume=True):
            records = run_each(jobs, at_once, folder)
        return [record for record in records if isinstance(record, WorldError)]

    def found(self, world: str, seed: int) -> pl.DataFrame | None:
        """Return the values of `COLUMNS` of each entrant on a draw, means over seeds; None if a run is missing."""
        folder, jobs = self.folder(world), self.jobs(world, seed)
        if not all(folder.has_job(job.key) for made in jobs.values() for job in made):
            return None
        tables = {name: pl.concat([folder.load_job(job.key).summary for job in made]) for name, made in jobs.items()}
        references = pl.concat(tables.values())
        rows = [
            per_run(with_harm(tables[name], references)).select(pl.lit(name).alias("name"), *COLUMNS)
            for name in self.entrants
        ]
        return pl.concat(rows).group_by("name").agg(pl.col(*COLUMNS).mean())


def in_kernel(scenario: Scenario) -> Scenario:
    """Return a draw whose other flows are the kernel's own where it has their controls."""

    def own(flow: Flow) -> Flow:
        cc = OWN_OF_KERNEL.get(flow.cc, flow.cc)
        return flow if flow.role == "tuned" else flow.model_copy(update={"cc": cc})

    return scenario.with_flows(own)


def highest_mbps(scenario: Scenario) -> float:
    """Return the highest rate of a link."""
    link = scenario.link
    return max(float(rate) for rate in (link.rate_mbps, *(change.rate_mbps for change in link.changes)) if rate)


def run(plan: Plan, until_s: float) -> None:
    """Make the missing runs, in the kernel until that time of the monotonic clock."""
    for seed in plan.scenarios:
        if plan.found("twin", seed) is None:
            plan.run("twin", seed)
        for _ in range(ATTEMPTS):
            if plan.found("linux", seed) is not None or time.monotonic() > until_s:
                break
            errors = plan.run("linux", seed)
            print(f"draw {seed}", *(error.reason for error in errors), flush=True)


# ---- the section ---------------------------------------------------------------------------------------------


def section(plan: Plan) -> str:
    """Return the section of the draws that both worlds have run."""
    both = [(plan.found("linux", seed), plan.found("twin", seed)) for seed in plan.scenarios]
    done = [(kernel, twin) for kernel, twin in both if kernel is not None and twin is not None]
    if not done:
        raise SystemExit("no draw has run in both worlds yet: run it again, or with more --minutes")
    # [entrants, draws] of each world, by column
    values = {column: [table_of(plan.entrants, one, column) for one in zip(*done, strict=True)] for column in COLUMNS}
    scores = values["score"]
    orders = [[plan.entrants[i] for i in np.argsort(-score.mean(axis=1))] for score in scores]
    rows = [
        [
            name,
            *("/".join(known_mean(one[None, at]).text(2).partition(" ")[0] for one in values[c]) for c in COLUMNS),
            *("" if at == 0 else known_mean((score[0] - score[at])[None]).text(2, "+") for score in scores),
        ]
        for at, name in sorted(enumerate(plan.entrants), key=lambda entrant: orders[0].index(entrant[1]))
    ]
    beside = int(np.isfinite(values["harm"][0][0]).sum())
    twins = "the same" if orders[0] == orders[1] else ", ".join(orders[1])
    return (
        f"{len(done)} test draws of `{DISTRIBUTION}` from {plan.first_draw} on with at most {MAX_MBPS:g} Mbit/s, the "
        f"first {plan.seconds:g} s, {beside} with other flows: in the kernel its own `bbr`, `cubic` and `reno`, our "
        f"`bbr3`. `{plan.learned}` runs in each flow's data path, in BPF and in C. The twin's order by N: {twins}.\n\n"
    ) + markdown_table(["kernel/twin", *COLUMNS.values(), f"{plan.learned}'s N over it, kernel", "twin"], rows)


def table_of(entrants: Sequence[str], draws: Sequence[pl.DataFrame], column: str) -> np.ndarray:
    """Return a column of some draws: [entrants, draws], NaN where there are no other flows."""
    by_name = [dict(zip(draw["name"], draw[column], strict=True)) for draw in draws]
    return np.array([[draw[name] for draw in by_name] for name in entrants], np.float64)
