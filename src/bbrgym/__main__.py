# SPDX-License-Identifier: GPL-2.0-only
"""``python -m bbrgym``."""

import sys

from bbrgym.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
