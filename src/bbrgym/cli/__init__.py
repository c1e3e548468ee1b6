# SPDX-License-Identifier: GPL-2.0-only
"""The command ``bbrgym``: a file a command."""
