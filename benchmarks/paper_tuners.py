# SPDX-License-Identifier: GPL-2.0-only
"""A tuner per paper: PPO sets only the paper's own tunables, on the scenario that the paper is about.

usage: python benchmarks/paper_tuners.py [--steps 100000] [--runs 20] [--folder runs/paper_tuners]

Trained in the twin; compared there with the published setting (the variant's preset) on seeds of the test split, which
neither training nor validation has seen. Printed are the mean scores and the mean difference on the same seed with
Student's 95 % interval. Interrupted, the same command goes on.
"""

from __future__ import annotations

import argparse
from pathlib import Path

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


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100_000, help="of each training")
    parser.add_argument("--runs", type=int, default=20, help="seeds that are compared on")
    parser.add_argument("--folder", type=Path, default=Path("runs/paper_tuners"), help="of the trainings")
    asked = parser.parse_args()
    print("| variant | scenario | tunables | published | tuned | tuned minus published |")
    print("| --- | --- | --- | --- | --- | --- |")
    for variant, (scenario, tunables) in PAPERS.items():
        folder = asked.folder / variant
        train(
            output_dir=folder,
            resume=True,
            variant=variant,
            scenario=scenario,
            action={"tunables": tunables},
            env={"critic": True},
            agent={"name": "ppo", "start_at_default": True},
            num_envs=32,
            total_steps=asked.steps,
            checkpoint_steps=asked.steps // 10,
            validation={"draws": 8},
        )
        print(row(variant, scenario, tunables, folder, asked.runs), flush=True)


def row(variant: str, scenario: str, tunables: list[str], folder: Path, runs: int) -> str:
    """Return the row of a variant."""
    summary = bbrgym.evaluate(
        scenario, [variant], agent=str(folder), world="twin", seeds=list(split_seeds("test", runs))
    )
    scores = summary.group_by("agent", "seed").agg(pl.col("score").first()).sort("seed")
    published, tuned = (scores.filter(pl.col("agent") == agent)["score"].to_numpy() for agent in ("fixed", "ppo"))
    shown = (student_mean(values).short(3) for values in (published, tuned, tuned - published))
    return f"| {variant} | {scenario} | {', '.join(tunables)} | {' | '.join(shown)} |"


if __name__ == "__main__":
    main()
