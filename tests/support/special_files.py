# SPDX-License-Identifier: GPL-2.0-only
"""Files that no reader may open and wait for: a device without an end, a pipe nobody writes to, a folder."""

import os
from pathlib import Path

KINDS = ("zero", "fifo", "folder")

#: A text in YAML of a hundred million values.
BOMB = "a0: &a0 [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)
)


def put_special_file(kind: str, path: Path) -> None:
    """Make `path` a link to /dev/zero (`zero`), a named pipe (`fifo`) or a folder; leave it missing for other kinds."""
    if kind == "zero":
        path.symlink_to("/dev/zero")
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
