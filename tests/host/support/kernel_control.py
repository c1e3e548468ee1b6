# SPDX-License-Identifier: GPL-2.0-only
"""Loads a control, uses it and unloads it, in a network namespace of this process; prints what came of it as JSON.

Run as root, as ``unshare --net python kernel_control.py NAME LOG``; NAME is the control's, LOG a file to write.
"""

import dataclasses
import json
import socket
import struct
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
from bbrgym.host import controls, pins
from bbrgym.host.errors import HostError
from bbrgym.host.system import available_controls, default_control, set_default_control, within
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


def drop(name: str) -> None:
    """Let the kernel forget a control as one does without the package."""
    with pins.alone():
        pins.remove(pins.folder_of(name))
    controls._wait_until_gone(name)


def what_is_left(name: str) -> dict[str, Any]:
    """Unload what a namespace's default or a listening socket still uses; return what is said of it."""
    result: dict[str, Any] = {"told": []}
    controls.load("bbq", {}, name=name)
    with subprocess.Popen(["unshare", "--net", "sh", "-c", "echo && cat"], stdin=-1, stdout=-1, text=True) as other:
        assert other.stdout is not None
        other.stdout.readline()
        namespace = f"/proc/{other.pid}/ns/net"
        within(namespace, lambda: set_default_control(name))
        controls.unload(name, tell=result["told"].append)
        result["other"] = [other.pid, within(namespace, default_control)]
        other.communicate(timeout=60)
    controls.load("bbr", {}, name=f"{name}x", is_default=True)
    controls.load("bbq", {}, name=name, is_default=True)
    drop(f"{name}x")
    controls.unload(name, tell=result["told"].append)
    controls.load("bbq", {}, name=name, is_default=True)
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as ended:
        listener.accept()[0].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # and closed: RST
        result["ended"] = [used_by(ended), len(controls.find(name).connections())]
        result["address"] = "{}:{}".format(*listener.getsockname())
        drop(name)
        result["unload"] = refusal(lambda: controls.unload(name, is_forced=True))
        controls.load("bbr", {}, name=name)
        result["again"] = controls.unregistered()[name]
        set_default_control("reno")
        result["moved"] = controls.unload(name, is_forced=True, tell=result["told"].append)
    return result


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
    result["what_is_left"] = what_is_left(name)
    result["left"] = [
        one for one in [*available_controls(), *controls.loaded_names(), *controls.unregistered()] if one == name
    ]
    print(f"\n{json.dumps(result)}")


if __name__ == "__main__":
    main()
