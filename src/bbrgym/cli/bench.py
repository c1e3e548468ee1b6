# SPDX-License-Identifier: GPL-2.0-only
"""``bbrgym bench``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bbrgym.cli.composition import compose_config
from bbrgym.cli.plain_command import Words
from bbrgym.cli.polars_threads import start_polars
from bbrgym.cli.terminal import named_table, print_results, runs_bar
from bbrgym.errors import ConfigError
from bbrgym.evaluate.bench.results import BenchResults, bench, check_results, write_results
from bbrgym.evaluate.bench.tasks import load_benchmark
from bbrgym.runs.atomic_files import check_output

_CHECK, _DATASET = "check", "dataset"
DESCRIPTION = """\
Runs entrants on the frozen draws of bbrgym-bench-2 and writes one JSON file: their scores with 95 % intervals, harm to
others, the checks that they pass, version, commit, machine, and the hash of the draws. An entrant is a variant with its
preset, or an agent as evaluate's option agent takes it: shipped/flow, a run folder, a model's file, my_module:act,
random.

bench check FILE runs the entrants of a file again, and refuses it if a score or a check differs; its version, commit
and machine are shown as claims. An agent that is code runs only if BBRGYM_TRUSTED_MODULES has its module. bench dataset
AGENT writes episodes of a trained agent on training draws as a data set of Minari, of the name output=NAME.

examples:
  bbrgym bench bbr bbq cubic output=bench/presets.json
  bbrgym bench shipped/fixed shipped/flow shipped/wan output=bench/shipped.json
  bbrgym bench runs/mine
  bbrgym bench check bench/presets.json
  bbrgym bench dataset shipped/flow episodes=200 output=bbrgym/flow-v0
"""
WORDS = Words("AGENT|VARIANT ... or check FILE or dataset AGENT", 1, math.inf)


def run(words: Sequence[str], given: Sequence[str]) -> None:
    """Run the benchmark, or check a file of results, and print the scores."""
    start_polars()
    config, (first, *others) = compose_config("bench", given), words
    output = config["output"] and str(config["output"])
    if first == _CHECK:
        if len(others) != 1 or output is not None:
            raise ConfigError(f"bench check: {others} given, expected one file, and no output=")
        with runs_bar() as show:
            results = check_results(Path(others[0]), show)
        _print(results, f"{others[0]}: running it again gives the same", f"claimed, not checked: {results.claims()}")
        return
    if first == _DATASET:
        _write_dataset(others, output, config["episodes"])
        return
    path = Path(output or f"{load_benchmark().name}.json")
    check_output(path)  # not after minutes
    with runs_bar() as show:
        results = bench(words, show)
    write_results(results, path)
    _print(results, f"results: {path}")


def _write_dataset(agents: list[str], output: str | None, episodes: Any) -> None:
    from bbrgym.evaluate.agent_option import run_dir_of  # with agents, which presets do not need
    from bbrgym.evaluate.bench.dataset import write_dataset

    if len(agents) != 1 or output is None or not isinstance(episodes, int) or episodes < 1:
        raise ConfigError(f"bench dataset: {agents} given, expected one agent, output=NAME, and at least 1 episode")
    write_dataset(run_dir_of(agents[0]), output, episodes)
    print_results(f"data set: {output}, {episodes} episodes, read by minari.load_dataset")


def _print(results: BenchResults, *outcome: str) -> None:
    table = named_table(
        f"{results.benchmark}, mean scores", "entrant", "all", "own", *results.entries[0].tasks, "checks passed"
    )
    for entry in results.entries:
        means = [one.estimate.text(3) for one in (entry.score, entry.own_score, *entry.tasks.values())]
        checks = sum(map(len, entry.checks.values()))
        table.add_row(entry.entrant, *means, f"{entry.checks_passed} of {checks}")
    print_results(table, *outcome)
