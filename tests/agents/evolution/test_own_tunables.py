# SPDX-License-Identifier: GPL-2.0-only
"""benchmarks/own_tunables.py on trainings of a second."""

import argparse
import importlib
from pathlib import Path

import pytest
from tiny import asked, run

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def benchmark(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("own_tunables")


def test_a_rule_is_compared_with_the_published_and_the_fixed_setting(benchmark, tmp_path):
    agent = {"name": "evolution", "policies": 4, "draws": 3, "policy": "fixed"}
    env = {"env": {"name": "multi", "control_interval_s": 0.25}, "observation": "path", "total_steps": 400}
    alone = {**env, "action": {"tunables": ["bbq_alpha_us"]}}
    run(tmp_path / "fixed", agent, **alone)
    run(tmp_path / "rule", {**agent, "policy": "modes", "start": str(tmp_path / "fixed")}, **alone)
    asked_for = argparse.Namespace(world="twin", draws=10, first_draw=0)
    variant, tunables, *gains = benchmark.row(tmp_path / "rule", asked_for)
    assert (variant, tunables) == (asked()["variant"], "bbq_alpha_us")
    assert all("[" in gain for gain in gains)
