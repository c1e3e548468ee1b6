# SPDX-License-Identifier: GPL-2.0-only
"""Includes of C and C++ run one way: from the algorithms up to the Python modules, never back."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

#: What each folder may include beside itself.
BELOW = {
    "cc": set[str](),
    "world": {"cc"},
    "tcp": {"cc", "world"},
    "twin": {"cc", "world", "tcp"},
    "linux": {"cc", "world"},
    "ns3-scratch": {"cc", "world", "tcp"},
    "src/native": {"cc", "world", "tcp", "twin", "linux", "ns3-scratch"},
}
SUFFIXES = {".c", ".cc", ".cpp", ".def", ".h", ".hpp"}
INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]', re.MULTILINE)


def sources(folder: str) -> Iterator[Path]:
    return (path for path in (ROOT / folder).rglob("*") if path.suffix in SUFFIXES and path.is_file())


#: The folder of each file, by the name that an include path finds it by.
FOLDERS = {path.name: folder for folder in BELOW for path in sources(folder)}


def included_folders(text: str) -> set[str]:
    """Return the folders of our files that a text includes, by whatever path it names them."""
    names = (Path(include).name for include in INCLUDE.findall(text))
    return {FOLDERS[name] for name in names if name in FOLDERS}


@pytest.mark.parametrize("folder", BELOW)
def test_no_include_runs_back(folder: str) -> None:
    back = {
        str(path.relative_to(ROOT)): up
        for path in sources(folder)
        if (up := included_folders(path.read_text(encoding="utf-8")) - BELOW[folder] - {folder})
    }
    assert back == {}


def test_a_forbidden_include_would_be_seen() -> None:
    text = '#include <vector>\n#include "../tcp/sender.hpp"\n  #include "cc.h"\n#  include <engine.hpp>\n'
    assert included_folders(text) == {"tcp", "cc", "twin"}


def test_no_two_files_share_a_name() -> None:
    """An include path finds a file by its name, and so does this test."""
    names = [path.name for folder in BELOW for path in sources(folder)]
    assert len(names) == len(set(names))
