# SPDX-License-Identifier: GPL-2.0-only
"""Recipes of published learned controls: each trains by its command."""

from pathlib import Path

import pytest

from bbrgym.cli.main import main

FEW = {
    "aurora": ["agent.n_steps=8", "agent.batch_size=16"],
    "orca": ["agent.learning_starts=16", "agent.batch_size=8"],
    "astraea": ["agent.n_steps=8", "agent.batch_size=16"],
}


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("name", FEW)
def test_a_recipe_trains(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    few = [
        "total_steps=64",
        "num_envs=2",
        "validation.draws=1",
        "scenario.duration_s=6",
        "scenario.warmup_s=1",
        "output_dir=out",
        *FEW[name],
    ]
    assert main(["train", f"experiment={name}", *few]) == 0
    assert (tmp_path / "out" / "checkpoints" / "best.pt").exists()
