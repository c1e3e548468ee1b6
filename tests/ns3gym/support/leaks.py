# SPDX-License-Identifier: GPL-2.0-only
"""Resets in a row, and what two processes hold before and after them."""

from __future__ import annotations

import contextlib
import gc
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import gymnasium
import psutil
from owners import free_port

import bbrgym.envs  # noqa: F401 - registers the environments

ACTOR = str(Path(__file__).with_name("actor.py"))
TIMEOUT_S = 60.0
SETTLING_S = 5.0
STEADY_S = 1.0  # without a change, then what has ended is gone
WARM_UP = 100  # resets before the first look: allocators and caches fill
STEPS = 3  # of each episode, before the reset that stops it
ROUNDS = 3  # of resets, with a look after each
SERVE = ("world=twin", "variant=bbq", "scenario=steady", "scenario.duration_s=2", "env.control_interval_s=0.1")


@dataclass(frozen=True)
class Held:
    """By a process.

    Attributes:
        processes: that descend from it.
        descriptors: that it has open.
        sockets: of these, the ones of TCP.
        threads: that it has.
        memory_mib: that is its own (unique set size).
    """

    processes: int
    descriptors: int
    sockets: int
    threads: int
    memory_mib: float

    def counts(self):
        """All that may not grow."""
        return {name: count for name, count in asdict(self).items() if name != "memory_mib"}

    def grown_from(self, before):
        """Return the counts that are above those of before; what others forgot may go meanwhile."""
        return {name: count for name, count in self.counts().items() if count > before.counts()[name]}


def held_by(process):
    gc.collect()
    return Held(
        len(process.children(recursive=True)),
        process.num_fds(),
        len(process.net_connections("tcp")),
        process.num_threads(),
        process.memory_full_info().uss / 2**20,
    )


def held_steadily_by(process):
    """What is held once it has stayed the same for a while: the simulation before the last one may be just ending."""
    deadline_s = time.monotonic() + SETTLING_S
    held, since_s = held_by(process), time.monotonic()
    while (now_s := time.monotonic()) - since_s < STEADY_S and now_s < deadline_s:
        os.sched_yield()
        if (latest := held_by(process)).counts() != held.counts():
            held, since_s = latest, now_s
    return held


def held_in_the_end_by(process, before):
    """What is held once connections that are just closing are closed; they get a while for it."""
    deadline_s = time.monotonic() + SETTLING_S
    while (held := held_by(process)).grown_from(before) and time.monotonic() < deadline_s:
        os.sched_yield()
    return held


@dataclass(frozen=True)
class Report:
    """What was held before the first round of resets and after each, by whom; and how long a reset took."""

    looks: list[dict[str, Held]]
    reset_ms: float

    @property
    def before(self):
        return self.looks[0]

    @property
    def after(self):
        return self.looks[-1]

    def growth_mib(self, name):
        """Return what its memory grew by in each round: a leak grows in all, a cache or a heap in the odd one."""
        held_mib = [look[name].memory_mib for look in self.looks]
        return min(later - earlier for earlier, later in pairwise(held_mib))


def of_a_served_world(resets):
    """Resets of a `bbrgym serve` that goes from one episode to the next."""
    port = free_port()
    words = ["-m", "bbrgym", "serve", *SERVE, f"port={port}", f"episodes={resets + WARM_UP}"]
    with _running(words) as served:
        env = gymnasium.make("bbrgym/Ns3Gym-v0", port=port, timeout_s=TIMEOUT_S)
        with contextlib.closing(env):
            _reset(env, WARM_UP)
            return _looked_at(env, resets - 1, {"agent": psutil.Process(), "simulation": psutil.Process(served.pid)})


def of_a_command(starts):
    """Resets that each start the simulation anew."""
    env = gymnasium.make("bbrgym/Ns3Gym-v0", command=[sys.executable, ACTOR], timeout_s=TIMEOUT_S)
    with contextlib.closing(env):
        _reset(env, 5)
        return _looked_at(env, starts, {"agent": psutil.Process()})


def _looked_at(env, resets, processes):
    """Reset that often, in rounds of about one size."""
    looks = [{name: held_steadily_by(process) for name, process in processes.items()}]
    took_s = 0.0
    for number in range(ROUNDS):
        begin_s = time.perf_counter()
        _reset(env, resets * (number + 1) // ROUNDS - resets * number // ROUNDS)
        took_s += time.perf_counter() - begin_s
        looks.append({name: held_in_the_end_by(process, looks[0][name]) for name, process in processes.items()})
    return Report(looks, took_s * 1e3 / resets)


def _reset(env, count):
    for _ in range(count):
        env.reset()
        for _ in range(STEPS):
            env.step(env.action_space.sample())


@contextlib.contextmanager
def _running(words):
    with subprocess.Popen([sys.executable, *words], stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()
