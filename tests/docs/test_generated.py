# SPDX-License-Identifier: GPL-2.0-only
"""The generated parts of pages are those of this code, what pages point at exists, and old figures are named."""

import dataclasses
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pages import PAGES as PLAIN_PAGES
from repository import ROOT

from bbrgym.envs.observation import FEATURES, SOURCES
from bbrgym.envs.options import Options
from bbrgym.envs.terms import TERMS
from bbrgym.evaluate.behaviour import behaviour_digest, behaviour_mark
from bbrgym.targets import shipped_names
from bbrgym.tunables import TUNABLES, VARIANTS

PAGES = [*PLAIN_PAGES, ROOT / "CHANGELOG.md"]


def test_generated_parts_do_not_drift() -> None:
    done = subprocess.run(
        [sys.executable, "docs/generate.py", "--check"],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr


def test_a_feature_without_a_source_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs")
    environments = importlib.import_module("environments")
    sources = {name: text for name, text in SOURCES.items() if name != "bw_mbps"}
    with pytest.raises(SystemExit, match="field bw_mbps has no row in SOURCES"):
        environments.sources_table(FEATURES, sources)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("environments", [field.name for field in dataclasses.fields(Options)]),
        ("environments", [*(feature.name for feature in FEATURES), *TERMS, *shipped_names("reward")]),
        ("environments", ["num_envs", "num_worlds", "reward_scope", "full_infos"]),
        ("variants", [*TUNABLES, *VARIANTS]),
    ],
    ids=["arguments", "features, terms and presets", "arguments of vectors", "tunables and variants"],
)
def test_every_name_has_a_row(page: str, names: list[str]) -> None:
    lines = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8").splitlines()
    rows = {line.split("`")[1] for line in lines if line.startswith("| `")}
    assert set(names) <= rows


def test_the_pages_are_few_and_short() -> None:
    pages = sorted((ROOT / "docs").glob("*.md"))
    assert len(pages) <= 15
    assert sum(len(page.read_text(encoding="utf-8").split()) for page in PAGES) <= 45_000
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150


def test_figures_whose_behaviour_changed_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs")
    stale = importlib.import_module("stale")
    of = "steady wan_mix / bbr shipped/fixed"
    page = tmp_path / "page.md"
    marks = [behaviour_mark(of), f"<!-- measured 0123456789: {of} -->", "<!-- measured 0123456789: steady / bbx -->"]
    page.write_text("\n".join(f"{mark}\n`python {i}.py`" for i, mark in enumerate(marks)), encoding="utf-8")
    changed, unknown = stale.stale_figures(page)
    assert changed == f"page.md: python 1.py: behaviour changed ({of})"
    assert unknown.startswith("page.md: python 2.py: cannot be checked: agent: is 'bbx'; ")


def test_a_digest_changes_with_the_behaviour_alone() -> None:
    first = behaviour_digest("steady / bbr")
    assert behaviour_digest("steady / bbr") == first != behaviour_digest("steady / bbr2")
