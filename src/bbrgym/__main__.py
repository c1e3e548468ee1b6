# SPDX-License-Identifier: GPL-2.0-only
"""``python -m bbrgym``."""

import sys

from bbrgym.cli.main import main

sys.exit(main())
