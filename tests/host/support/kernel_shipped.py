# SPDX-License-Identifier: GPL-2.0-only
"""Loads the shipped agents without a compiler, in a network namespace of this process; prints their flows as JSON.

Run as root, as ``unshare --net python kernel_shipped.py NAME``; NAME is that of each control in turn.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from typing import Any

from kernel_control import refusal, traffic
from kernel_policy import NONE, flows, make_path

from bbrgym.host import controls


def main() -> None:
    name = sys.argv[1]
    make_path()
    os.environ["PATH"] = ""
    result: dict[str, Any] = {"wan": refusal(lambda: controls.load("shipped/wan", {}, name=name))}
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
