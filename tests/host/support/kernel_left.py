# SPDX-License-Identifier: GPL-2.0-only
"""Unloads controls that a namespace's default or a listening socket still uses; prints what is said as JSON.

Run as root, as ``unshare --net python kernel_left.py NAME``; NAME is the control's.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from typing import Any

from kernel_control import refusal

from bbrgym.host import controls, pins
from bbrgym.host.system import default_control, network_namespaces, set_default_control, within


def drop(name: str) -> None:
    """Let the kernel forget a control as one does without the package."""
    with pins.alone():
        pins.remove(pins.folder_of(name))


def main() -> None:
    name = sys.argv[1]
    result: dict[str, Any] = {"told": []}
    controls.load("bbq", {}, name=name)
    with subprocess.Popen(["unshare", "--net", "sh", "-c", "echo && cat"], stdin=-1, stdout=-1, text=True) as other:
        assert other.stdout is not None
        other.stdout.readline()
        namespace = f"/proc/{other.pid}/ns/net"
        within(namespace, lambda: set_default_control(name))
        controls.unload(name, tell=result["told"].append)
        result["other"] = within(namespace, default_control)
        result["place"] = [place for place, file in network_namespaces() if place.endswith(f"process {other.pid}")]
        other.communicate(timeout=60)
    controls.load("bbr", {}, name=f"{name}x", is_default=True)
    controls.load("bbq", {}, name=name, is_default=True)
    drop(f"{name}x")
    controls.unload(name, tell=result["told"].append)
    controls.load("bbq", {}, name=name, is_default=True)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        drop(name)
        result["address"] = "{}:{}".format(*listener.getsockname())
        result["unload"] = refusal(lambda: controls.unload(name, is_forced=True))
        controls.load("bbr", {}, name=name)
        result["again"] = controls.unregistered()[name]
        set_default_control("reno")
        result["moved"] = controls.unload(name, is_forced=True, tell=result["told"].append)
    result["left"] = controls.unregistered()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
