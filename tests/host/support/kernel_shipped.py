# SPDX-License-Identifier: GPL-2.0-only
"""Loads the shipped agents without a compiler, in a network namespace of this process; prints their flows as JSON.

Run as root, as ``unshare --net python kernel_shipped.py NAME``; NAME is that of each control in turn.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import threading
import time
from typing import Any

from kernel_control import refusal, send, traffic
from kernel_policy import NONE, flows, make_path

from bbrgym.host import controls


def after_pause(name: str, pause_s: float) -> list[str]:
    """Return what the policy of a flow does after its receiver has read, paused and read again."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as sender:
        sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
        sender.connect(listener.getsockname())
        threading.Thread(target=send, args=(sender,), daemon=True).start()
        receiver, _ = listener.accept()
        with receiver:
            for wait_s in (0.0, pause_s):
                time.sleep(wait_s)  # the floor counts seconds, as the next line
                until_s = time.monotonic() + 2
                while time.monotonic() < until_s:
                    receiver.recv(1 << 18)
            found = [row["policy"] for row in controls.find(name).connections() if row["acks"] > 0]
            sender.shutdown(socket.SHUT_RDWR)
    return found


def main() -> None:
    name = sys.argv[1]
    floors: dict[str, Any] = {"100mbit": {**NONE, "floor_rtt": 1.0, "floor_rtt_s": 1.0}, "20mbit": {}}
    kept = {}
    for rate, floor in floors.items():
        make_path(rate)
        controls.load("shipped/flow", floor, name=name)
        kept[rate] = after_pause(name, 7 if rate == "20mbit" else 0)
        controls.unload(name, is_forced=True)
    os.environ["PATH"] = ""
    result: dict[str, Any] = {"kept": kept, "wan": refusal(lambda: controls.load("shipped/wan", {}, name=name))}
    for target, values, policy in (("shipped/fixed", {"plus_alpha": 0.9}, ""), ("shipped/flow", NONE, "acts")):
        control = controls.load(target, values, name=name)
        with traffic(name):
            time.sleep(1.5)  # the policy decides every second
            result[target] = {"policy": control.policy, "flows": flows(control, policy)}
            controls.unload(name, is_forced=True)
    result["found"] = [shutil.which("clang"), "torch" in sys.modules]
    print(json.dumps(result))


if __name__ == "__main__":
    main()
