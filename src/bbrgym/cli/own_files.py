# SPDX-License-Identifier: GPL-2.0-only
"""Congestion controls of the user's among a command's options."""

from __future__ import annotations

from typing import Any

from bbrgym.plugins import is_file, load_controller


def take_files(options: dict[str, Any], *, trust: bool = False) -> None:
    """Load the files that the options ``variants`` and ``variant`` name, and put their variants' names there.

    Only what the caller names is loaded: a run folder keeps names, which are not loaded.

    Raises:
        ConfigError: a file is none, or breaks a law.
    """

    def taken(name: Any) -> Any:
        return load_controller(name, trust=trust) if is_file(name) else name

    if isinstance(options.get("variants"), list):
        options["variants"] = [taken(name) for name in options["variants"]]
    for key in ("variants", "variant"):
        if key in options:
            options[key] = taken(options[key])
