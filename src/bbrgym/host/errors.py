# SPDX-License-Identifier: GPL-2.0-only
"""The error of the running kernel."""


class HostError(RuntimeError):
    """The kernel, or what is loaded into it, does not allow what was asked."""
