# SPDX-License-Identifier: GPL-2.0-only
"""Compiles the kernel's program with a policy in it, from the sources that the package carries."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from bbrgym.agents.deploy.integer_policy import IntegerPolicy
from bbrgym.agents.deploy.policy_header import policy_header
from bbrgym.errors import ConfigError
from bbrgym.tunables import VARIANTS

_SOURCES = Path(__file__).parents[2] / "_bpf_source"
#: As in linux/bpf/CMakeLists.txt.
_FLAGS = ("-target", "bpf", "-mcpu=v3", "-O2", "-g", "-std=gnu11", "-ffreestanding", f"-I{_SOURCES}")
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
    clang = shutil.which("clang")
    if clang is None:
        raise ConfigError("format bpf: needs clang, 14 or later, which is not in the PATH")
    with TemporaryDirectory(prefix="bbrgym-") as folder:
        header, target = Path(folder) / "policy.h", Path(folder) / "policy.bpf.o"
        header.write_text(policy_header(policy), encoding="utf-8")
        generation = () if VARIANTS[policy.variant].algorithm == "bbr" else ("-DBBRGYM_BBR3",)
        source = str(_SOURCES / "bbrgym.bpf.c")
        command = [clang, *_FLAGS, *generation, f'-DBBRGYM_POLICY="{header}"', "-c", source, "-o", str(target)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        if done.returncode != 0:
            raise ConfigError(f"format bpf: clang cannot compile it: {(done.stderr.splitlines() or ['no reason'])[0]}")
        return target.read_bytes()
