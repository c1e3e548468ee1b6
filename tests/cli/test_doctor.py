# SPDX-License-Identifier: GPL-2.0-only
"""``bbrgym doctor`` on this machine, with privileges and without."""

import os
import re
import shutil
import subprocess
import sys

import pytest

ROWS = {
    "network namespaces and TUN devices": True,
    "the same in a user namespace": False,
    "the kernel's own congestion controls": False,
    "privileges": False,
    "scheduling rights (SCHED_FIFO)": False,
    "cores": False,
    "type information of the kernel (BTF)": False,
    "our congestion controls in BPF": False,
    "iterators in BPF": False,
    "a BPF file system": False,
    "cgroups of version 2": False,
    "clang": False,
}
"""Rows of the table, and whether the world cannot run without what they name."""

#: Another user's, but that he may read every file: this Python may lie where others cannot look.
CAPABILITIES = "-all,+dac_read_search"
NO_PRIVILEGES = [
    "setpriv",
    "--reuid=65534",
    "--regid=65534",
    "--clear-groups",
    *(f"--{kind}={CAPABILITIES}" for kind in ("bounding-set", "inh-caps", "ambient-caps")),
]
CAN_DROP = os.geteuid() == 0 and shutil.which("setpriv") is not None


def doctor(*before: str, world: str | None = None) -> subprocess.CompletedProcess[str]:
    command = [*before, sys.executable, "-m", "bbrgym", "doctor", *([world] if world else [])]
    environment = {**os.environ, "COLUMNS": "250"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def answers(printed: str) -> dict[str, str]:
    """Return the column ``there`` by row."""
    return dict(re.findall(r"^[│|] ([^│|]+?) +[│|] (yes|NO) ", printed, re.MULTILINE))


def check(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """Check that each row is there, and that the code is 0 unless something is missing that is needed."""
    found = answers(done.stdout)
    assert found.pop("linux") == "yes"
    assert list(found) == list(ROWS), done.stdout + done.stderr
    missing = [name for name, is_needed in ROWS.items() if is_needed and found[name] == "NO"]
    problem = f"bbrgym: world linux cannot run on this machine: it needs {', '.join(missing)}\n"
    assert (done.returncode, done.stderr) == ((2, problem) if missing else (0, ""))
    return found


def test_each_thing_that_the_world_uses_has_a_row() -> None:
    done = doctor(world="linux")
    found = check(done)
    carries = "the kernel takes those that the package carries, compiled by clang version" in done.stdout
    assert carries == (found["our congestion controls in BPF"] == "yes")


@pytest.mark.skipif(not CAN_DROP, reason="only root can give privileges up, with setpriv")
def test_without_privileges_the_table_says_what_is_missing() -> None:
    done = doctor(*NO_PRIVILEGES, world="linux")
    found = check(done)
    assert found["privileges"] == found["our congestion controls in BPF"] == "NO"
    assert "without CAP_NET_ADMIN" in done.stdout
    assert "run as root" in done.stdout
    assert found["cores"] == check(doctor(world="linux"))["cores"]


def test_without_a_world_all_are_checked_and_any_one_may_be() -> None:
    done, alone = doctor(), doctor(world="linux")
    worlds = dict.fromkeys(("ns3", "twin", "ns3gym", "linux"), "yes")
    assert answers(done.stdout) == worlds | answers(alone.stdout)
    assert (done.returncode, done.stderr) == (alone.returncode, alone.stderr)
    assert answers(doctor(world="twin").stdout) == {"twin": "yes"}
    without = "import sys; sys.modules['psutil'] = None; from bbrgym.cli.main import program; program()"
    command = [sys.executable, "-c", without, "doctor", "ns3gym"]
    lacking = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (lacking.returncode, answers(lacking.stdout)) == (2, {"ns3gym": "NO"})
    assert re.match("bbrgym: world ns3gym cannot run on this machine: .* needs psutil: pip install", lacking.stderr)
    assert "WORLD: is 'ns4'; did you mean ns3?" in doctor(world="ns4").stderr
