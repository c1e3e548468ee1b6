# SPDX-License-Identifier: GPL-2.0-only
"""``python -m bbrgym``."""

from bbrgym.cli.main import program

if __name__ == "__main__":
    program()
