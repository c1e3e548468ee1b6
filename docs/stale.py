# SPDX-License-Identifier: GPL-2.0-only
"""Name the figures of the pages whose inputs changed since the commit at which they were measured.

usage: python docs/stale.py

A command that measures writes `<!-- figures of FOLDER ... at COMMIT -->` above its figures, with a plus behind the
commit where files differed from it. Nothing is measured here, and the exit code is 0: whoever releases decides.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MARK = re.compile(r"<!-- figures of (.+) at ([0-9a-f]+|unknown)(\+?) -->")
COMMAND = re.compile(r"`((?:python|bbrgym) [^`]*)`")


def stale_figures(page: Path, root: Path) -> Iterator[str]:
    """Yield a sentence for each mark of a page whose inputs changed."""
    text = page.read_text(encoding="utf-8")
    for found in MARK.finditer(text):
        inputs, commit, is_dirty = found.groups()
        command = COMMAND.search(text, found.end())
        if reason := reason_of(root, inputs.split(), commit, bool(is_dirty)):
            yield f"{page.relative_to(root)}: {command[1] if command else 'a figure'}: {reason}"


def reason_of(root: Path, inputs: list[str], commit: str, is_dirty: bool) -> str:
    """Return why figures may be stale; empty if nothing changed."""
    if is_dirty:
        return f"measured with changes beside {commit}"
    git = ["git", "-c", "safe.directory=*", "-C", str(root), "diff", "--name-only", commit, "--", *inputs]
    done = subprocess.run(git, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        return f"measured at {commit}, which is not in this clone"
    changed = len(done.stdout.split())
    return f"{changed} of its input files changed since {commit}" if changed else ""


def main() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    sys.stdout.writelines(f"stale? {line}\n" for page in pages for line in stale_figures(page, ROOT))


if __name__ == "__main__":
    main()
