# SPDX-License-Identifier: GPL-2.0-only
"""Congestion controls of the user's among a command's options."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bbrgym.errors import ConfigError
from bbrgym.plugins import is_file, load_controller


def naming_files(overrides: Sequence[str]) -> list[str]:
    """Return the overrides that name files, without which a run folder of theirs does not go on."""
    return [one for one in overrides if any(map(is_file, re.findall(r"[^][,'\"= ]+", one[one.find("=") :])))]


def take_files(options: dict[str, Any], *, trust: bool = False) -> None:
    """Load the files that the options ``variants`` and ``variant`` name, and put their variants' names there.

    Only what the caller names is loaded: a run folder keeps names, which are not loaded.

    Raises:
        ConfigError: a file is none, or breaks a law.
    """
    paths: dict[str, Path] = {}

    def taken(name: Any) -> Any:
        if not is_file(name):
            return name
        path = Path(name).resolve()
        if paths.setdefault(path.name, path) != path:
            raise ConfigError(f"variants: {str(paths[path.name])!r} and {str(path)!r} have the same name")
        return load_controller(name, trust=trust)

    if isinstance(options.get("variants"), list):
        options["variants"] = [taken(name) for name in options["variants"]]
    for key in ("variants", "variant"):
        if key in options:
            options[key] = taken(options[key])
