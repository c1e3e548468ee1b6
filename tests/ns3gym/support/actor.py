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
    box = pb.BoxSpace(low=low, high=high, dtype=pb.Dtype.FLOAT, shape=[numbers])
    description.space.Pack(box)
    return description


def container(numbers):
    """Of float32 numbers, without a shape as some of ns3-gym's are."""
    holder = pb.DataContainer(type=pb.SpaceType.Box)
    holder.data.Pack(pb.BoxDataContainer(dtype=pb.Dtype.FLOAT, floatData=numbers))
    return holder


def with_choice(description):
    """A Tuple of a space and Discrete(5)."""
    choice = pb.SpaceDescription(type=pb.SpaceType.Discrete)
    choice.space.Pack(pb.DiscreteSpace(n=5))
    both = pb.SpaceDescription(type=pb.SpaceType.Tuple)
    both.space.Pack(pb.TupleSpace(element=[description, choice]))
    return both


def with_nine(holder):
    """A Tuple of a value and 9, as ns3-gym's opengym-2 draws from 0 to 10 where it describes Discrete(5)."""
    nine = pb.DataContainer(type=pb.SpaceType.Discrete)
    nine.data.Pack(pb.DiscreteDataContainer(data=9))
    both = pb.DataContainer(type=pb.SpaceType.Tuple)
    both.data.Pack(pb.TupleDataContainer(element=[holder, nine]))
    return both


def numbers_of(holder):
    box = pb.BoxDataContainer()
    holder.data.Unpack(box)
    return box.floatData


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
                state = DEEDS[self.options.deed](self, state)
            action = self.ask(state, pb.EnvActMsg)
            self.total += sum(numbers_of(action.actData))

    def pass_by(self):
        """The end is before or after a message, or a moment later."""
        if self.events == self.options.die_at:
            self.end = threading.Timer(self.options.die_after_s, os.kill, (os.getpid(), signal.SIGKILL))
            self.end.start()
        self.events += 1

    def introduction(self):
        observed = 2 if self.options.deed == "wrong_space" else 3
        message = pb.SimInitMsg(simProcessId=os.getpid(), wafShellProcessId=os.getppid())
        described = space(observed)
        message.obsSpace.CopyFrom(with_choice(described) if self.options.deed == "nine" else described)
        message.actSpace.CopyFrom(space(1, -1, 1))
        return message

    def state(self, step):
        message = pb.EnvStateMsg(obsData=container([step, self.options.seed % 1000, self.total]), reward=step / 2)
        if self.options.deed == "nine":
            message.obsData.CopyFrom(with_nine(container([step, 0, 0])))
        message.info = json.dumps({"step": step, "word": self.options.word})
        if step == self.options.steps:
            message.isGameOver = True
            message.reason = pb.Reason.SimulationEnd
        return message

    def ask(self, question, kind):
        self.pass_by()
        self.socket.send(question if isinstance(question, bytes) else question.SerializeToString())
        self.pass_by()
        answer = kind.FromString(self.socket.recv())
        if answer.stopSimReq:
            raise Stopped
        return answer


# ---- deeds: what is sent instead of a state ----------------------------------------------------------------


def game_over(actor, state):
    state.isGameOver, state.reason = True, pb.Reason.GameOver
    return state


def no_reason(actor, state):
    state.isGameOver, state.reason = True, 7
    return state


def garbage(actor, state):
    return b"\xff\xfe garbage \x00"


def truncated(actor, state):
    return state.SerializeToString()[:-3]


def oversized(actor, state):
    return bytes(17 * 2**20)


def out_of_order(actor, state):
    return actor.introduction()


def empty(actor, state):
    return b""


def too_long(actor, state):
    state.obsData.CopyFrom(container([0.0] * 4))
    return state


def far(actor, state):
    state.obsData.CopyFrom(container([2e9, 0.0, 0.0]))
    return state


def text_info(actor, state):
    state.info = "[not an object]"
    return state


def deep_info(actor, state):
    state.info = "[" * 100_000
    return state


def twice(actor, state):
    """Two in a row, past REQ's own rule: only a peer that is no REQ socket can."""
    dealer = zmq.Context.instance().socket(zmq.DEALER)
    dealer.connect(f"tcp://localhost:{actor.options.port}")
    for _ in range(2):
        dealer.send_multipart([b"", actor.introduction().SerializeToString()])
    return state


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
    return state


DEEDS = {
    deed.__name__: deed
    for deed in (
        *(game_over, no_reason, garbage, truncated, oversized, out_of_order, empty, too_long, far),
        *(text_info, deep_info, twice, silent, die, leave, fine),
    )
} | {"wrong_space": fine, "early": fine, "stubborn": fine, "nine": fine}


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
    parser.add_argument("--runs_file", type=Path)
    options = parser.parse_args()
    if options.runs_file:
        with options.runs_file.open("a", encoding="utf-8") as file:
            file.write(f"{os.getpid()} {options.seed}\n")
    if options.deed == "early":
        print("no such scenario", file=sys.stderr)
        return 2
    try:
        Actor(options).run()
    except Stopped:
        if options.deed == "stubborn":
            time.sleep(600)
    if options.runs_file:
        with options.runs_file.open("a", encoding="utf-8") as file:
            file.write(f"{os.getpid()} ended\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
