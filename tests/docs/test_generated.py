# SPDX-License-Identifier: GPL-2.0-only
"""The generated pages are those of this code, and what pages point at exists."""

import dataclasses
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bbrgym.envs.observation import FEATURES
from bbrgym.envs.options import Options
from bbrgym.envs.terms import TERMS
from bbrgym.targets import shipped_names
from bbrgym.tunables import TUNABLES

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md")])


def test_generated_pages_do_not_drift() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "generate.py"), "--check"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


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
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", codes[index]],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr


def test_the_python_of_the_environments_page_runs(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "environments.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr


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
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=240, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
