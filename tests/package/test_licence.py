# SPDX-License-Identifier: GPL-2.0-only
"""Every source file names its licence."""

from pathlib import Path

from repository import ROOT, tracked

LINE = "SPDX-License-Identifier: GPL-2.0-only"
SUFFIXES = {".c", ".cc", ".cpp", ".h", ".hpp", ".def", ".py", ".pyi", ".cmake"}
NAMES = {"CMakeLists.txt", "Makefile"}


def sources() -> list[Path]:
    """Return the repository's own files."""
    paths = [ROOT / name for name in tracked()]
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
