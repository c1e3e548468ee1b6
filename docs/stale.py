# SPDX-License-Identifier: GPL-2.0-only
"""Name what the pages measured whose behaviour has changed since.

usage: python docs/stale.py

A command that measures writes `<!-- measured DIGEST: SCENARIO ... / ENTRANT ... -->` above its figures, the digest of a
short run (`bbrgym.evaluate.behaviour`). That run is made again here. The exit code is 0: whoever releases decides.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from bbrgym.errors import ConfigError, MissingExtraError
from bbrgym.evaluate.behaviour import behaviour_digest

ROOT = Path(__file__).resolve().parents[1]
MARK = re.compile(r"<!-- measured ([0-9a-f]{10}): (.+) -->")
COMMAND = re.compile(r"`((?:python|bbrgym) [^`]*)`")


def stale_figures(page: Path) -> Iterator[str]:
    """Yield a sentence for each mark of a page whose run gives another digest now, or cannot be made."""
    text = page.read_text(encoding="utf-8")
    for found in MARK.finditer(text):
        command = COMMAND.search(text, found.end())
        if reason := reason_of(*found.groups()):
            yield f"{page.name}: {command[1] if command else 'a figure'}: {reason}"


@functools.cache
def reason_of(digest: str, of: str) -> str:
    """Return why figures may be stale; empty if they are not."""
    try:
        now = behaviour_digest(of)
    except (ConfigError, MissingExtraError) as error:
        return f"cannot be checked: {error}"
    return "" if now == digest else f"behaviour changed ({of})"


def main() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    sys.stdout.writelines(f"stale: {line}\n" for page in pages for line in stale_figures(page))


if __name__ == "__main__":
    main()
