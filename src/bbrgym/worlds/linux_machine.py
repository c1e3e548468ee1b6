# SPDX-License-Identifier: GPL-2.0-only
"""Abilities of this machine that the world ``linux`` uses."""

from __future__ import annotations

import os
import resource
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import bbrgym._bpf as _bpf
import bbrgym._linux as _linux
from bbrgym.tunables import KERNEL_CONTROLS

_CAPABILITIES = {"CAP_NET_ADMIN": 12, "CAP_IPC_LOCK": 14, "CAP_SYS_ADMIN": 21, "CAP_SYS_NICE": 23, "CAP_BPF": 39}
_CONTROLS = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
_BTF = Path("/sys/kernel/btf/vmlinux")
_RT_RUNTIME = Path("/proc/sys/kernel/sched_rt_runtime_us")
_FIFO_PRIORITY = 20


@dataclass(frozen=True)
class Check:
    """Something that the world uses.

    Attributes:
        name: what it is.
        is_there: whether this machine has it.
        is_needed: whether the world cannot run without it.
        found: what was found.
        remedy: what to do if it is missing.
        without: what still works if it is missing.
    """

    name: str
    is_there: bool
    is_needed: bool
    found: str
    remedy: str
    without: str


def examine() -> list[Check]:
    """Return the checks of this machine, the needed ones first."""
    return [check() for check in _CHECKS]


def _network() -> Check:
    problem = _linux.try_network(user_namespace=False)
    return Check(
        "network namespaces and TUN devices",
        problem is None,
        True,
        "a network can be built" if problem is None else problem,
        "run as root (CAP_NET_ADMIN, CAP_SYS_ADMIN) or allow user namespaces, and give the process /dev/net/tun",
        "the worlds ns3 and twin",
    )


def _unprivileged_network() -> Check:
    problem = _linux.try_network(user_namespace=True)
    return Check(
        "the same in a user namespace",
        problem is None,
        False,
        "a network can be built without privileges" if problem is None else problem,
        "sysctl kernel.unprivileged_userns_clone=1 or user.max_user_namespaces above 0",
        "everything, as root",
    )


def _controls() -> Check:
    available = _CONTROLS.read_text().split() if _CONTROLS.exists() else []
    missing = [name for name in KERNEL_CONTROLS if name.removeprefix("kernel-") not in available]
    return Check(
        "the kernel's own congestion controls",
        not missing,
        False,
        f"available: {', '.join(available) or 'unknown'}",
        f"modprobe {' '.join(name.replace('kernel-', 'tcp_') for name in missing)}" if missing else "",
        "flows with the other ones",
    )


def _privileges() -> Check:
    lacking = [name for name, bit in _CAPABILITIES.items() if not _has_capability(bit)]
    return Check(
        "privileges",
        not lacking,
        False,
        "all that are used" if not lacking else f"without {', '.join(lacking)}",
        "run as root",
        "the kernel's own congestion controls in a user namespace, with more lateness",
    )


def _scheduling() -> Check:
    is_allowed = _has_capability(_CAPABILITIES["CAP_SYS_NICE"]) or _rt_limit() >= _FIFO_PRIORITY
    runtime = _RT_RUNTIME.read_text().strip() if _RT_RUNTIME.exists() else "unknown"
    return Check(
        "scheduling rights (SCHED_FIFO)",
        is_allowed,
        False,
        f"rtprio {_rt_limit()}, sched_rt_runtime_us {runtime}",
        f"run as root, or ulimit -r {_FIFO_PRIORITY}",
        "runs at a normal priority, with more lateness",
    )


def _cores() -> Check:
    cores = len(os.sched_getaffinity(0))
    return Check(
        "cores",
        cores >= 2,
        False,
        f"{cores}",
        "give the process two: one for the emulator, one for the applications",
        "runs with more lateness",
    )


def _btf() -> Check:
    return Check(
        "type information of the kernel (BTF)",
        _BTF.exists(),
        False,
        str(_BTF) if _BTF.exists() else f"no {_BTF}",
        "a kernel with CONFIG_DEBUG_INFO_BTF",
        "the kernel's own congestion controls",
    )


def _bpf_control() -> Check:
    problem = _bpf.why_not()
    return Check(
        "our congestion controls in BPF",
        not problem,
        False,
        problem or f"the kernel takes those that the package carries, compiled by {_bpf.compiler()}",
        "run as root, with libbpf, and with a package that was built where clang or ziglang is",
        "the kernel's own congestion controls",
    )


def _clang() -> Check:
    path = shutil.which("clang")
    return Check(
        "clang",
        path is not None,
        False,
        path or "not in the PATH",
        "install clang, 14 or later",
        "everything but policies, which are compiled for BPF",
    )


def _has_capability(bit: int) -> bool:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) >> bit & 1)
    return False


def _rt_limit() -> int:
    return resource.getrlimit(resource.RLIMIT_RTPRIO)[0]


_CHECKS: tuple[Callable[[], Check], ...] = (
    _network,
    _unprivileged_network,
    _controls,
    _privileges,
    _scheduling,
    _cores,
    _btf,
    _bpf_control,
    _clang,
)
