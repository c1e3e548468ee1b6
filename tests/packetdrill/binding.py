# SPDX-License-Identifier: GPL-2.0-only
"""The sender and the receiver of tcp/, in a process of their own (binding.cc)."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import compilers

_SOURCES = ("tests/packetdrill/binding.cc", "tcp/scoreboard.cpp", "tcp/receiver.cpp", "world/stack.cpp")
_INCLUDES = ("twin", "tcp", "world", "cc")
#: Of the program, which is compiled once for the sources as they are.
FOLDER = compilers.ROOT / "build" / "packetdrill"
_PATIENCE_S = 60.0  # until the process has ended


class BindingError(Exception):
    """The program ended, or refused a command."""


def compiled(folder: Path) -> Path:
    """Compile the program into a folder, unless it is there for the sources as they are."""
    sources = [compilers.ROOT / source for source in _SOURCES]
    headers = [path for name in _INCLUDES for path in sorted((compilers.ROOT / name).glob("*.[hd]*"))]
    texts = [" ".join(compilers.CXX_FLAGS).encode(), *(path.read_bytes() for path in [*sources, *headers])]
    contents = hashlib.sha256(b"\0".join(texts)).hexdigest()
    program = folder / contents[:16] / "binding"
    if not program.exists():
        with tempfile.TemporaryDirectory() as place:
            made = compilers.build(Path(place) / "binding", sources, _INCLUDES)
            program.parent.mkdir(parents=True, exist_ok=True)
            partial = program.with_suffix(f".{os.getpid()}")
            shutil.copy2(made, partial)
            partial.rename(program)
    return program


class Binding:
    """One process; a connection lasts from a `reset` to the next."""

    def __init__(self, program: Path) -> None:
        self._process = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def ask(self, command: str, *arguments: object) -> list[str]:
        """Return the words of the answer to a command.

        Raises:
            BindingError: the program refuses the command, or has ended, with what it says.
        """
        if self._process.stdin is None or self._process.stdout is None:
            raise BindingError("the program has no pipes")
        words = (str(int(one) if isinstance(one, bool) else one) for one in arguments)
        line = " ".join([command, *words])
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            _, said = self._process.communicate(timeout=_PATIENCE_S)
            raise BindingError(f"the program ended at '{line}': {said.strip()}")
        if answer.startswith("error "):
            raise BindingError(f"'{line}': {answer[6:].strip()}")
        return answer.split()

    def close(self) -> None:
        """End the process."""
        try:
            self._process.communicate(timeout=_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate(timeout=_PATIENCE_S)


@contextlib.contextmanager
def opened(program: Path) -> Iterator[Binding]:
    """Open a process of the program, which ends with the block."""
    with contextlib.closing(Binding(program)) as binding:
        yield binding
