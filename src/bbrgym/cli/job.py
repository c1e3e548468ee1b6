# SPDX-License-Identifier: GPL-2.0-only
"""The process of a job: ``python -m bbrgym.cli.job PARENT_PID ARGUMENTS``, a command that ends with the parent."""

from __future__ import annotations

import sys

from bbrgym.processes import end_with_parent

_GRACE_S = 60.0

if __name__ == "__main__":
    end_with_parent(int(sys.argv[1]), grace_s=_GRACE_S)
    del sys.argv[1]
    from bbrgym.cli.main import program

    program()
