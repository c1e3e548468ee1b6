# SPDX-License-Identifier: GPL-2.0-only
"""Cost of reaching a world: an empty step and a reset by every transport.

usage: python benchmarks/transport.py [--steps 20000] [--resets 200] [--write docs/performance.md]

In this process, in a worker, and served over ns3-gym's protocol from another process to `bbrgym/Ns3Gym-v0` here. The
one flow starts at the scenario's end, and each step is 1 ms long; the environments have the spaces of `bbrgym/Tune-v1`.
One that does nothing at all shows the protocol's own cost, of which ZeroMQ's is shown alone.
`--write` replaces the section there.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import zmq
from numpy.typing import NDArray
from report import Bystanders, measured_on, replace_section
from rich.console import Console

import bbrgym
from bbrgym.ns3gym.serving import serve
from bbrgym.report.markdown import markdown_table

STEP_S = 0.001
WARM_UP = 0.1  # of what is measured
STATE_BYTES, ACTION_BYTES = 624, 100
SHORT_STEPS = 10  # of an episode between two resets
AIMS = {  # us of a step, ms of a reset
    "world in this process": (5.0, None),
    "world in a worker": (60.0, None),
    "served, does nothing": (200.0, None),
    "served, bbrgym/Tune-v1": (200.0, 20.0),
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=20_000, help="that are measured (default: 20000)")
    parser.add_argument("--resets", type=int, default=200, help="that are measured (default: 200)")
    parser.add_argument("--write", type=Path, help="Markdown file whose section is replaced")
    asked = parser.parse_args(arguments)
    bystanders = Bystanders()
    rows = [row(name, way, asked.steps, asked.resets) for name, way in WAYS.items()]
    command = f"python benchmarks/transport.py --steps {asked.steps} --resets {asked.resets}"
    section = f"""\
## Reaching a world

`{command}`, {measured_on()}; {bystanders.phrase()}.

An empty step and a reset, in the twin unless the line says ns-3: median, in brackets the 95th percentile. What is
served is in a process of its own, and prepares its next episode while the last one's end is looked at.
A round trip over ZeroMQ wakes six threads in turn. Beside the busy processes that the first line counts it takes a
multiple of what it takes alone.

