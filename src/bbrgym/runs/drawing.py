# SPDX-License-Identifier: GPL-2.0-only
"""Choice of run folders with or without figures/, which Matplotlib draws (extra ``figures``)."""

from __future__ import annotations

import os

from bbrgym.errors import ConfigError, MissingExtraError, check_matplotlib

#: Environment variable: none leaves figures/ out, all draws those of pages too. Default: what options ask for.
FIGURES = "BBRGYM_FIGURES"


def chosen_by_environment() -> str | None:
    """Return the value of the environment variable `FIGURES`; None if it is not set.

    Raises:
        ConfigError: the environment variable `FIGURES` is neither all nor none.
    """
    chosen = os.environ.get(FIGURES)
    if chosen not in (None, "all", "none"):
        raise ConfigError(f"{FIGURES}: is {chosen!r}, expected all or none")
    return chosen


def reason_not_to_draw() -> str | None:
    """Return a sentence on why figures/ is not written; None if it is. Raises ConfigError: as above."""
    if chosen_by_environment() == "none":
        return f"no figures/: {FIGURES} is none"
    try:
        check_matplotlib("figures/*.png")
    except MissingExtraError as error:
        return str(error)
    return None


def leave_out_help() -> None:
    """Let Matplotlib's setters have no help texts, whose making is half of its import: a command shows none."""
    import matplotlib.artist  # after `reason_not_to_draw`

    matplotlib.artist.kwdoc = lambda artist: ""  # noqa: ARG005 - the name of Matplotlib's own
    setattr(matplotlib.artist.Artist, "_update_set_signature_and_docstring", classmethod(lambda _: None))  # noqa: B010
