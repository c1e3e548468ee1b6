# SPDX-License-Identifier: GPL-2.0-only
"""Steps/s of vector environments by threads, and the share of Python.

usage: python benchmarks/vector_steps.py [--envs 256] [--flows 1] [--steps 300] [--rounds 5] [--variant bbq]
           [--write docs/fidelity-and-speed.md]

`gymnasium.make_vec("bbrgym/Tune-v2", world="twin")` on a link of 10 Mbit/s, RTT 40 ms, 1 BDP, in steps of 100 ms, with
random actions and episodes of 15 to 45 s. Printed are, for one thread and for as many as there are cores, the median
over rounds (one thread and many in turn) of steps a second, and the part of a step outside the call in which the worlds
run, in C++.
"""

from __future__ import annotations

import argparse
import functools
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from report import Bystanders, command, measured_on, publish

import bbrgym
from bbrgym.report.markdown import markdown_table
from bbrgym.worlds import VectorWorld

EPISODE_S = (15.0, 45.0)


def main() -> None:
    """Print the section, and write it into a page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envs", type=int, default=256, help="environments")
    parser.add_argument("--flows", type=int, default=1, help="tuned flows of each")
    parser.add_argument("--steps", type=int, default=300, help="vector steps of a round")
    parser.add_argument("--rounds", type=int, default=5, help="of which the median counts")
    parser.add_argument("--variant", default="bbq", help="what the flows run")
    parser.add_argument("--write", type=Path, help="page whose section is replaced")
    asked = parser.parse_args()
    bystanders = Bystanders()
    cores = len(os.sched_getaffinity(0))

    vectors = {threads: make(asked, threads) for threads in sorted({1, cores})}
    shape = (16, *next(iter(vectors.values())).action_space.shape)
    actions = np.random.default_rng(1).uniform(-1, 1, shape).astype(np.float32)
    rounds: dict[int, list[tuple[float, float]]] = {threads: [] for threads in vectors}
    for turn in range(asked.rounds + 1):
        for threads, envs in vectors.items():
            taken = step_s(envs, asked.steps, actions)
            if turn:  # the first one warms up
                rounds[threads].append(taken)
    for envs in vectors.values():
        envs.close()
    flows = f"{asked.flows} flow{'s' if asked.flows > 1 else ''} of `{asked.variant}`"
    about = (
        f"{asked.envs} environments of {flows} on 10 Mbit/s and 40 ms, steps of 100 ms; `{command()}`, "
        f"{measured_on()}; {bystanders.phrase()}. Medians of {asked.rounds} rounds:"
    )
    section = section_of(about, asked.envs, rounds)
    publish(asked.write, "vector-steps", section, "steady / bbq random")


def make(asked: argparse.Namespace, threads: int) -> gymnasium.vector.VectorEnv[Any, Any, Any]:
    """Return environments whose episodes have different lengths, so that they end at different times."""
    fields = {"name": "vector-steps", "link": {"rate_mbps": 10.0, "queue": {"size_bdp": 1.0}}}
    fields["flows"] = [{"name": "tuned", "count": asked.flows, "rtt_ms": 40.0}]
    durations_s = np.linspace(*EPISODE_S, asked.envs).tolist()
    scenarios = [bbrgym.load_scenario({**fields, "duration_s": duration_s}) for duration_s in durations_s]
    options = {"scenario": scenarios, "variant": asked.variant, "threads": threads}
    envs = gymnasium.make_vec("bbrgym/Tune-v2", asked.envs, control_interval_s=0.1, world="twin", **options)
    envs.reset(seed=1)
    return envs


@contextmanager
def timed(owner: Any, name: str) -> Iterator[list[float]]:
    """Keep the seconds of each call of a function, an attribute of its owner."""
    function, taken_s = getattr(owner, name), []

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        begin_s = time.perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            taken_s.append(time.perf_counter() - begin_s)

    setattr(owner, name, call)
    try:
        yield taken_s
    finally:
        setattr(owner, name, function)


def step_s(envs: gymnasium.vector.VectorEnv[Any, Any, Any], steps: int, actions: Any) -> tuple[float, float]:
    """Return the mean seconds of a vector step, and those in which the worlds run."""
    with timed(VectorWorld, "advance") as engine_s:
        begin_s = time.perf_counter()
        for step in range(steps):
            envs.step(actions[step % len(actions)])
        return (time.perf_counter() - begin_s) / steps, sum(engine_s) / steps


def section_of(about: str, num_envs: int, rounds: Mapping[int, list[tuple[float, float]]]) -> str:
    """Return the page's section of measurements by number of threads."""
    rows = []
    for threads, turns in rounds.items():
        all_s, engine_s = np.median(np.array(turns), axis=0)
        rows.append([str(threads), f"{num_envs / all_s:,.0f}", f"{1 - engine_s / all_s:.0%}"])
    return f"{about}\n\n{markdown_table(['threads', 'steps/s', 'of which in Python'], rows)}\n"


if __name__ == "__main__":
    main()
