# SPDX-License-Identifier: GPL-2.0-only
"""Check that figures can be drawn: Matplotlib draws them, which the extra ``figures`` installs."""

from __future__ import annotations

from bbrgym.errors import MissingExtraError


def check_drawing(what: str) -> None:
    """Check that Matplotlib is installed.

    Args:
        what: feature that draws, e.g. ``render_mode='rgb_array'``.

    Raises:
        MissingExtraError: it is not.
    """
    try:
        import matplotlib  # noqa: F401 - large, and only drawing needs it
    except ModuleNotFoundError as error:
        raise MissingExtraError(what, "figures", error) from error


def reason_not_to_draw() -> str | None:
    """Return a sentence on why figures/ is not written; None if it is."""
    try:
        check_drawing("figures/*.png")
    except MissingExtraError as error:
        return str(error)
    return None
