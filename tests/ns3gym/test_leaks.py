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
    """Return the numbers that may not grow."""
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


@pytest.mark.parametrize(
    ("is_served", "warm_up", "resets", "growth_mib"),
    [(True, 100, 300, 0.5), (False, 5, 21, 0.35)],  # 5 KiB a reset, 50 KiB a process
    ids=["of a served world", "that start a simulation"],
)
def test_resets_leak_nothing(is_served, warm_up, resets, growth_mib):
    """Memory must not grow by that in every round: a leak grows in all, a cache or a heap in the odd one."""
    with contextlib.ExitStack() as stack:
        processes, options = [psutil.Process()], {"command": [sys.executable, ACTOR]}
        if is_served:
            options = {"port": free_port()}
            ends = [f"port={options['port']}", f"episodes={resets + warm_up + 1}"]
            words = [sys.executable, "-m", "bbrgym", "serve", *SERVE, *ends]
            served = stack.enter_context(subprocess.Popen(words, stderr=subprocess.DEVNULL))
            stack.callback(served.kill)
            processes.append(psutil.Process(served.pid))
        env = stack.enter_context(contextlib.closing(gymnasium.make("bbrgym/Ns3Gym-v0", **options)))
        looks = {process: [] for process in processes}
        for count in [warm_up, *[resets // ROUNDS] * ROUNDS]:  # allocators and caches fill first
            for _ in range(count):
                env.reset()
                for _ in range(STEPS):
                    env.step(env.action_space.sample())
            for process, taken in looks.items():
                taken.append(look(process, taken[0][0] if taken else None))
    for taken in looks.values():
        assert all(map(int.__le__, taken[-1][0], taken[0][0])), taken
        assert min(later - earlier for (_, earlier), (_, later) in pairwise(taken)) < growth_mib, taken
