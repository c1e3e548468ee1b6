# SPDX-License-Identifier: GPL-2.0-only
"""Version of the package, which pyproject.toml reads."""

__version__ = "0.1.0"
