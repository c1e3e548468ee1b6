# SPDX-License-Identifier: GPL-2.0-only
"""Abilities of this machine that the world ``linux`` uses."""

from __future__ import annotations

import os
import resource
import shutil
from dataclasses import dataclass
from pathlib import Path

import bbrgym._bpf as _bpf
import bbrgym._linux as _linux
from bbrgym.tunables import KERNEL_CONTROLS

_CAPABILITIES = {"CAP_NET_ADMIN": 12, "CAP_IPC_LOCK": 14, "CAP_SYS_ADMIN": 21, "CAP_SYS_NICE": 23, "CAP_BPF": 39}
_CONTROLS = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
_BPF_FS = Path("/sys/fs/bpf")
_BTF = Path("/sys/kernel/btf/vmlinux")
_MOUNTS = Path("/proc/self/mounts")
_RT_RUNTIME = Path("/proc/sys/kernel/sched_rt_runtime_us")
_FIFO_PRIORITY = 20


@dataclass(frozen=True)
class Check:
    """Something that the world uses."""

    name: str  # what it is
    is_there: bool  # whether this machine has it
    is_needed: bool  # whether the world cannot run without it
    found: str  # what was found
    remedy: str  # what to do if it is missing
    without: str  # what still works if it is missing


def examine() -> list[Check]:
    """Return the checks of this machine, the needed ones first."""
    return [*_of_networks(), *_of_rights(), *_of_bpf()]


def cgroup_root() -> Path | None:
    """Return where cgroups of version 2 are mounted; None: nowhere."""
    mounts = (line.split() for line in _MOUNTS.read_text().splitlines())
    return next((Path(place) for _, place, kind, *_ in mounts if kind == "cgroup2"), None)


def _of_networks() -> list[Check]:
    problem, unprivileged = (_linux.try_network(user_namespace=is_user) for is_user in (False, True))
    return [
        Check(
            "network namespaces and TUN devices",
            problem is None,
            True,
            problem or "a network can be built",
            "run as root (CAP_NET_ADMIN, CAP_SYS_ADMIN) or allow user namespaces, and give the process /dev/net/tun",
            "the worlds ns3 and twin",
        ),
        Check(
            "the same in a user namespace",
            unprivileged is None,
            False,
            unprivileged or "a network can be built without privileges",
            "sysctl kernel.unprivileged_userns_clone=1 or user.max_user_namespaces above 0",
            "everything, as root",
        ),
    ]


def _of_rights() -> list[Check]:
    available = _CONTROLS.read_text().split() if _CONTROLS.exists() else []
    missing = [name for name in KERNEL_CONTROLS if name.removeprefix("kernel-") not in available]
    lacking = [name for name, bit in _CAPABILITIES.items() if not _has_capability(bit)]
    rt_limit = resource.getrlimit(resource.RLIMIT_RTPRIO)[0]
    rt_runtime_us = _RT_RUNTIME.read_text().strip() if _RT_RUNTIME.exists() else "unknown"
    cores = len(os.sched_getaffinity(0))
    return [
        Check(
            "the kernel's own congestion controls",
            not missing,
            False,
            f"available: {', '.join(available) or 'unknown'}",
            f"modprobe {' '.join(name.replace('kernel-', 'tcp_') for name in missing)}" if missing else "",
            "flows with the other ones",
        ),
        Check(
            "privileges",
            not lacking,
            False,
            "all that are used" if not lacking else f"without {', '.join(lacking)}",
            "run as root",
            "the kernel's own congestion controls in a user namespace, with more lateness",
        ),
        Check(
            "scheduling rights (SCHED_FIFO)",
            "CAP_SYS_NICE" not in lacking or rt_limit >= _FIFO_PRIORITY,
            False,
            f"rtprio {rt_limit}, sched_rt_runtime_us {rt_runtime_us}",
            f"run as root, or ulimit -r {_FIFO_PRIORITY}",
            "runs at a normal priority, with more lateness",
        ),
        Check(
            "cores",
            cores >= 2,
            False,
            f"{cores}",
            "give the process two: one for the emulator, one for the applications",
            "runs with more lateness",
        ),
    ]


def _of_bpf() -> list[Check]:
    problem, clang, cgroups = _bpf.why_not(), shutil.which("clang"), cgroup_root()
    of_named = problem or _bpf.why_not(named=True)
    return [
        Check(
            "type information of the kernel (BTF)",
            _BTF.exists(),
            False,
            str(_BTF) if _BTF.exists() else f"no {_BTF}",
            "a kernel with CONFIG_DEBUG_INFO_BTF",
            "the kernel's own congestion controls",
        ),
        Check(
            "our congestion controls in BPF",
            not problem,
            False,
            problem or f"the kernel takes those that the package carries, compiled by {_bpf.compiler()}",
            "run as root, with libbpf, and with a package that was built where clang or ziglang is",
            "the kernel's own congestion controls",
        ),
        Check(
            "iterators in BPF",
            not of_named,
            False,
            of_named or "the kernel takes those by which connections are listed",
            "as for our congestion controls, and a kernel that lets root load tracing programs",
            "everything but bbrgym kernel",
        ),
        Check(
            "a BPF file system",
            _BPF_FS.is_mount(),
            False,
            f"at {_BPF_FS}" if _BPF_FS.is_mount() else f"none at {_BPF_FS}",
            f"mount -t bpf bpf {_BPF_FS}",
            "everything but bbrgym kernel",
        ),
        Check(
            "cgroups of version 2",
            cgroups is not None,
            False,
            f"at {cgroups}" if cgroups else "mounted nowhere",
            "mount -t cgroup2 cgroup2 /sys/fs/cgroup (or an empty folder below it)",
            "everything but bbrgym kernel compare",
        ),
        Check(
            "clang",
            clang is not None,
            False,
            clang or "not in the PATH",
            "install clang, 14 or later",
            "everything but new policies, which are compiled for BPF",
        ),
    ]


def _has_capability(bit: int) -> bool:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) >> bit & 1)
    return False
