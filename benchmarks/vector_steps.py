# SPDX-License-Identifier: GPL-2.0-only
"""Steps/s of vector environments, the share of Python, and the gain of a second core.

usage: python benchmarks/vector_steps.py [--envs 256] [--flows 1] [--steps 300] [--rounds 5] [--variant bbq]
           [--write docs/vectors.md]

`gymnasium.make_vec("bbrgym/Tune-v1", world="twin")` on a link of 10 Mbit/s, RTT 40 ms, 1 BDP, in steps of 100 ms, with
random actions and episodes of 15 to 45 s. Printed are, for one thread and for as many as there are cores, the median
over rounds (one thread and many in turn) of steps a second, and where the time of a vector step goes. Engine: the call
in which the worlds run, in C++. Python: all else.
"""

from __future__ import annotations

import argparse
import functools
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from report import Bystanders, command, measured_on, replace_section

import bbrgym
from bbrgym.envs.action import ActionMapping
from bbrgym.envs.observation import SenderObservation, Stack
from bbrgym.envs.reward import Reward
from bbrgym.envs.seeding import Generators
from bbrgym.envs.tune_batch import TuneBatch
from bbrgym.worlds import VectorWorld

PARTS: dict[str, list[tuple[Any, str]]] = {
    "engine": [(VectorWorld, "advance")],
    "resets": [(VectorWorld, "reset"), (Generators, "draw_seeds")],
    "action": [(ActionMapping, "apply")],
    "observation": [(SenderObservation, "view"), (Stack, "add"), (Stack, "observations")],
    "reward": [(Reward, "terms"), (Reward, "total")],
    "info": [(TuneBatch, "info")],
}
GAINS = ("all", "engine")  # of which what a further thread gains is said
EPISODE_S = (15.0, 45.0)


