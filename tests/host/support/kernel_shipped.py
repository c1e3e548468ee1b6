# SPDX-License-Identifier: GPL-2.0-only
"""Loads the shipped agents without a compiler, in a network namespace of this process; prints their flows as JSON.

Run as root, as ``unshare --net python kernel_shipped.py NAME``; NAME is that of each control in turn.
"""

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


def after_a_pause(name: str) -> list[str]:
    """Return what the policy of a flow does after its receiver has read, paused for 7 s and read again."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as sender:
        sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
        sender.connect(listener.getsockname())
        threading.Thread(target=send, args=(sender,), daemon=True).start()
        receiver, _ = listener.accept()
        for pause_s in (0, 7):
            time.sleep(pause_s)  # the floor counts seconds
            until_s = time.monotonic() + 2
            while time.monotonic() < until_s:
                receiver.recv(1 << 18)
        found = [row["policy"] for row in controls.find(name).connections() if row["acks"] > 0]
        receiver.close()
    return found


def main() -> None:
    name = sys.argv[1]
    make_path("100mbit")
    controls.load("shipped/flow", {"floor_rtt": 1.0, "floor_rtt_s": 1.0}, name=name)
    kept = after_a_pause(name)
    controls.unload(name, is_forced=True)
    make_path()
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
