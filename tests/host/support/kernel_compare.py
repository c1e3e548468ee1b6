# SPDX-License-Identifier: GPL-2.0-only
"""Compares two controls on traffic of a network namespace of this process; prints what came of it as JSON.

Run as root, as ``unshare --net python kernel_compare.py NAME RUN_DIR``; NAME is that of the control to load, which is
compared with reno by the command itself: it is interrupted, killed, and resumed.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from kernel_control import used_by

from bbrgym.host import controls
from bbrgym.worlds.linux_machine import cgroup_root

PEERS = 12
BYTES = 50_000
PATIENCE_S = 60.0

used: list[str] = []


def serve(listener: socket.socket) -> None:
    """Send to whoever connects, and note the control of the connection."""
    with suppress(OSError):
        while True:
            connection, _ = listener.accept()
            with connection:
                used.append(used_by(connection))
                connection.sendall(bytes(BYTES))
                connection.shutdown(socket.SHUT_WR)
                connection.recv(1)


def fetch(port: int, peer: int) -> str:
    """Fetch as a peer of a network of its own; return the control that sent."""
    with socket.create_connection(("127.0.0.1", port), source_address=(f"127.0.{peer}.1", 0)) as connection:
        while connection.recv(1 << 16):
            pass
    return used[-1]


@contextmanager
def own_cgroup() -> Iterator[str]:
    """Yield the name of a cgroup that holds this process."""
    root = cgroup_root()
    assert root is not None
    name = f"bbrgym-test-{os.getpid()}"
    (root / name).mkdir()
    (root / name / "cgroup.procs").write_text(str(os.getpid()))
    try:
        yield name
    finally:
        (root / "cgroup.procs").write_text(str(os.getpid()))
        (root / name).rmdir()


def compare(name: str, cgroup: str, port: int, run_dir: str, end: signal.Signals, rounds: int) -> dict[str, Any]:
    """Let the command compare while peers fetch, end it, and return what was given to the peers, and what it said."""
    command = [sys.executable, "-m", "bbrgym", "kernel", "compare", "reno", name, f"ports={port}", f"cgroup={cgroup}"]
    with subprocess.Popen([*command, f"resume={run_dir}"], stdout=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + PATIENCE_S
        given: list[str] = []
        while fetch(port, 0) not in ("reno", name) and time.monotonic() < deadline:
            time.sleep(0.05)
        given.append(used[-1])
        given += [fetch(port, peer) for _ in range(rounds) for peer in range(PEERS)]
        second = [] if end == signal.SIGKILL else [subprocess.run(
            [*command, f"output_dir={run_dir}-2"], capture_output=True, text=True, timeout=60, check=False
        ).stderr]
        time.sleep(1.0)  # the last connections end
        process.send_signal(end)
        said = process.communicate(timeout=PATIENCE_S)[0]
    return {
        "given": dict(Counter(given)),
        "said": said,
        "code": process.returncode,
        "second": second,
        "after": fetch(port, 0),
    }


def main() -> None:
    name, run_dir = sys.argv[1:]
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True, timeout=60)
    controls.load("bbq", {}, name=name)
    with own_cgroup() as cgroup, socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=(listener,), daemon=True).start()
        port = listener.getsockname()[1]
        ends = [(signal.SIGINT, 4), (signal.SIGKILL, 1), (signal.SIGINT, 4)]
        times = [compare(name, cgroup, port, run_dir, *one) for one in ends]
    controls.unload(name, is_forced=True)
    print(json.dumps(times))


if __name__ == "__main__":
    main()
