# SPDX-License-Identifier: GPL-2.0-only
"""What the page on ns3-gym says can be done."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "ns3gym.md").read_text(encoding="utf-8")


@pytest.fixture
def with_bbrgym(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command `bbrgym`, also where the package is not installed."""
    command = tmp_path / "bbrgym"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m bbrgym "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")


@pytest.mark.usefixtures("with_bbrgym")
def test_the_script_after_runs(tmp_path: Path) -> None:
    before, after = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    assert "from ns3gym import ns3env" in before
    assert "bbrgym/Ns3Gym-v0" in after
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", after + "\nprint(truncated, info['seed'], info['now_s'])"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"True 12 \d+\.0\n", done.stdout)
