# SPDX-License-Identifier: GPL-2.0-only
"""A TCP transfer under cc/ in BPF, in network namespaces of this process alone; prints what came of it as JSON.

Run as ``unshare --net python bpf_transfer.py VARIANT SECONDS [slow] [OBJECT.o]``, OBJECT.o a program with a policy or
of VARIANT, a C file. The
loopback device is the path: 20 Mbit/s, and a queue of 30 packets that both directions share, so that packets are lost.
"""

import json
import socket
import subprocess
import sys
import threading
import time

from bbrgym import _bpf
from bbrgym.plugins import PLUGINS, is_file, load_controller
from bbrgym.tunables import VARIANTS

RATE = "20mbit"
QUEUE_BYTES = "45000"
#: A tunable of a variant that changes while the flow runs.
GAINS = {name: "bbr_cwnd_gain" if one.algorithm == "bbr" else "bbr3_cwnd_gain" for name, one in VARIANTS.items()}


def run(*command: str) -> None:
    subprocess.run(command, check=True, timeout=60)


def make_path() -> None:
    run("ip", "link", "set", "lo", "mtu", "1500", "up")
    run("tc", "qdisc", "add", "dev", "lo", "root", "tbf", "rate", RATE, "burst", "3000", "limit", QUEUE_BYTES)


def drain(listener: socket.socket, received: list[int]) -> None:
    connection, _ = listener.accept()
    with connection:
        while data := connection.recv(1 << 16):
            received[0] += len(data)


def main() -> None:
    variant, seconds = sys.argv[1], float(sys.argv[2])
    make_path()
    if is_file(variant):
        variant = load_controller(variant)
        _bpf.load_plugin(variant, PLUGINS[variant])
    objects = [argument for argument in sys.argv if argument.endswith(".o")]
    control = _bpf.CongestionControl(variant, records=1 << 15, slow="slow" in sys.argv, program="".join(objects))
    control.measure_cost()
    received = [0]
    replay = _bpf.Replay()
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as sender:
        reader = threading.Thread(target=drain, args=(listener, received), daemon=True)
        reader.start()
        control.attach(sender.fileno(), variant, seed=7, recorded=True)
        before = control.read(sender.fileno())
        sender.settimeout(60)
        sender.connect(listener.getsockname())
        start = time.monotonic()
        retuned = False
        while (elapsed := time.monotonic() - start) < seconds:
            sender.send(b"x" * (1 << 15))
            control.replay(replay)
            if not retuned and elapsed > seconds / 2:
                gain = GAINS.get(variant, "bbr_cwnd_gain")
                control.set_tunables(sender.fileno(), variant, {gain: 3.0}, recorded=True)
                retuned = True
        state = control.read(sender.fileno())
        policy = control.policy(sender.fileno())
        used = sender.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()
        sender.shutdown(socket.SHUT_WR)
        reader.join(60)
    control.replay(replay)
    print(
        json.dumps(
            {
                "name": control.name,
                "used": used,
                "before": before,
                "state": state,
                "policy": policy and [*policy[:2], policy[2].hex()],
                "received": received[0],
                "replay": replay.result(),
                "costs": control.costs(),
            }
        )
    )


if __name__ == "__main__":
    main()
