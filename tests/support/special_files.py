# SPDX-License-Identifier: GPL-2.0-only
"""Files that no reader may open and wait for: a device without an end, a pipe nobody writes to, a folder."""

from __future__ import annotations

import os
from pathlib import Path

KINDS = ("zero", "fifo", "folder")


def put_special_file(kind: str, path: Path) -> None:
    """Make `path` a link to /dev/zero (`zero`), a named pipe (`fifo`) or a folder; leave it missing for other kinds."""
    if kind == "zero":
        path.symlink_to("/dev/zero")
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
