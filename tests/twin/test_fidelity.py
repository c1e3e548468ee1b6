# SPDX-License-Identifier: GPL-2.0-only
"""A small part of benchmarks/fidelity.py's matrix, and that the benchmark distinguishes agreement from the rest."""

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from bbrgym.evaluate.world_gap import METRICS, Difference
from bbrgym.scenario.files import load_scenario, read_scenario

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
SCENARIOS = ("rtts", "loss", "codel")
CCS = ("bbr", "cubic")
SEEDS = (1, 2)


@pytest.fixture
def fidelity(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("fidelity")


def shortened(name: str) -> dict[str, Any]:
    return {**read_scenario(BENCHMARKS / "fidelity" / f"{name}.yaml"), "duration_s": 15.0, "warmup_s": 5.0}


def test_a_small_matrix_agrees(fidelity: ModuleType, tmp_path: Path) -> None:
    scenarios = {name: shortened(name) for name in SCENARIOS}
    cells = fidelity.measure(scenarios, CCS, SEEDS, tmp_path, 2)
    assert [(cell.scenario, cell.cc) for cell in cells] == [(name, cc) for name in SCENARIOS for cc in CCS]
    assert [(cell.scenario, cell.cc, cell.differences) for cell in cells if not cell.agrees] == []


def test_every_scenario_of_the_matrix_is_valid_and_compares_like_with_like(fidelity: ModuleType) -> None:
    assert len(fidelity.scenario_names()) >= 8
    assert len(fidelity.CCS) >= 8
    for name in fidelity.scenario_names():
        scenario = load_scenario(BENCHMARKS / "fidelity" / f"{name}.yaml")
        assert scenario.stack.preset == "ns3", name
        assert any(flow.role == "tuned" for flow in scenario.flows), name


def cell(fidelity: ModuleType, scenario: str, cc: str, jain: float = 1.0) -> Any:
    return fidelity.Cell(scenario, cc, [Difference(metric, None, 1.0, jain) for metric in METRICS])


def test_fewer_than_required_are_too_few_and_shown(fidelity: ModuleType) -> None:
    good, bad = cell(fidelity, "red", "bbr"), cell(fidelity, "red", "cubic", jain=0.5)
    assert fidelity.is_enough([good] * 19 + [bad])
    assert not fidelity.is_enough([good] * 18 + [bad])
    assert "**19 of 20 cells agree** (95.0%)" in fidelity.section_of([good] * 19 + [bad])
    assert "| red | `cubic` | **" in fidelity.section_of([good] * 19 + [bad])
    assert "|" not in fidelity.section_of([good])
