# SPDX-License-Identifier: GPL-2.0-only
"""Compiles the kernel's program with a policy or a user's file in it, from the sources that the package carries."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from bbrgym.agents.deploy.integer_policy import IntegerPolicy
from bbrgym.agents.deploy.policy_header import policy_header
from bbrgym.errors import ConfigError
from bbrgym.plugins import bpf_sources, first_error, headers
from bbrgym.tunables import VARIANTS

#: As in linux/bpf/CMakeLists.txt.
_FLAGS = (
    "-target",
    "bpf",
    "-mcpu=v3",
    "-O2",
    "-g",
    "-std=gnu11",
    "-ffreestanding",
    *(f"-I{folder}" for folder in dict.fromkeys((headers(), bpf_sources()))),
)
_TIMEOUT_S = 300.0


def bpf_object(policy: IntegerPolicy) -> bytes:
    """Return the BPF object.

    Raises:
        ConfigError: there is no clang, or a socket cannot run the policy.
    """
    if policy.flows > 1:
        raise ConfigError(
            "the policy acts for all tuned flows, of which a socket knows one, allowed with format bpf are policies of "
            "env=multi or of one tuned flow"
        )
    with TemporaryDirectory(prefix="bbrgym-") as folder:
        header = Path(folder) / "policy.h"
        header.write_text(policy_header(policy), encoding="utf-8")
        generation = ("-DBBRGYM_BBR3",) if VARIANTS[policy.variant].algorithm in ("bbr2", "bbr3") else ()
        return _compiled("format bpf", *generation, f'-DBBRGYM_POLICY="{header}"')


def plugin_object(file: str | Path) -> bytes:
    """Return the BPF object of a congestion control in one C file (`bbrgym.plugins`).

    Raises:
        ConfigError: there is no clang, or a line of the file is not for the kernel.
    """
    path = Path(file).resolve()
    return _compiled(path.name, f'-DBBRGYM_PLUGIN="{path}"', name=path.name)


def _compiled(what: str, *defines: str, name: str = "") -> bytes:
    clang = shutil.which("clang")
    if clang is None:
        raise ConfigError(f"{what}: needs clang, 14 or later, which is not in the PATH")
    with TemporaryDirectory(prefix="bbrgym-") as folder:
        target = Path(folder) / "object.bpf.o"
        command = [clang, *_FLAGS, *defines, "-c", str(bpf_sources() / "bbrgym.bpf.c"), "-o", str(target)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        if done.returncode != 0:
            raise ConfigError(f"{what}: clang cannot compile it: {first_error(name, done.stderr)}")
        return target.read_bytes()
