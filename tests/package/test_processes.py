# SPDX-License-Identifier: GPL-2.0-only
"""Processes that are started without the package's imports, and end with their parents."""

import os
import select
import subprocess
import sys

import pytest

from bbrgym.processes import light_command, open_parent

#: A parent that starts a child which would sleep for a minute, prints the child's pid, and ends.
PARENT = """
import os, subprocess, sys
child = "import os, signal, sys, time\\n"
child += "from bbrgym.processes import end_with_parent\\n"
child += "signal.signal(signal.SIGTERM, lambda *_: (print('asked', flush=True), sys.exit(3)))\\n"
child += f"end_with_parent({os.getpid()}, grace_s=GRACE)\\nprint('ready', os.getpid(), flush=True)\\ntime.sleep(60)"
process = subprocess.Popen([sys.executable, "-c", child], stdout=subprocess.PIPE)
os.write(1, process.stdout.readline())
sys.stdin.readline()
"""


def test_a_parent_that_has_ended_has_no_descriptor():
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait(60)
    assert open_parent(process.pid) is None
    assert open_parent(os.getpid()) is None  # another process's parent
    fd = open_parent(os.getppid())
    assert fd is not None
    assert select.select([fd], [], [], 0.0)[0] == []
    os.close(fd)


@pytest.mark.parametrize("grace_s", ["0.0", "30.0"])
def test_a_child_ends_with_its_parent(grace_s):
    environment = {**os.environ, "PYTHONPATH": ":".join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", PARENT.replace("GRACE", grace_s)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    ) as parent:
        ready, pid = parent.stdout.readline().split()
        assert ready == b"ready"
        child_fd = os.pidfd_open(int(pid))
        parent.kill()
        parent.wait(60)
        assert select.select([child_fd], [], [], 20.0)[0] == [child_fd]
        os.close(child_fd)


def test_a_light_process_loads_neither_the_package_nor_what_takes_long():
    command = light_command("bbrgym.ns3gym.guardian", site=False)
    shown = subprocess.run([*command[:1], "-X", "importtime", *command[1:]], capture_output=True, text=True, timeout=60)
    loaded = {line.rpartition("|")[2].strip() for line in shown.stderr.splitlines() if line.startswith("import time:")}
    assert {"bbrgym.ns3gym.guardian", "select"} <= loaded
    assert not loaded & {"pathlib", "psutil", "numpy", "bbrgym.errors", "bbrgym._cc"}
