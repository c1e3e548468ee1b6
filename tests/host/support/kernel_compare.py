# SPDX-License-Identifier: GPL-2.0-only
"""Compares two controls on traffic of a network namespace of this process; prints what came of it as JSON.

Run as root, as ``unshare --net python kernel_compare.py NAME RUN_DIR``; NAME is that of the control to load, which is
compared with reno by the command itself: it is interrupted, killed, and resumed.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from kernel_control import refusal, used_by

from bbrgym.host import controls
from bbrgym.worlds.linux_machine import cgroup_root

PEERS = 12
BYTES = 50_000
PATIENCE_S = 60.0
OWN_MIND = "127.0.7.1"  # the peer for whose connections the server sets a control of its own
ENDED = ("06", "0A")  # TIME_WAIT, of which the kernel has told the program at the cgroup, and LISTEN

used: list[str] = []


def serve(listener: socket.socket) -> None:
    """Send to whoever connects, and note the control of the connection."""
    with suppress(OSError):
        while True:
            connection, _ = listener.accept()
            with connection:
                used.append(used_by(connection))
                if connection.getpeername()[0] == OWN_MIND:
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
                connection.sendall(bytes(BYTES))
                connection.shutdown(socket.SHUT_WR)
                connection.recv(1)


def fetch(port: int, peer: int) -> str:
    """Fetch as a peer of a network of its own; return the control that sent."""
    with socket.create_connection(("127.0.0.1", port), source_address=(f"127.0.{peer}.1", 0)) as connection:
        while connection.recv(1 << 16):
            pass
    return used[-1]


def open_connections(port: int) -> int:
    """Return how many sockets of this network namespace have a port and have not ended yet."""
    rows = [line.split()[1:4] for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    ports = [(int(local[-4:], 16), int(remote[-4:], 16), state) for local, remote, state in rows]
    return sum(port in ends and state not in ENDED for *ends, state in ports)


@contextmanager
def own_cgroup() -> Iterator[str]:
    """Yield the name of a cgroup that holds this process."""
    root = cgroup_root()
    assert root is not None
    name = f"bbrgym-test-{os.getpid()}"
    (root / name / "below").mkdir(parents=True)
    (root / name / "cgroup.procs").write_text(str(os.getpid()))
    try:
        yield name
    finally:
        (root / "cgroup.procs").write_text(str(os.getpid()))
        (root / name / "below").rmdir()
        (root / name).rmdir()


class Comparison:
    """A comparison by the command, of connections from a port in a cgroup."""

    def __init__(self, name: str, cgroup: str, port: int) -> None:
        options = [f"ports={port}", f"cgroup={cgroup}"]
        self._command = [sys.executable, "-m", "bbrgym", "kernel", "compare", "reno", name, *options]
        self._controls = ("reno", name)
        self._port = port

    @contextmanager
    def running(self, run_dir: str, end: signal.Signals, result: dict[str, Any]) -> Iterator[None]:
        """Compare during a block, until a signal; put what was said into a result, and what a peer has afterwards."""
        command = [*self._command, f"resume={run_dir}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            deadline = time.monotonic() + PATIENCE_S
            while fetch(self._port, 0) not in self._controls and time.monotonic() < deadline:
                time.sleep(0.05)  # between two looks at whether it draws yet
            result["given"] = [used[-1]]
            yield
            while open_connections(self._port) and time.monotonic() < deadline:
                time.sleep(0.01)
            process.send_signal(end)
            result["said"] = process.communicate(timeout=PATIENCE_S)[0]
        result["code"], result["after"] = process.returncode, fetch(self._port, 0)

    def fetch(self, rounds: int) -> list[str]:
        """Fetch as each peer; return the controls that they were given."""
        return [fetch(self._port, peer) for _ in range(rounds) for peer in range(PEERS)]

    def refusal(self, run_dir: str, cgroup: str) -> str:
        """Return why there is no other comparison in a cgroup now."""
        command = [*self._command[:-1], f"cgroup={cgroup}", f"output_dir={run_dir}"]
        return subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=60, check=False).stderr


def main() -> None:
    name, run_dir = sys.argv[1:]
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True, timeout=60)
    os.environ["BBRGYM_FIGURES"] = "none"
    controls.load("bbq", {}, name=name)
    times: list[dict[str, Any]] = [{}, {}, {}]
    with own_cgroup() as cgroup, socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        comparison = Comparison(name, cgroup, listener.getsockname()[1])
        for result, end in zip(times, (signal.SIGINT, signal.SIGKILL, signal.SIGINT), strict=True):
            with comparison.running(run_dir, end, result):
                result["given"] += comparison.fetch(4)
                if result is times[0]:
                    places = (cgroup, f"{cgroup}/below", "")
                    result["refusals"] = [comparison.refusal(f"{run_dir}-2", place) for place in places]
                    result["unload"] = refusal(lambda: controls.unload(name, is_forced=True))
    controls.unload(name, is_forced=True)
    print(json.dumps(times))


if __name__ == "__main__":
    main()
