# SPDX-License-Identifier: GPL-2.0-only
"""Scripts that load a control into the running kernel, in a process and a network namespace of their own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kernel_world import needs_bpf

import bbrgym._bpf as _bpf
from bbrgym.host import controls, pins

#: Of this test process alone: the kernel has one list of names.
NAME = f"{controls.PREFIX}t{os.getpid() % 10**9}"

_WHY_NOT, *_ = _bpf.why_not(named=True).splitlines() or [""]

needs_bpf_fs = pytest.mark.skipif(
    os.geteuid() != 0 or not os.path.ismount("/sys/fs/bpf") or bool(_WHY_NOT),
    reason=f"no root, no BPF file system at /sys/fs/bpf, or no control with a name: {_WHY_NOT}",
)


def needs_loading(test: Any) -> Any:
    """Skip a test where no control can be loaded."""
    return needs_bpf(needs_bpf_fs(test))


def of_script(name: str, *arguments: str) -> Any:
    """Return what a script beside this file tells, which loads `NAME` in a network namespace of its own."""
    command = ["unshare", "--net", sys.executable, str(Path(__file__).with_name(name)), NAME, *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    finally:
        if NAME in controls.loaded_names():
            with pins.alone():
                pins.remove(pins.folder_of(NAME))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])  # the live table is above it
