# SPDX-License-Identifier: GPL-2.0-only
"""Headers of policies, compiled: called through ctypes, as what simulated worlds load, and as a program."""

import ctypes
import itertools
import subprocess
from pathlib import Path
from typing import Any

import compilers
import numpy as np
from policies import first_tunables, write_header

from bbrgym.agents.deploy.fixed_point import Integers
from bbrgym.agents.deploy.integer_policy import IntegerPolicy

DRIVER = Path(__file__).resolve().parents[1] / "deploy" / "policy_driver.c"
FREESTANDING = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Wconversion", "-Werror"]


class _Member(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("begin", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
        ("each", ctypes.c_uint64),
    )


class CompiledPolicy:
    """A policy's header as a library.

    Attributes:
        policy: the policy.
        library: functions of policy_driver.c.
        members: of the state, by name: first byte, bytes, bytes of a number.
    """

    def __init__(self, policy: IntegerPolicy, folder: Path) -> None:
        header = write_header(policy, folder / "policy.h")
        command = [compilers.compiler(compilers.C), *FREESTANDING, f'-DPOLICY="{header}"', "-shared", "-fPIC"]
        _compile([*command, str(DRIVER), "-o", str(folder / "driver.so")])
        self.policy = policy
        self.library = ctypes.CDLL(str(folder / "driver.so"))
        for name in ("log_2", "tanh_q16", "power_of_2", "number"):
            if hasattr(self.library, name):
                getattr(self.library, name).restype = ctypes.c_int64
        self.state_bytes = ctypes.c_uint64.in_dll(self.library, "state_bytes").value
        rows = itertools.takewhile(lambda row: row.name, (_Member * 16).in_dll(self.library, "members"))
        self.members = {row.name.decode(): (row.begin, row.bytes, row.each) for row in rows}

    def function(self, name: str, x: Integers) -> Integers:
        """Return a function of each number."""
        call = getattr(self.library, name)
        return np.array([call(ctypes.c_int64(one)) for one in x.tolist()])


class Controller:
    """A controller, whose state's members are arrays of their names.

    Args:
        compiled: its policy.
        tunables: tunables at the beginning in whole units, [tunables]. Default: the preset.
    """

    def __init__(self, compiled: CompiledPolicy, tunables: Integers | None = None) -> None:
        self._compiled = compiled
        self._state = ctypes.create_string_buffer(compiled.state_bytes)
        self._tunables = np.array(first_tunables(compiled.policy) if tunables is None else tunables, np.int64)
        self.call("begin", _pointer(self._tunables))

    def __getitem__(self, member: str) -> Integers:
        """Return the numbers of a member, [numbers]; writing them changes the state."""
        begin, size, each = self._compiled.members[member]
        return np.frombuffer(self._state, np.int64 if each == 8 else np.int32, size // each, begin)

    def call(self, function: str, *arguments: Any) -> Any:
        """Call a function of policy_driver.c with the state."""
        return getattr(self._compiled.library, function)(self._state, *arguments)

    def decide(self, fields: Integers) -> Integers:
        """Return the tunables for the next interval, [tunables].

        Args:
            fields: the last interval's measurements, [flows, fields].
        """
        fields = np.ascontiguousarray(fields, np.int64)
        self.call("decide", _pointer(fields), ctypes.c_uint32(len(fields)), _pointer(self._tunables))
        return self._tunables.copy()

    def load(self, state: bytes) -> None:
        """Replace the state."""
        ctypes.memmove(self._state, state, self._compiled.state_bytes)


def _pointer(numbers: Integers) -> Any:
    return numbers.ctypes.data_as(ctypes.POINTER(ctypes.c_int64))


def shared_object(policy: IntegerPolicy, path: Path) -> Path:
    """What simulated worlds load."""
    header = write_header(policy, path.with_suffix(".h"))
    flags = ["-ffreestanding", "-shared", "-fPIC", "-DBBRGYM_POLICY_ENTRY", "-x", "c"]
    _compile([compilers.compiler(compilers.C), *FREESTANDING, *flags, str(header), "-o", str(path)])
    return path


def sanitized(policy: IntegerPolicy, folder: Path, fields: Integers, flows: Integers) -> Integers:
    """Tunables of each step, by a program with the sanitizers on, of fields, [steps, flows, fields]."""
    header = write_header(policy, folder / "policy.h")
    command = [*compilers.sanitizing(compilers.C), *FREESTANDING, "-O0", f'-DPOLICY="{header}"', str(DRIVER)]
    _compile([*command, "-o", str(folder / "program")])
    steps = np.concatenate([flows[:, None], fields.reshape(len(fields), -1)], axis=1)
    given = np.concatenate([[len(fields)], first_tunables(policy), steps.ravel()]).astype(np.int64)
    done = subprocess.run(
        [folder / "program"], input=given.tobytes(), capture_output=True, check=False, timeout=compilers.PATIENCE_S
    )
    assert done.returncode == 0, done.stderr.decode()
    return np.frombuffer(done.stdout, np.int64).reshape(len(fields), -1)


def _compile(command: list[str]) -> None:
    subprocess.run(command, check=True, timeout=compilers.PATIENCE_S)
