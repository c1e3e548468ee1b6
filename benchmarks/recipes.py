# SPDX-License-Identifier: GPL-2.0-only
"""Train the recipes of published learned controls and a choice between algorithms, and measure them beside others.

usage: python benchmarks/recipes.py [--runs FOLDER] [--write docs/results.md]

Trains what FOLDER lacks, then prints command and date and a Markdown table, means over test draws with 95 % intervals.
"""

from __future__ import annotations

import argparse
import datetime
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from report import command, publish

import bbrgym
from bbrgym.evaluate.records import per_run
from bbrgym.evaluate.statistics import bootstrap_mean

LONGER = ("draws.by_cost=false", "agent.n_epochs=6", "agent.batch_size=1920")  # than PPO by default
#: Trained here for so many steps by these options, about half an hour of CPU in all.
TRAINED = {
    "aurora": (2_000_000, ["experiment=aurora"]),
    "orca": (1_000_000, ["experiment=orca"]),
    "astraea": (400_000, ["experiment=astraea"]),
    "switch": (600_000, ["variant=switch", "action=switch", *LONGER]),
}
#: Their names by variant and agent.
NAMES = {"direct ppo": "aurora", "cubic-scaled sac": "orca", "direct ppo-multi": "astraea", "switch ppo": "switch"}
BESIDE = {"agent": ["shipped/flow"], "variants": ["direct", "cubic", "bbr3"]}
CHECKPOINTS = 8  # with a validation each
PATIENCE_S = 14_400.0  # for a training of some 10 CPU minutes, also on a busy machine
SCENARIOS = ("wan_mix", "commons")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=Path, default=Path("runs/recipes"), help="run folders (default: runs/recipes)")
    parser.add_argument("--draws", type=int, default=100, help="test draws of each scenario (default: 100)")
    parser.add_argument("--write", type=Path, help="page whose section is replaced")
    options = parser.parse_args(arguments)
    section = "\n".join([f"`{command()}`, {datetime.date.today().isoformat()}", "", *table(options)])
    publish(options.write, "recipes", section, "wan_mix commons / direct cubic-scaled switch bbr3 cubic")
    return 0


def trained(folder: Path, name: str) -> str:
    """Train an agent where it is not yet; return its steps and the CPU minutes."""
    spent = folder / f"{name}.txt"
    if not spent.exists():
        steps, options = TRAINED[name]
        options = [*options, f"total_steps={steps}", f"checkpoint_steps={steps // CHECKPOINTS}", "resume=true"]
        program = [sys.executable, "-m", "bbrgym", "train", f"output_dir={folder / name}", *options]
        before = os.times()
        subprocess.run(program, check=True, timeout=PATIENCE_S)
        after = os.times()
        cpu_s = after.children_user + after.children_system - before.children_user - before.children_system
        spent.write_text(f"{steps / 1e6:g} M, {cpu_s / 60:.1f} min", encoding="utf-8")
    return spent.read_text(encoding="utf-8")


def table(options: argparse.Namespace) -> Iterator[str]:
    options.runs.mkdir(parents=True, exist_ok=True)
    training = {name: trained(options.runs, name) for name in TRAINED}
    agents = [*BESIDE["agent"], *(str(options.runs / name) for name in TRAINED)]
    where = {"world": "twin", "split": "test", "first_draw": 9600, "draws": options.draws, "series_draws": 0}
    rows: dict[str, list[str]] = {}
    for scenario in SCENARIOS:
        summary = bbrgym.evaluate(scenario, agent=agents, variants=BESIDE["variants"], **where)
        for (variant, agent), runs in per_run(summary).group_by("variant", "agent", maintain_order=True):
            name = variant if agent == "fixed" else NAMES.get(f"{variant} {agent}", agent)
            columns = ("score", "own_score") if scenario == "wan_mix" else ("score", "harm")
            means = [bootstrap_mean(runs[column].drop_nulls().to_numpy()) for column in columns]
            rows.setdefault(str(name), []).extend(f"{one.value:.2f}±{(one.high - one.low) / 2:.2f}" for one in means)
    yield "| entrant | `wan_mix` | own | `commons` | harm |"
    yield "| --- | --- | --- | --- | --- |"
    yield from (f"| {name} | {' | '.join(cells)} |" for name, cells in rows.items())
    yield "\nTrained for " + ", ".join(f"{name} {spent}" for name, spent in training.items()) + " of CPU."


if __name__ == "__main__":
    sys.exit(main())
