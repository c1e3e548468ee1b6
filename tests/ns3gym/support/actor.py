# SPDX-License-Identifier: GPL-2.0-only
"""A simulation for tests: counts down, and misbehaves where it is told to.

usage: python actor.py --openGymPort=PORT --simSeed=SEED [--steps=10] [--deed=NAME --at=STEP] [--runs_file=PATH] ...

What it shows is its step, its seed modulo 1000 and the sum of the actions so far; its info is JSON. It speaks through a
REQ socket of its own, as ns-3 does, so that it can send anything, and needs the messages only.
"""

import argparse
import importlib.util
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

import zmq


def _messages():
    """The messages alone: to load all of bbrgym for each of many simulations would take most of a test's time."""
    for name in ("bbrgym", "bbrgym.ns3gym"):
        sys.modules[name] = importlib.util.module_from_spec(importlib.util.find_spec(name))
    return importlib.import_module("bbrgym.ns3gym.messages")


pb = _messages() if __name__ == "__main__" else None


def space(numbers, low=-1e9, high=1e9):
    """Of float32 numbers."""
    description = pb.SpaceDescription(type=pb.SpaceType.Box)
    description.space.Pack(pb.BoxSpace(low=low, high=high, dtype=pb.Dtype.FLOAT, shape=[numbers]))
    return description


def container(numbers):
    """Of float32 numbers, without a shape as some of ns3-gym's are."""
    holder = pb.DataContainer(type=pb.SpaceType.Box)
    holder.data.Pack(pb.BoxDataContainer(dtype=pb.Dtype.FLOAT, floatData=numbers))
    return holder


class Stopped(Exception):
    """The agent has had enough."""


class Actor:
    def __init__(self, options):
        self.options = options
        self.socket = zmq.Context.instance().socket(zmq.REQ)
        self.socket.set(zmq.LINGER, 0)
        self.socket.connect(f"tcp://localhost:{options.port}")
        self.total = 0.0
        self.events = 0
        self.end = None

    def run(self):
        self.ask(self.introduction(), pb.SimInitAck)
        for step in range(self.options.steps + 1):
            state = self.state(step)
            if step == self.options.steps and self.end is not None:
                self.end.join()  # the end that is coming comes before the conversation's own
            if step == self.options.at:
                state = DEEDS[self.options.deed](self, state) or state
            action = pb.BoxDataContainer()
            self.ask(state, pb.EnvActMsg).actData.data.Unpack(action)
            self.total += sum(action.floatData)

    def pass_by(self):
        """The end is before or after a message, or a moment later."""
        if self.events == self.options.die_at:
            self.end = threading.Timer(self.options.die_after_s, os.kill, (os.getpid(), signal.SIGKILL))
            self.end.start()
        self.events += 1

    def introduction(self):
        return pb.SimInitMsg(
            simProcessId=os.getpid(),
            wafShellProcessId=os.getppid(),
            obsSpace=space(2 if self.options.deed == "wrong_space" else 3),
            actSpace=space(1, -1, 1),
        )

    def state(self, step):
        return pb.EnvStateMsg(
            obsData=container([step, self.options.seed % 1000, self.total]),
            reward=step / 2,
            info=json.dumps({"step": step, "word": self.options.word}),
            isGameOver=step == self.options.steps,
        )

    def ask(self, question, kind):
        self.pass_by()
        self.socket.send(question if isinstance(question, bytes) else question.SerializeToString())
        self.pass_by()
        answer = kind.FromString(self.socket.recv())
        if answer.stopSimReq:
            raise Stopped
        return answer


# ---- deeds: change a state, or return what is sent instead of it ------------------------------------------


def far(actor, state):
    state.obsData.CopyFrom(container([2e9, 0.0, 0.0]))


def game_over(actor, state, reason=1):
    state.isGameOver, state.reason = True, reason


def silent(actor, state):
    print("the simulation has lost its way", flush=True)
    time.sleep(600)


def die(actor, state):
    print("assert failed: cwnd > 0", file=sys.stderr, flush=True)
    os.kill(os.getpid(), signal.SIGABRT)


def leave(actor, state):
    print("no more of this", flush=True)
    raise SystemExit(3)


def fine(actor, state):
    pass


DEEDS = {deed.__name__: deed for deed in (far, game_over, silent, die, leave)} | {
    "no_reason": lambda actor, state: game_over(actor, state, 7),
    "garbage": lambda actor, state: b"\xff\xfe garbage \x00",
    "oversized": lambda actor, state: bytes(17 * 2**20),
    "empty": lambda actor, state: pb.EnvStateMsg(),
    "text_info": lambda actor, state: setattr(state, "info", "[not an object]"),
    "deep_info": lambda actor, state: setattr(state, "info", "[" * 100_000),
    **dict.fromkeys(("fine", "wrong_space", "early", "stubborn"), fine),
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--openGymPort", dest="port", type=int, default=5555)
    parser.add_argument("--simSeed", dest="seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--deed", choices=sorted(DEEDS), default="fine")
    parser.add_argument("--at", type=int, default=-1)
    parser.add_argument("--die_at", type=int, default=-1)
    parser.add_argument("--die_after_s", type=float, default=0.0)
    parser.add_argument("--word", default="")
    parser.add_argument("--runs_file", type=Path, default=os.devnull)
    options = parser.parse_args()
    with options.runs_file.open("a", encoding="utf-8", buffering=1) as runs:
        runs.write(f"{os.getpid()} {options.seed}\n")
        if options.deed == "early":
            print("no such scenario", file=sys.stderr)
            return 2
        try:
            Actor(options).run()
        except Stopped:
            if options.deed == "stubborn":
                time.sleep(600)
        runs.write(f"{os.getpid()} ended\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
