# SPDX-License-Identifier: GPL-2.0-only
"""Lets other programs use a loaded control, in a network namespace of this process; prints what they say as JSON.

Run as root, as ``unshare --net python kernel_programs.py NAME``; NAME is the control's.
"""

import http.server
import json
import socket
import subprocess
import sys
import threading
import time
from typing import Any

from kernel_control import traffic, used_by
from kernel_policy import make_path

from bbrgym.host import controls

BYTES = 1_000_000

used: list[str] = []


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves zeros."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(bytes(BYTES))
        used.append(used_by(self.connection))

    def log_message(self, *_: object) -> None:
        pass


def iperf3(name: str) -> Any:
    """Return the end of a test's JSON."""
    server = subprocess.Popen(["iperf3", "--server", "--one-off", "--forceflush"], stdout=subprocess.PIPE, text=True)
    with server:
        assert server.stdout is not None
        while "listening" not in server.stdout.readline():
            pass
        client = ["iperf3", "--client", "127.0.0.1", "--congestion", name, "--time", "1", "--json"]
        done = subprocess.run(client, capture_output=True, text=True, timeout=60, check=False)
        server.kill()
    return json.loads(done.stdout)["end"]


def curl(name: str) -> dict[str, Any]:
    """Return what curl got of a server, and the control of its connection."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/"
        command = ["curl", "--silent", "--output", "-", url]
        got = len(subprocess.run(command, capture_output=True, timeout=60, check=False).stdout)
        server.shutdown()
    return {"bytes": got, "used": used}


def change(control: controls.LoadedControl, connections: int) -> dict[str, int]:
    """Change a tunable under load; return how many have it after the next ACK, and how many do not."""
    with traffic(control.name, connections):
        time.sleep(1.0)
        controls.set_values(control.name, {"bbq_alpha_us": 1234})
        acks = {row["cookie"]: row["acks"] for row in control.connections()}
        time.sleep(0.5)
        rows = [row for row in control.connections() if row["acks"] > acks.get(row["cookie"], 0)]
        controls.unload(control.name, is_forced=True)
    late = sum(row["tunables"]["bbq_alpha_us"] != 1234 for row in rows)
    return {"changed": len(rows) - late, "late": late}


def main() -> None:
    name = sys.argv[1]
    make_path()
    control = controls.load("bbq", {}, name=name)
    result = {"iperf3": iperf3(name), "curl": curl(name), "set": change(control, 50)}
    for _ in range(5):
        control = controls.load("bbr3", {}, name=name)
        with traffic(name):
            controls.unload(name, is_forced=True)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