def main() -> None:
    """Print the section, and write it into a page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envs", type=int, default=256, help="environments")
    parser.add_argument("--flows", type=int, default=1, help="learner flows of each")
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
    rounds: dict[int, list[dict[str, float]]] = {threads: [] for threads in vectors}
    for turn in range(asked.rounds + 1):
        for threads, envs in vectors.items():
            with Clock({"engine": PARTS["engine"]}) as clock:
                taken = clock.time(envs, asked.steps, actions)
            if turn:  # the first one warms up
                rounds[threads].append(taken)
    parts = {}
    for threads, envs in vectors.items():
        with Clock(PARTS) as clock:  # apart: to look costs time too
            parts[threads] = clock.time(envs, asked.steps, actions)
        envs.close()
    flows = f"{asked.flows} flow{'s' if asked.flows > 1 else ''} of `{asked.variant}`"
    about = (
        f"{asked.envs} environments of {flows} on 10 Mbit/s and 40 ms, steps of 100 ms; `{command()}`, "
        f"{measured_on()}; {bystanders.phrase()}. Medians of {asked.rounds} rounds:"
    )
    section = section_of(about, asked.envs, rounds, parts)
    print(section, end="")
    if asked.write is not None:
        replace_section(asked.write, "vector-steps", section)


def make(asked: argparse.Namespace, threads: int) -> gymnasium.vector.VectorEnv[Any, Any, Any]:
    """Return environments whose episodes have different lengths, so that they end at different times."""
    scenarios = [
        bbrgym.load_scenario(
            {
                "name": "vector-steps",
                "duration_s": float(duration_s),
                "link": {"rate_mbps": 10.0, "queue": {"size_bdp": 1.0}},
                "flows": [{"name": "learner", "count": asked.flows, "cc": asked.variant, "rtt_ms": 40.0}],
            }
        )
        for duration_s in np.linspace(*EPISODE_S, asked.envs)
    ]
    envs = gymnasium.make_vec(
        "bbrgym/Tune-v1",
        asked.envs,
        world="twin",
        scenario=scenarios,
        variant=asked.variant,
        threads=threads,
    )
    envs.reset(seed=1)
    return envs


class Clock:
    """Sum the time of the parts of a step; a part within another is not counted twice.

    Args:
        parts: functions by part: what they are attributes of, and their names.
        whole: of these, parts that are not looked into: what they call counts as theirs.

    Attributes:
        taken_s: by part.
    """

    def __init__(self, parts: Mapping[str, Sequence[tuple[Any, str]]], whole: Sequence[str] = ()) -> None:
        self._whole = whole
        self._is_whole = False
        self._functions = [
            (part, owner, name, getattr(owner, name)) for part, functions in parts.items() for owner, name in functions
        ]
        self.taken_s: Counter[str] = Counter()
        self._within: list[float] = []

    def __enter__(self) -> Clock:
        for part, owner, name, function in self._functions:
            setattr(owner, name, self._timed(part, function))
        return self

    def __exit__(self, *_: object) -> None:
        for _, owner, name, function in self._functions:
            setattr(owner, name, function)

    def _timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if self._is_whole:
                return function(*args, **kwargs)
            self._is_whole = part in self._whole
            self._within.append(0.0)
            begin_s = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self._is_whole = False
                taken_s = time.perf_counter() - begin_s
                self.taken_s[part] += taken_s - self._within.pop()
                if self._within:
                    self._within[-1] += taken_s

        return call

    def time(self, envs: gymnasium.vector.VectorEnv[Any, Any, Any], steps: int, actions: Any) -> dict[str, float]:
        """Return the mean microseconds of a vector step by part, and in total."""
        begin_s = time.perf_counter()
        for step in range(steps):
            envs.step(actions[step % len(actions)])
        all_s = time.perf_counter() - begin_s
        taken_s = {**self.taken_s, "rest": all_s - sum(self.taken_s.values()), "all": all_s}
        return {part: seconds / steps * 1e6 for part, seconds in taken_s.items()}


def section_of(
    about: str, num_envs: int, rounds: dict[int, list[dict[str, float]]], parts: dict[int, dict[str, float]]
) -> str:
    """Return the page's section of measurements by number of threads."""

    def row(name: str, values: Iterable[float], form: str, aim: str = "") -> str:
        return f"| {' | '.join([name, *(format(value, form).replace('%', ' %') for value in values), aim])} |\n"

    medians = {
        threads: {part: float(np.median([taken[part] for taken in turns])) for part in turns[0]}
        for threads, turns in rounds.items()
    }
    columns = [f"{threads} thread{'s' if threads > 1 else ''}" for threads in medians]
    text = f"{about}\n\n| | {' | '.join(columns)} | aim |\n|{' --- |' * (len(columns) + 2)}\n"
    text += row("steps/s", (num_envs / taken["all"] * 1e6 for taken in medians.values()), ",.0f", "200,000")
    text += row(f"time of a step of all {num_envs}, us", (taken["all"] for taken in medians.values()), ",.0f")
    text += row("of which the engine, us", (taken["engine"] for taken in medians.values()), ",.0f")
    text += row("of which Python, us", (taken["rest"] for taken in medians.values()), ",.0f")
    text += row("of which Python", (taken["rest"] / taken["all"] for taken in medians.values()), ".1%", "8 %")
    one, many = min(medians), max(medians)
    if many > one:
        gains = [[a[part] / b[part] for a, b in zip(rounds[one], rounds[many], strict=True)] for part in GAINS]
        whole, engine = (f"{np.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})" for ratios in gains)
        text += f"\n{many} threads against one, median and range of the rounds: {whole} times as fast (aim 1.8), "
        text += f"the engine alone {engine}.\n"
    text += "\nPython's parts in one round more, us of a step, with what it costs to look:\n\n"
    text += f"| | {' | '.join(columns)} |\n|{' --- |' * (len(columns) + 1)}\n"
    for part in [*PARTS, "rest", "all"]:
        cells = (f"{taken.get(part, 0.0):,.0f}" for taken in parts.values())
        text += f"| {part} | {' | '.join(cells)} |\n"
    return text


if __name__ == "__main__":
    main()
