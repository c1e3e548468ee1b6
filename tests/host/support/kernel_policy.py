# SPDX-License-Identifier: GPL-2.0-only
"""Loads a policy with floors that its flows reach, in a network namespace of this process; prints the flows as JSON.

Run as root, as ``unshare --net python kernel_policy.py NAME RUN_DIR``; NAME is the control's.
"""

import json
import subprocess
import sys
import time
from typing import Any

from kernel_control import CONNECTIONS, refusal, traffic

from bbrgym.host import controls

NONE = {"floor_goodput_s": 0.0, "floor_rtt_s": 0.0}
PATIENCE_S = 30.0


def make_path(rate: str = "20mbit") -> None:
    """Make a path of the loopback device with a queue of 45 kB."""
    for command in ("link set lo mtu 1500 up", f"qdisc replace dev lo root tbf rate {rate} burst 3000 limit 45000"):
        tool = "ip" if command.startswith("link") else "tc"
        subprocess.run([tool, *command.split()], check=True, timeout=60)


def flows(control: controls.LoadedControl, policy: str) -> list[dict[str, Any]]:
    """Return the flows once their policy is as expected, or when patience ends."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        rows = [row for row in control.connections() if row["acks"] > 0]
        if (len(rows) == CONNECTIONS and {row["policy"] for row in rows} == {policy}) or time.monotonic() > deadline:
            return [{"policy": row["policy"], "tunables": row["tunables"]} for row in rows]
        time.sleep(0.2)


def main() -> None:
    name, run_dir = sys.argv[1:]
    make_path()
    result: dict[str, Any] = {}
    control = controls.load(run_dir, NONE, name=name)
    with traffic(name):
        time.sleep(2.5)  # two seconds below any floor
        result["none"] = flows(control, "acts")
        result["refused"] = refusal(lambda: controls.set_values(name, {"bbr_up_gain": 1.2}))
        controls.set_values(name, {"floor_goodput": 1.0, "floor_goodput_s": 1.0})
        result["goodput"] = flows(control, "fell back: goodput")
        controls.unload(name, is_forced=True)
    control = controls.load(run_dir, {**NONE, "floor_rtt": 1.0, "floor_rtt_s": 1.0}, name=name)
    with traffic(name):
        result["rtt"] = flows(control, "fell back: RTT")
        controls.unload(name, is_forced=True)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
