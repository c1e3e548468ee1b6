# SPDX-License-Identifier: GPL-2.0-only
"""Every source file names its licence; run as a program it lists those that do not."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LINE = "SPDX-License-Identifier: GPL-2.0-only"
SUFFIXES = {".c", ".cc", ".cpp", ".h", ".hpp", ".def", ".py", ".pyi", ".cmake"}
NAMES = {"CMakeLists.txt", "Makefile"}


def sources() -> list[Path]:
    """The repository's own files, as git knows them."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    ).stdout
    paths = [ROOT / name for name in listed.split("\0") if name]
    return [path for path in paths if path.is_file() and (path.suffix in SUFFIXES or path.name in NAMES)]


def without_licence() -> list[str]:
    return [
        str(path.relative_to(ROOT))
        for path in sources()
        if LINE not in "".join(path.read_text(encoding="utf-8").splitlines(keepends=True)[:3])
    ]


def test_every_source_names_its_licence() -> None:
    assert len(sources()) > 30
    assert without_licence() == []


if __name__ == "__main__":
    missing = without_licence()
    sys.stderr.writelines(f"{path}: no line '{LINE}' at its top\n" for path in missing)
    sys.exit(bool(missing))
