# SPDX-License-Identifier: GPL-2.0-only
"""Resets in a row, and what agent and simulation hold before and after them."""

import contextlib
import gc
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import gymnasium
import psutil
import pytest
from owners import free_port

import bbrgym.envs  # noqa: F401 - registers the environments

pytestmark = pytest.mark.slow

ACTOR = str(Path(__file__).with_name("support") / "actor.py")
SERVE = ("world=twin", "variant=bbq", "scenario=steady", "scenario.duration_s=2", "env.control_interval_s=0.1")
SETTLING_S = 5.0  # for what is just ending
STEADY_S = 1.0  # without a change, then what has ended is gone
STEPS = 3  # of each episode, before the reset that stops it
ROUNDS = 3  # of resets, with a look after each


def counts(process):
    """What may not grow."""
    gc.collect()
    return len(process.children(recursive=True)), process.num_fds(), process.num_threads()


def look(process, before=None):
    """Counts once they have been steady, or are not above those of before, and the process's own memory in MiB."""
    deadline_s, since_s, held = time.monotonic() + SETTLING_S, time.monotonic(), counts(process)
    while (now_s := time.monotonic()) < deadline_s:
        latest = counts(process)
        since_s, held = (since_s if latest == held else now_s), latest
        if now_s - since_s > STEADY_S if before is None else all(map(int.__le__, held, before)):
            break
    return held, process.memory_full_info().uss / 2**20


def reset(env, count):
    for _ in range(count):
        env.reset()
        for _ in range(STEPS):
            env.step(env.action_space.sample())


def check(env, processes, resets, growth_mib):
    """Memory must not grow by that in every round: a leak grows in all, a cache or a heap in the odd one."""
    looks = {process: [look(process)] for process in processes}
    for _ in range(ROUNDS):
        reset(env, resets // ROUNDS)
        for process, taken in looks.items():
            taken.append(look(process, taken[0][0]))
    for taken in looks.values():
        assert all(map(int.__le__, taken[-1][0], taken[0][0])), taken
        assert min(later - earlier for (_, earlier), (_, later) in pairwise(taken)) < growth_mib, taken


def test_resets_of_a_served_world_leak_nothing():
    warm_up, resets, port = 100, 300, free_port()  # allocators and caches fill
    words = [sys.executable, "-m", "bbrgym", "serve", *SERVE, f"port={port}", f"episodes={resets + warm_up + 1}"]
    with subprocess.Popen(words, stderr=subprocess.DEVNULL) as served:
        try:
            with contextlib.closing(gymnasium.make("bbrgym/Ns3Gym-v0", port=port)) as env:
                reset(env, warm_up)
                check(env, [psutil.Process(), psutil.Process(served.pid)], resets, 0.5)  # of 100 resets: 5 KiB each
        finally:
            served.kill()


def test_resets_that_start_the_simulation_leak_nothing():
    with contextlib.closing(gymnasium.make("bbrgym/Ns3Gym-v0", command=[sys.executable, ACTOR])) as env:
        reset(env, 5)
        check(env, [psutil.Process()], 21, 0.35)  # of 7 resets: 50 KiB each
