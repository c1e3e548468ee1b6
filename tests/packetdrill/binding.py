# SPDX-License-Identifier: GPL-2.0-only
"""The sender and the receiver of tcp/ as a Python module (binding.cc)."""

import importlib.util
import sysconfig
from collections.abc import Callable
from typing import Any

import compilers

#: Makes a connection of algorithm, MSS, bytes of the segments that arrive, preset of stacks, and other facts by name.
Binding = Callable[[str, int, int, str, dict[str, object]], Any]


def load() -> Binding:
    """Return the class of connections."""
    module = compilers.program("packetdrill_tcp").with_suffix(sysconfig.get_config_var("EXT_SUFFIX"))
    spec = importlib.util.spec_from_file_location("packetdrill_tcp", module)
    if spec is None or spec.loader is None:
        raise ImportError(f"{module} is not a module")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    connection: Binding = loaded.Connection
    return connection
