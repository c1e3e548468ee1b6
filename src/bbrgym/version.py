# SPDX-License-Identifier: GPL-2.0-only
"""Version of the package; pyproject.toml reads it here."""

__version__ = "0.1.0"
