# SPDX-License-Identifier: GPL-2.0-only
"""Loads a control, uses it and unloads it, in a network namespace of this process; prints what came of it as JSON.

Run as root, as ``unshare --net python kernel_control.py NAME LOG``; NAME is the control's, LOG a file to write.
"""

from __future__ import annotations

import dataclasses
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import polars as pl

from bbrgym.errors import ConfigError
from bbrgym.host import controls
from bbrgym.host.errors import HostError
from bbrgym.host.system import available_controls, default_control
from bbrgym.host.watch import watch

CONNECTIONS = 3


@contextmanager
def traffic(name: str, connections: int = CONNECTIONS) -> Iterator[list[socket.socket]]:
    """Yield connections over loopback that send as fast as they may under a control."""
    with socket.create_server(("127.0.0.1", 0), backlog=connections) as listener:
        threading.Thread(target=accept, args=(listener,), daemon=True).start()
        senders = [socket.socket() for _ in range(connections)]
        for sender in senders:
            sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
            sender.connect(listener.getsockname())
            threading.Thread(target=send, args=(sender,), daemon=True).start()
        yield senders
        for sender in senders:
            with suppress(OSError):
                sender.shutdown(socket.SHUT_RDWR)
            sender.close()


def accept(listener: socket.socket) -> None:
    with suppress(OSError):
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=drain, args=(connection,), daemon=True).start()


def drain(connection: socket.socket) -> None:
    with suppress(OSError):
        while connection.recv(1 << 16):
            pass


def send(sender: socket.socket) -> None:
    with suppress(OSError):
        while True:
            sender.send(b"x" * (1 << 16))


def used_by(sender: socket.socket) -> str:
    return sender.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()


def refusal(act: Callable[[], object]) -> str:
    try:
        act()
    except (ConfigError, HostError) as error:
        return str(error)
    return ""


def main() -> None:
    name = sys.argv[1]
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True, timeout=60)
    result: dict[str, Any] = {"default_before": default_control()}
    control = controls.load("bbq", {"bbq_alpha_us": 1500}, name=name, is_default=True)
    result["default_loaded"] = default_control()
    result["again"] = refusal(lambda: controls.load("bbq", {}, name=name))
    with traffic(name) as senders:
        time.sleep(0.2)
        result["flows"] = [{**row, "local": "", "remote": ""} for row in control.connections() if row["acks"] > 0]
        controls.set_values(name, {"bbq_alpha_us": 2500})
        time.sleep(0.2)
        result["alphas"] = [row["tunables"]["bbq_alpha_us"] for row in control.connections() if row["acks"] > 0]
        log = Path(sys.argv[2])
        watch(name, interval_s=0.1, log=log, duration_s=0.5)
        result["log"] = pl.read_parquet(log).to_dicts()
        result["unload"] = refusal(lambda: controls.unload(name))
        result["unknown"] = refusal(lambda: controls.set_values(name, {"plus_alpha": 1}))
        foreign = dataclasses.replace(control, layout="another")
        controls.write_about(foreign)
        result["foreign"] = [refusal(lambda: controls.unload(name, is_forced=True)), name in available_controls()]
        controls.write_about(control)
        result["moved"] = controls.unload(name, is_forced=True)
        result["used"] = [used_by(sender) for sender in senders]
    result["default_after"] = default_control()
    result["left"] = [one for one in [*available_controls(), *controls.loaded_names()] if one == name]
    print(f"\n{json.dumps(result)}")


if __name__ == "__main__":
    main()
