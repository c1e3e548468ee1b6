# SPDX-License-Identifier: GPL-2.0-only
"""Every block of Python on a page runs: here, or with the tutorial (test_tutorial.py)."""

import ast
import inspect
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from pages import PAGES
from repository import ROOT

import bbrgym
from bbrgym.cli.main import main

BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
TUTORIAL = "tutorial.md"
TRACE = "matplotlib"  # in the block of the page on traces that reads the file of a command
POLICY = 'options={"policy"'  # in a block that needs a compiled policy
NS3GYM = "from ns3gym import"  # in the block that shows ns3-gym's own way
BLOCKS = [
    pytest.param(block, id=f"{page.stem}-{number}")
    for page in PAGES
    for number, block in enumerate(BLOCK.findall(page.read_text(encoding="utf-8")))
    if page.name != TUTORIAL and not any(mark in block for mark in (TRACE, POLICY, NS3GYM))
]


@pytest.fixture
def with_bbrgym(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command `bbrgym`, also where the package is not installed."""
    command = tmp_path / "bbrgym"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m bbrgym "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")


@pytest.mark.slow
@pytest.mark.usefixtures("with_bbrgym")
@pytest.mark.parametrize("block", BLOCKS)
def test_the_python_of_a_page_runs(block: str, tmp_path: Path) -> None:
    for module in ("stable_baselines3", "pettingzoo"):
        if module in block or (module == "pettingzoo" and "envs.multi" in block):
            pytest.importorskip(module)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", block],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr


def test_the_readme_s_python_is_short() -> None:
    (block,) = BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))
    assert 8 <= len(block.strip().splitlines()) <= 14


@pytest.mark.slow
def test_the_python_of_the_page_on_traces_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the command before it, whose file it reads."""
    pytest.importorskip("matplotlib", reason="it draws the page's figure")
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "trace.md").read_text(encoding="utf-8")
    command = re.findall(r"^    bbrgym (trace .*)$", text[: text.index("```python")], re.MULTILINE)[-1]
    assert main(shlex.split(command)) == 0
    (block,) = (block for block in BLOCK.findall(text) if TRACE in block)
    exec(block, {})
    assert (tmp_path / "trace.png").stat().st_size > 10_000


def test_the_calls_with_a_policy_can_be_made() -> None:
    """With what tests/worlds and tests/linux compile."""
    text = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
    blocks = [block for block in BLOCK.findall(text) if POLICY in block]
    assert len(blocks) == 2
    for block in blocks:
        (call,) = (node for node in ast.walk(ast.parse(block)) if isinstance(node, ast.Call))
        keywords = {str(one.arg): ast.literal_eval(one.value) for one in call.keywords}
        bound = inspect.signature(bbrgym.make_world).bind(ast.literal_eval(call.args[0]), "steady", **keywords)
        assert set(bound.arguments["options"]) <= set(bbrgym.worlds.world_spec(bound.arguments["name"]).options)
