# SPDX-License-Identifier: GPL-2.0-only
"""An evaluation loads what it needs: presets are run without environments and agents."""

import subprocess
import sys
from pathlib import Path

import pytest

LOADED = """
import sys
from bbrgym.cli.main import main
short = ["scenario=steady", "scenario.duration_s=1", "scenario.warmup_s=0"]
code = main(["evaluate", *short, "world=twin", "variants=[bbr]", "seeds=[1]", f"output_dir={sys.argv[1]}"])
loaded = sorted(name for name in sys.modules if name.startswith(("bbrgym.agents", "bbrgym.envs")))
sys.stderr.write(f"{code} {loaded}")
"""


@pytest.mark.usefixtures("undrawn")
def test_an_evaluation_of_a_preset_loads_no_agent(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LOADED, str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.stderr.endswith("0 ['bbrgym.envs']"), done.stderr  # which registers the environments, and nothing else