{markdown_table(["", "step (us)", "aim", "reset (ms)", "aim"], rows)}
"""
    Console(soft_wrap=True, markup=False, highlight=False).print(section)
    if asked.write is not None:
        replace_section(asked.write, "transport", section)


@dataclass
class Way:
    """A transport: its step and its reset."""

    step: Callable[[], object]
    reset: Callable[[], object]


def row(name: str, way: Callable[[int, int], Any], steps: int, resets: int) -> list[str]:
    with way(steps + 2 + int(WARM_UP * steps), 1) as reached:
        reached.reset()
        step_us = measured(reached.step, steps, 1e-3)
    with way(SHORT_STEPS, resets + 1 + int(WARM_UP * resets)) as reached:

        def between() -> None:
            for _ in range(SHORT_STEPS):
                reached.step()

        reached.reset()
        reset_ms = measured(reached.reset, resets, 1e-6, between)
    step_aim, reset_aim = ("" if aim is None else f"{aim:g}" for aim in AIMS.get(name, (None, None)))
    return [name, shown(step_us), step_aim, "" if way is bare else shown(reset_ms), reset_aim]


def measured(
    call: Callable[[], object], count: int, per_ns: float, between: Callable[[], object] = lambda: None
) -> NDArray[np.float64]:
    """Return the seconds of each of ``count`` calls, after some calls to warm up."""
    taken = np.empty(count)
    for i in range(-int(WARM_UP * count), count):
        between()
        begin_ns = time.perf_counter_ns()
        call()
        taken[max(i, 0)] = (time.perf_counter_ns() - begin_ns) * per_ns
    return taken


def shown(taken: NDArray[np.float64]) -> str:
    return f"{np.median(taken):.3g} ({np.percentile(taken, 95):.3g})"


# ---- the ways -------------------------------------------------------------------------------------------------------


def scenario(steps: int) -> dict[str, Any]:
    """Return a scenario in which nothing happens."""
    duration_s = (steps + 1) * STEP_S
    return {
        "name": "empty",
        "duration_s": duration_s,
        "link": {"rate_mbps": 10.0, "queue": {"size_bdp": 1.0}},
        "flows": [{"name": "late", "rtt_ms": 40.0, "start_s": duration_s - STEP_S / 2}],
    }


def world(name: str, isolation: str) -> Callable[[int, int], Any]:
    @contextmanager
    def way(steps: int, _: int) -> Iterator[Way]:
        runs = bbrgym.load_scenario(scenario(steps))
        with bbrgym.make_world(name, runs, isolation=isolation) as made:
            yield Way(lambda: made.advance(STEP_S), lambda: made.reset(runs, 1))

    return way


def tune_env(steps: int) -> gymnasium.Env[Any, Any]:
    return gymnasium.make("bbrgym/Tune-v1", scenario=scenario(steps), world="twin", control_interval_s=STEP_S)


class Idle(gymnasium.Env[Any, Any]):
    """An environment that does nothing."""

    def __init__(self, steps: int) -> None:
        with tune_env(steps) as env:
            self.observation_space, self.action_space = env.observation_space, env.action_space
        self._steps = steps
        self._observation = self.observation_space.sample()

    def reset(self, **_: Any) -> tuple[Any, dict[str, Any]]:
        self._left = self._steps
        return self._observation, {}

    def step(self, _: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._left -= 1
        return self._observation, 0.0, False, self._left == 0, {}


def local(make: Callable[[int], gymnasium.Env[Any, Any]]) -> Callable[[int, int], Any]:
    @contextmanager
    def way(steps: int, _: int) -> Iterator[Way]:
        with closing(make(steps)) as env:
            yield driven(env)

    return way


def served(make: Callable[[int], gymnasium.Env[Any, Any]]) -> Callable[[int, int], Any]:
    @contextmanager
    def way(steps: int, episodes: int) -> Iterator[Way]:
        with make(steps) as alike, ExitStack() as stack:
            spaces = {"observation_space": alike.observation_space, "action_space": alike.action_space}
            env = gymnasium.make("bbrgym/Ns3Gym-v0", port=free_port(), **spaces)
            stack.enter_context(closing(env))
            server = multiprocessing.get_context("spawn").Process(
                target=serve_one, args=(make, steps, env.unwrapped.port, episodes), daemon=True
            )
            server.start()
            stack.callback(server.join, 60)
            stack.callback(server.terminate)
            yield driven(env)

    return way


@contextmanager
def bare(_: int, __: int) -> Iterator[Way]:
    """ZeroMQ alone, with messages as long as those of `bbrgym/Tune-v1`; without resets."""
    with zmq.Context() as context, context.socket(zmq.REP) as socket:
        port = socket.bind_to_random_port("tcp://127.0.0.1")
        process = multiprocessing.get_context("spawn").Process(target=ask, args=(port,), daemon=True)
        process.start()
        try:
            socket.recv()
            yield Way(lambda: (socket.send(bytes(ACTION_BYTES)), socket.recv()), lambda: None)
        finally:
            process.terminate()
            process.join(60)


def ask(port: int) -> None:
    """Serve in the other process until it is ended."""
    with zmq.Context() as context, context.socket(zmq.REQ) as socket:
        socket.connect(f"tcp://127.0.0.1:{port}")
        while True:
            socket.send(bytes(STATE_BYTES))
            socket.recv()


def free_port() -> int:
    """Return a free port."""
    from bbrgym.ns3gym.channel import AgentSocket

    with AgentSocket() as agent:
        return agent.port


def serve_one(make: Callable[[int], gymnasium.Env[Any, Any]], steps: int, port: int, episodes: int) -> None:
    """Serve in the other process."""
    with make(steps) as env:
        serve(env, port, episodes=episodes, seed=1)


def driven(env: gymnasium.Env[Any, Any]) -> Way:
    action = np.zeros(env.action_space.shape, np.float32)
    return Way(lambda: env.step(action), env.reset)


WAYS = {
    "world in this process": world("twin", "none"),
    "world in this process, ns-3": world("ns3", "none"),
    "world in a worker": world("twin", "process"),
    "world in a worker, ns-3": world("ns3", "process"),
    "bbrgym/Tune-v1 in this process": local(tune_env),
    "ZeroMQ alone": bare,
    "served, does nothing": served(Idle),
    "served, bbrgym/Tune-v1": served(tune_env),
}


if __name__ == "__main__":
    main()
