# SPDX-License-Identifier: GPL-2.0-only
"""The error of the running kernel."""


class HostError(RuntimeError):
    """The kernel, or a program loaded there, does not allow what was asked."""
