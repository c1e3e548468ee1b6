# SPDX-License-Identifier: GPL-2.0-only
"""Every block of Python on a page runs: here, or in the test that is named for its page."""

import ast
import inspect
import re
import shlex
from pathlib import Path

import pytest

import bbrgym
from bbrgym.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "benchmarks/README.md", "ns3-scratch/README.md")]
PAGES += sorted((ROOT / "docs").glob("*.md"))
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
HERE = ("evaluation.md", "policies.md", "trace.md", "twin.md")
ELSEWHERE = {
    "README.md": "test_generated.py",
    "environments.md": "test_generated.py",
    "ns3gym.md": "test_ns3gym.py",
    "training.md": "test_tutorial.py",
    "tutorial.md": "test_tutorial.py",
    "vectors.md": "test_generated.py",
}


def blocks(page: str) -> list[str]:
    return BLOCK.findall((ROOT / "docs" / page).read_text(encoding="utf-8"))


def test_every_page_with_python_is_run() -> None:
    shown = {page.name for page in PAGES if BLOCK.search(page.read_text(encoding="utf-8"))}
    assert shown == {*HERE, *ELSEWHERE}
    for page, test in ELSEWHERE.items():
        assert f'"{page}"' in (ROOT / "tests" / "docs" / test).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", ["evaluation.md", "twin.md"])
def test_the_python_of_a_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for block in blocks(page):
        exec(block, {})


def test_the_python_of_the_page_on_traces_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the command before it, whose file it reads."""
    pytest.importorskip("matplotlib", reason="it draws the page's figure")
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "trace.md").read_text(encoding="utf-8")
    command = re.findall(r"^    bbrgym (trace .*)$", text[: text.index("```python")], re.MULTILINE)[-1]
    assert main(shlex.split(command)) == 0
    (tmp_path / "docs" / "figures").mkdir(parents=True)
    for block in blocks("trace.md"):
        exec(block, {})
    assert (tmp_path / "docs" / "figures" / "trace.png").stat().st_size > 10_000


def test_the_calls_on_the_page_on_policies_can_be_made() -> None:
    """With what tests/worlds and tests/linux compile."""
    for block in blocks("policies.md"):
        (call,) = (node for node in ast.walk(ast.parse(block)) if isinstance(node, ast.Call))
        keywords = {str(one.arg): ast.literal_eval(one.value) for one in call.keywords}
        bound = inspect.signature(bbrgym.make_world).bind(ast.literal_eval(call.args[0]), "steady", **keywords)
        assert set(bound.arguments["options"]) <= set(bbrgym.worlds.world_spec(bound.arguments["name"]).options)
