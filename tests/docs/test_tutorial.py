# SPDX-License-Identifier: GPL-2.0-only
"""The tutorial runs from beginning to end, shortened."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("stable_baselines3", reason="the tutorial trains with it")
pytest.importorskip("onnxscript", reason="the tutorial exports with it")

from bbrgym.cli.main import main

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"```(console|python)\n(.*?)```", re.DOTALL)

#: The same with less of everything.
SHORTER = {"total_steps": "200", "draws": "2"}
BRIEF = {
    "train": ("scenario.duration_s=3", "num_envs=2", "agent.n_steps=10", "agent.batch_size=20", "validation.draws=2"),
    "evaluate": ("scenario.duration_s=3",),
}


def shortened(command: str) -> list[str]:
    program, *words = shlex.split(command)
    assert program == "bbrgym"
    for name, value in SHORTER.items():
        words = [re.sub(rf"^{name}=.*", f"{name}={value}", word) for word in words]
    is_resumed = any(word.startswith("resume=") for word in words)
    return [*words, *(() if is_resumed else BRIEF.get(words[0], ()))]


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=240, check=False, cwd=cwd
    )


def test_the_tutorial_runs_from_its_beginning_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trainings draw their curve; figures of evaluations are drawn by tests/report/."""
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall((ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8"))
    assert [kind for kind, _ in blocks].count("console") >= 5
    for kind, text in blocks:
        if kind == "python":
            done = run("-W", "error", "-c", text, cwd=tmp_path)
            assert done.returncode == 0, done.stderr
        else:
            words = shortened(text)
            monkeypatch.setenv("BBRGYM_FIGURES", "all" if words[0] == "train" else "none")
            assert main(words) == 0, text
    assert (tmp_path / "runs" / "bbq-ppo" / "figures" / "curve.png").exists()
    assert (tmp_path / "runs" / "ranking" / "report.html").exists()
    assert (tmp_path / "runs" / "bbq-ppo" / "exported" / "ppo.onnx").exists()
