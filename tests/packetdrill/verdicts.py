# SPDX-License-Identifier: GPL-2.0-only
"""The results of a script."""


class OutOfScopeError(Exception):
    """The script needs what tcp/ deliberately does not model."""


class NotRunError(Exception):
    """The script needs what this tool cannot do."""


class WrongError(Exception):
    """The script expects something else than what tcp/ does."""
