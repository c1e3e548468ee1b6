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
import time
from pathlib import Path

import zmq

for _name in ("bbrgym", "bbrgym.ns3gym"):  # the messages alone: to load all of bbrgym would take most of a test's time
    sys.modules[_name] = importlib.util.module_from_spec(importlib.util.find_spec(_name))
pb = importlib.import_module("bbrgym.ns3gym.messages")


def space(numbers, low=-1e9, high=1e9):
    """Describe a Box of float32 numbers."""
    description = pb.SpaceDescription(type=pb.SpaceType.Box)
    description.space.Pack(pb.BoxSpace(low=low, high=high, dtype=pb.Dtype.FLOAT, shape=[numbers]))
    return description


def container(*numbers):
    """Hold float32 numbers, without a shape as some of ns3-gym's are."""
    holder = pb.DataContainer(type=pb.SpaceType.Box)
    holder.data.Pack(pb.BoxDataContainer(dtype=pb.Dtype.FLOAT, floatData=numbers))
    return holder


def over(reason):
    return lambda state: pb.EnvStateMsg(obsData=state.obsData, reward=1.0, isGameOver=True, reason=reason, info="{}")


def end(said, act):
    def do(_):
        print(said, file=sys.stderr, flush=True)
        act()

    return do


#: What is sent in place of a state.
DEEDS = {
    "far": lambda state: pb.EnvStateMsg(obsData=container(2e9, 0.0, 0.0), info=state.info),
    "game_over": over(1),
    "no_reason": over(7),
    "garbage": lambda _: b"\xff\xfe garbage \x00",
    "oversized": lambda _: bytes(17 * 2**20),
    "empty": lambda _: pb.EnvStateMsg(),
    "text_info": lambda state: pb.EnvStateMsg(obsData=state.obsData, info="[not an object]"),
    "deep_info": lambda state: pb.EnvStateMsg(obsData=state.obsData, info="[" * 100_000),
    "silent": end("the simulation has lost its way", lambda: time.sleep(600)),
    "die": end("assert failed: cwnd > 0", lambda: os.kill(os.getpid(), signal.SIGABRT)),
    "leave": end("no more of this", lambda: sys.exit(3)),
}


class Actor:
    def __init__(self, options):
        self.options, self.events = options, 0
        self.socket = zmq.Context.instance().socket(zmq.REQ)
        self.socket.set(zmq.LINGER, 0)
        self.socket.connect(f"tcp://localhost:{options.openGymPort}")

    def run(self):
        """Return once the agent stops it or all steps are done."""
        options, total = self.options, 0.0
        observed = space(2 if options.deed == "wrong_space" else 3)
        ids = {"simProcessId": os.getpid(), "wafShellProcessId": os.getppid()}
        answer = self.ask(pb.SimInitMsg(obsSpace=observed, actSpace=space(1, -1, 1), **ids), pb.SimInitAck)
        for step in range(options.steps + 1):
            if answer.stopSimReq:
                return
            info = json.dumps({"step": step, "word": options.word})
            state = pb.EnvStateMsg(
                obsData=container(step, options.simSeed % 1000, total),
                reward=step / 2,
                info=info,
                isGameOver=step == options.steps,
            )
            if step == options.at and options.deed in DEEDS:
                state = DEEDS[options.deed](state)
            answer = self.ask(state, pb.EnvActMsg)
            action = pb.BoxDataContainer()
            answer.actData.data.Unpack(action)
            total += sum(action.floatData)

    def ask(self, question, kind):
        self.pass_by()
        self.socket.send(question if isinstance(question, bytes) else question.SerializeToString())
        self.pass_by()
        return kind.FromString(self.socket.recv())

    def pass_by(self):
        if self.events == self.options.die_at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.events += 1


def main():
    parser = argparse.ArgumentParser()
    for name, default in {"openGymPort": 5555, "simSeed": 0, "steps": 10, "at": -1, "die_at": -1}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    for name, default in {"deed": "fine", "word": "", "runs_file": os.devnull}.items():
        parser.add_argument(f"--{name}", default=default)
    options = parser.parse_args()
    with Path(options.runs_file).open("a", encoding="utf-8", buffering=1) as runs:
        runs.write(f"{options.simSeed}\n")
        if options.deed == "early":
            sys.exit("no such scenario")
        Actor(options).run()
        if options.deed == "stubborn":
            time.sleep(600)
        runs.write("ended\n")


if __name__ == "__main__":
    main()
