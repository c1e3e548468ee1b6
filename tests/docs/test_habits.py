# SPDX-License-Identifier: GPL-2.0-only
"""The page of habits shows every command of benchmarks/habits.yaml, as it was run."""

from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
ASKED: dict[str, Any] = yaml.safe_load((ROOT / "benchmarks" / "habits.yaml").read_text(encoding="utf-8"))
PAGE = (ROOT / "docs" / "habits.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("title", ASKED["parts"])
def test_a_part_shows_its_commands_with_what_they_printed(title: str) -> None:
    _, found, part = PAGE.partition(f"\n## {title}\n")
    assert found
    shown = part.partition("\n## ")[0]
    for habit in ASKED["parts"][title]:
        _, begun, output = shown.partition(f"{habit['name']}:\n\n```text\n$ {habit['command']}\n")
        assert begun, habit["command"]
        assert not output.startswith("```"), habit["command"]
