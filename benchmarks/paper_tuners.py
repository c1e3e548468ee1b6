# SPDX-License-Identifier: GPL-2.0-only
"""Tuners per paper: PPO and the portfolio set only the paper's own tunables, on the scenario that the paper is about.

usage: python benchmarks/paper_tuners.py [--steps 100000] [--runs 20] [--folder runs/paper_tuners]

Trained in the twin; compared there with the published setting (the variant's preset) on seeds of the test split, which
neither training nor validation has seen. Printed are the mean scores and the mean differences on the same seed with
Student's 95 % interval. Interrupted, the same command goes on.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

import bbrgym
from bbrgym.agents.training.train_agent import train
from bbrgym.evaluate.statistics import student_mean
from bbrgym.scenario.distribution import split_seeds

PAPERS = {
    "bbr-plus": ("deep_buffer", ["plus_alpha"]),
    "bbr-acd": ("congested", ["acd_alpha_us"]),
    "bbq": ("rtt_fairness", ["bbq_alpha_us", "bbq_beta"]),
    "bbr-pg": ("rtt_fairness", ["pg_tinterval_us", "pg_trand_low_us", "pg_trand_high_us"]),
}


AGENTS: dict[str, dict[str, Any]] = {
    "ppo": {"agent": {"name": "ppo", "start_at_default": True}, "env": {"critic": True}},
    "portfolio": {
        "agent": {"name": "portfolio", "library_size": 4, "search_trials": 20, "search_runs": 1, "refine_turns": 4}
    },
}
"""Settings of a training by the agent's name."""


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100_000, help="of each training")
    parser.add_argument("--runs", type=int, default=20, help="seeds that are compared on")
    parser.add_argument("--folder", type=Path, default=Path("runs/paper_tuners"), help="of the trainings")
    asked = parser.parse_args()
    agents = " | ".join(f"{name} | {name} minus published" for name in AGENTS)
    print(f"| variant | scenario | tunables | published | {agents} |")
    print("| --- " * (4 + 2 * len(AGENTS)) + "|")
    for variant in PAPERS:
        trained = {name: tuner(variant, name, asked.folder, asked.steps) for name in AGENTS}
        print(row(variant, trained, asked.runs), flush=True)


def tuner(variant: str, name: str, folder: Path, steps: int) -> Path:
    """Train an agent to set a variant's tunables; return its run folder."""
    scenario, tunables = PAPERS[variant]
    run = folder / f"{variant}-{name}"
    train(
        output_dir=run,
        resume=True,
        variant=variant,
        scenario=scenario,
        action={"tunables": tunables},
        num_envs=32,
        total_steps=steps,
        checkpoint_steps=steps // 10,
        validation={"draws": 8},
        **AGENTS[name],
    )
    return run


def row(variant: str, trained: Mapping[str, Path], runs: int) -> str:
    """Return the row of a variant."""
    scenario, tunables = PAPERS[variant]
    summary = bbrgym.evaluate(
        scenario, [variant], agent=[*map(str, trained.values())], world="twin", seeds=list(split_seeds("test", runs))
    )
    scores = summary.group_by("agent", "seed").agg(pl.col("score").first()).sort("seed")
    published = scores.filter(pl.col("agent") == "fixed")["score"].to_numpy()
    shown = [student_mean(published).short(3)]
    for name in trained:
        tuned = scores.filter(pl.col("agent") == name)["score"].to_numpy()
        shown += [student_mean(tuned).short(3), student_mean(tuned - published).short(3)]
    return f"| {variant} | {scenario} | {', '.join(tunables)} | {' | '.join(shown)} |"


if __name__ == "__main__":
    main()
