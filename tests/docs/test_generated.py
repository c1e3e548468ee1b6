# SPDX-License-Identifier: GPL-2.0-only
"""The generated pages are those of this code, and what pages point at exists."""

import dataclasses
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bbrgym.envs.observation import FEATURES, SOURCES
from bbrgym.envs.options import Options
from bbrgym.envs.terms import TERMS
from bbrgym.targets import shipped_names
from bbrgym.tunables import TUNABLES

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG")]
PAGES += [ROOT / folder / "README.md" for folder in ("benchmarks", "ns3-scratch")]
PAGES += sorted((ROOT / "docs").glob("*.md"))


def python(*arguments: str, cwd: Path = ROOT) -> str:
    """Run Python, which must succeed; return its output."""
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=240, check=False, cwd=cwd
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_generated_pages_do_not_drift() -> None:
    python("docs/generate.py", "--check")


def test_a_feature_without_a_source_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs")
    environments = importlib.import_module("environments")
    sources = {name: text for name, text in SOURCES.items() if name != "bw_mbps"}
    with pytest.raises(SystemExit, match="feature bw: field bw_mbps has no row in SOURCES"):
        environments.features_table(FEATURES, sources)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("index", range(5))
def test_the_python_of_many_environments_runs(tmp_path: Path, index: int) -> None:
    codes = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "vectors.md").read_text(encoding="utf-8"), re.DOTALL)
    assert len(codes) == 5
    if "stable_baselines3" in codes[index]:
        pytest.importorskip("stable_baselines3")
    python("-W", "error", "-c", codes[index], cwd=tmp_path)


def test_the_python_of_the_environments_page_runs(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "environments.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    python("-W", "error", "-c", code, cwd=tmp_path)


def test_every_environment_argument_preset_term_and_feature_has_a_row() -> None:
    text = (ROOT / "docs" / "environments.md").read_text(encoding="utf-8")
    names = [field.name for field in dataclasses.fields(Options)] + [feature.name for feature in FEATURES]
    for name in [
        *names,
        *shipped_names("reward"),
        *TERMS,
        *TUNABLES,
        "num_envs",
        "num_worlds",
        "reward_scope",
        "full_infos",
    ]:
        row = next(line for line in text.splitlines() if f"| `{name}` |" in line)
        assert "|  |" not in row or name in TUNABLES


def test_the_readme_s_python_runs(tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert 8 <= len(code.strip().splitlines()) <= 14
    assert python("-c", code, cwd=tmp_path)
