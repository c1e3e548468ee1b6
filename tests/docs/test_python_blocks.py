# SPDX-License-Identifier: GPL-2.0-only
"""The blocks of Python that need more than test_first_pages.py has."""

import ast
import inspect
import re
import shlex
from pathlib import Path

import pytest
from repository import ROOT

import bbrgym
from bbrgym.cli.main import main

BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
TRACE = "matplotlib"  # in the block of the page on traces that reads the file of a command
POLICY = 'options={"policy"'  # in a block that needs a compiled policy


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
