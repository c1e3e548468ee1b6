# SPDX-License-Identifier: GPL-2.0-only
"""Fixture: a browser that opens pages."""

from browser import browse

__all__ = ["browse"]
