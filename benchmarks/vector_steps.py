# SPDX-License-Identifier: GPL-2.0-only
"""Steps/s of vector environments, the share of Python, and the gain of a second core.

usage: python benchmarks/vector_steps.py [--envs 256] [--flows 1] [--steps 300] [--rounds 5] [--variant bbq]

`gymnasium.make_vec("bbrgym/Tune-v0", world="twin")` on a link of 10 Mbit/s, RTT 40 ms, 1 BDP, in steps of 100 ms, with
random actions and episodes of 15 to 45 s. Printed are, for one thread and for as many as there are cores, the median
over rounds (one thread and many in turn) of steps a second, and where the time of a vector step goes. Engine: the call
in which the worlds run, in C++. Python: all else.
"""

from __future__ import annotations

import argparse
import functools
import os
import platform
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np

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
EPISODE_S = (15.0, 45.0)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envs", type=int, default=256, help="environments")
    parser.add_argument("--flows", type=int, default=1, help="learner flows of each")
    parser.add_argument("--steps", type=int, default=300, help="vector steps of a round")
    parser.add_argument("--rounds", type=int, default=5, help="of which the median counts")
    parser.add_argument("--variant", default="bbq", help="what the flows run")
    asked = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    print(f"{platform.processor() or platform.machine()}, {cores} cores, Python {platform.python_version()}")
    print(f"bbrgym {bbrgym.__version__}, {asked.envs} environments, {asked.flows} flows, {asked.variant}")

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
    report(asked.envs, rounds, parts)


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
        "bbrgym/Tune-v0",
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


def report(num_envs: int, rounds: dict[int, list[dict[str, float]]], parts: dict[int, dict[str, float]]) -> None:
    """Return the tables of measurements by number of threads."""

    def row(name: str, values: Iterable[float], form: str) -> None:
        print(f"{name:<20}" + "".join(f"{value:12{form}}" for value in values))

    medians = {
        threads: {part: float(np.median([taken[part] for taken in turns])) for part in turns[0]}
        for threads, turns in rounds.items()
    }
    print(f"\n{'median of rounds':<20}" + "".join(f"{f'{threads} threads':>12}" for threads in medians))
    row("steps/s", (num_envs / taken["all"] * 1e6 for taken in medians.values()), ",.0f")
    row("us of a vector step", (taken["all"] for taken in medians.values()), ".0f")
    row("engine, us", (taken["engine"] for taken in medians.values()), ".0f")
    row("Python, us", (taken["rest"] for taken in medians.values()), ".0f")
    row("Python, part", (taken["rest"] / taken["all"] for taken in medians.values()), ".1%")
    one, many = min(medians), max(medians)
    if many > one:
        for part, name in {"all": "all", "engine": "its engine"}.items():
            ratios = [a[part] / b[part] for a, b in zip(rounds[one], rounds[many], strict=True)]
            print(
                f"{many} threads against one, {name}: {np.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
            )
    print("\none round more, us of its vector steps, with what it costs to look")
    for part in [*PARTS, "rest", "all"]:
        row(part, (taken.get(part, 0.0) for taken in parts.values()), ".0f")


if __name__ == "__main__":
    main()
