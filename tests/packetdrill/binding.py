# SPDX-License-Identifier: GPL-2.0-only
"""The sender and the receiver of tcp/ as a Python module (binding.cc), compiled once for the sources as they are."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sysconfig
from collections.abc import Callable
from typing import Any

import compilers
import pybind11

#: Makes a connection of algorithm, MSS, bytes of the segments that arrive, preset of stacks, and other facts by name.
Binding = Callable[[str, int, int, str, dict[str, object]], Any]

_FOLDER = compilers.ROOT / "build" / "packetdrill"
_SOURCES = ("tests/packetdrill/binding.cc", "tcp/scoreboard.cpp", "tcp/receiver.cpp", "world/stack.cpp")
_INCLUDES = ("twin", "tcp", "world", "cc")
_FLAGS = (
    "-std=c++20",
    "-O1",
    "-shared",
    "-fPIC",
    "-fvisibility=hidden",
    "-fsanitize=undefined",
    "-fno-sanitize-recover=all",
)


def load() -> Binding:
    """Return the class of connections."""
    sources = [compilers.ROOT / source for source in _SOURCES]
    headers = [path for name in _INCLUDES for path in sorted((compilers.ROOT / name).glob("*.[hd]*"))]
    contents = hashlib.sha256(b"\0".join(path.read_bytes() for path in [*sources, *headers])).hexdigest()
    module = _FOLDER / contents[:16] / f"packetdrill_tcp{sysconfig.get_config_var('EXT_SUFFIX')}"
    if not module.exists():
        module.parent.mkdir(parents=True, exist_ok=True)
        partial = module.with_suffix(f".{os.getpid()}")
        folders = [
            *(compilers.ROOT / name for name in _INCLUDES),
            pybind11.get_include(),
            sysconfig.get_path("include"),
        ]
        command = [compilers.compiler(compilers.CXX), *_FLAGS, *(f"-I{folder}" for folder in folders), *sources]
        subprocess.run([*command, "-o", partial], check=True, timeout=compilers.PATIENCE_S)
        partial.rename(module)
    spec = importlib.util.spec_from_file_location("packetdrill_tcp", module)
    if spec is None or spec.loader is None:
        raise ImportError(f"{module} is not a module")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    connection: Binding = loaded.Connection
    return connection
