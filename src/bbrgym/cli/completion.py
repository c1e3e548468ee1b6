# SPDX-License-Identifier: GPL-2.0-only
"""``bbrgym -sc``: completion of the command line by Hydra, for shells."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from bbrgym.errors import ConfigError


def complete(
    arguments: Sequence[str], commands: Sequence[str], programs: Sequence[str], parse: Callable[[list[str]], Any]
) -> None:
    """Print what installs the completion, or the candidates for the line that a shell asks about."""
    if not any(one.startswith("query=") for one in arguments):
        options = parse(["train", "-sc", *arguments])
        options.run_command(options)
        return
    program, *words = os.environ.get("COMP_LINE", "").split(" ")
    if len(words) < 2:
        sys.stdout.write(" ".join(name for name in commands if name.startswith("".join(words))) + "\n")
        return
    try:
        if words[0] in programs:
            options = parse([words[0], "-sc", *arguments])
            os.environ["COMP_LINE"] = " ".join([program, *words[1:]])
            options.run_command(options)
    except ConfigError:  # a line that is not whole yet
        return
