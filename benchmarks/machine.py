# SPDX-License-Identifier: GPL-2.0-only
"""What a figure was measured on."""

from __future__ import annotations

import datetime
import os
import platform
from pathlib import Path

import bbrgym


def measured_on() -> str:
    """Date, version, processor and Python in one phrase."""
    return (
        f"{datetime.date.today().isoformat()}, bbrgym {bbrgym.__version__}, {processor()} "
        f"({len(os.sched_getaffinity(0))} cores), {platform.system()} {platform.machine()}, "
        f"Python {platform.python_version()}"
    )


def processor() -> str:
    """The processor's model name."""
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return " ".join(line.split(":", 1)[1].split())
    return platform.processor() or "unknown processor"
