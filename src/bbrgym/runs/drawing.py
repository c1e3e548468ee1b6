# SPDX-License-Identifier: GPL-2.0-only
"""Choice of run folders with or without figures/, which Matplotlib draws (extra ``figures``)."""

from __future__ import annotations

import os

from bbrgym.errors import ConfigError, MissingExtraError, check_matplotlib

FIGURES = "BBRGYM_FIGURES"  # environment variable: none leaves figures/ out, all (the default) does not


def are_left_out() -> bool:
    """Return whether figures/ is not wanted.

    Raises:
        ConfigError: the environment variable `FIGURES` is neither all nor none.
    """
    chosen = os.environ.get(FIGURES, "all")
    if chosen not in ("all", "none"):
        raise ConfigError(f"{FIGURES}: is {chosen!r}, expected all or none")
    return chosen == "none"


def reason_not_to_draw() -> str | None:
    """Return a sentence on why figures/ is not written; None if it is. Raises ConfigError: see `are_left_out`."""
    if are_left_out():
        return f"no figures/: {FIGURES} is none"
    try:
        check_matplotlib("figures/*.png")
    except MissingExtraError as error:
        return str(error)
    return None
