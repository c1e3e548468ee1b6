# SPDX-License-Identifier: GPL-2.0-only
"""The site holds all pages and every public name, and none of its links is broken."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import bbrgym

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site; a broken link, a page outside the navigation or a docstring that cannot be read fails it."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_every_page_is_there(site: Path) -> None:
    pages = {path.with_suffix(".html").name for path in (ROOT / "docs").glob("*.md")}
    assert pages | {"index.html", "changelog.html"} <= {path.name for path in site.iterdir()}


def test_every_public_name_is_described(site: Path) -> None:
    anchors = {
        found.rpartition(".")[2]
        for page in (site / "reference").glob("*.html")
        for found in re.findall(r'id="(bbrgym\.[\w.]+)"', page.read_text(encoding="utf-8"))
    }
    assert set(bbrgym.__all__) - {"envs"} <= anchors


def test_nothing_is_fetched(site: Path) -> None:
    loads = r'<(?:script|img|iframe)[^>]*src="(https?:[^"]*)|<link[^>]*rel="stylesheet"[^>]*href="(https?:[^"]*)'
    for page in site.rglob("*.html"):
        assert re.findall(loads, page.read_text(encoding="utf-8")) == [], page.name
