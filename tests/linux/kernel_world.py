# SPDX-License-Identifier: GPL-2.0-only
"""What the tests of the linux world share: its scenarios, and whether this machine can run them.

They check what happens and never when: a machine that tests is busy.
"""

import functools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from machine_needs import missing, reason_without

import bbrgym
import bbrgym._bpf as _bpf
from bbrgym.worlds.linux_machine import examine

_MISSING = [check for check in examine() if check.is_needed and not check.is_there]

_WHY = "; ".join(f"{check.name}: {check.remedy}" for check in _MISSING)

_WHY_NO_BPF = _bpf.why_not()


def why_no_bpf() -> str:
    """Return the reason of a skip where there is no congestion control in BPF."""
    packages = [*missing("libbpf1"), *([] if _bpf.compiler() else ["clang"])]
    return reason_without(*packages) if packages else f"no congestion control in BPF here: {_WHY_NO_BPF}"


needs_bpf = pytest.mark.skipif(bool(_WHY_NO_BPF), reason=why_no_bpf())
needs_kernel = pytest.mark.skipif(bool(_MISSING), reason=f"world linux cannot run on this machine: {_WHY}")

ANY_LATENESS = {"max_late_share": 1.0}


def scenario(*flows: dict[str, Any], duration_s: float = 1.0, **link: Any) -> dict[str, Any]:
    """Return a scenario of 20 Mbit/s with these flows, each by default kernel-cubic over 40 ms."""
    given = flows or ({},)
    return {
        "name": "kernel",
        "duration_s": duration_s,
        "warmup_s": duration_s / 2,
        "link": {"rate_mbps": 20.0, "delay_ms": 5.0, "queue": {"size_bdp": 1.0}, **link},
        "flows": [{"name": f"f{i}", "cc": "kernel-cubic", "rtt_ms": 40.0, **flow} for i, flow in enumerate(given)],
    }


def summary_of(mapping: dict[str, Any], **options: Any) -> tuple[list[dict[str, float]], dict[str, float]]:
    """Run a scenario to its end; return the summary of each flow and of the link."""
    with bbrgym.make_world("linux", mapping, seed=1, options={**ANY_LATENESS, **options}) as world:
        while not world.done:
            world.advance(0.5)
        flows, link = world.summary()
    names, link_names = world.flow_summary_fields, world.link_summary_fields
    return [dict(zip(names, row, strict=True)) for row in flows], dict(zip(link_names, link, strict=True))


# ---- the congestion control in BPF ------------------------------------------------------------------------

BPF = Path(__file__).resolve().parents[2] / "linux" / "bpf"
SECONDS = 3.0
#: As in linux/bpf/CMakeLists.txt.
FLAGS = ["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-std=gnu11", "-ffreestanding", "-Wall", "-Wextra", "-Werror"]
FLAGS += [f"-I{BPF.parents[1] / 'cc'}", f"-I{BPF}", "-Wno-unused-parameter"]


def compile_for_bpf(target: Path, *definitions: str, clang: str = "clang") -> Path:
    """Compile the program without a warning, and return its object."""
    command = [clang, *FLAGS, *definitions, "-c", str(BPF / "bbrgym.bpf.c"), "-o", str(target)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return target


@functools.cache
def transfer(variant: str, *more: str) -> Any:
    """Return what bpf_transfer.py tells of a transfer in a network namespace of its own."""
    if missing("iproute2"):
        pytest.skip(reason_without("iproute2"))
    script = Path(__file__).with_name("bpf_transfer.py")
    command = ["unshare", "--net", sys.executable, str(script), variant, str(SECONDS), *more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
