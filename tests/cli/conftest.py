# SPDX-License-Identifier: GPL-2.0-only
"""The command in this process, where all is imported already."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from bbrgym.cli.main import main


class Said(NamedTuple):
    """A command that has ended."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """The command, in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Said:
        try:
            code = main(list(arguments))
        except SystemExit as end:
            code = int(str(end.code))
        return Said(code, *capsys.readouterr())

    return run
