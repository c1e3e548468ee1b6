# SPDX-License-Identifier: GPL-2.0-only
"""Policies in C decide as the agent does, whatever is measured, and compile for every target."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import compilers
import numpy as np
import pytest
import torch
from compiled_policies import FREESTANDING, CompiledPolicy, Controller, sanitized
from policies import (
    FLAT,
    in_whole_units,
    options_of,
    positions_at,
    random_network,
    random_policy,
    random_portfolio,
    wild_fields,
    write_header,
)
from tiny import run as train
from torch import nn

import bbrgym
from bbrgym.agents.deploy.bpf_object import bpf_object
from bbrgym.agents.deploy.export_agent import export, integer_form
from bbrgym.agents.deploy.fixed_point import Q16
from bbrgym.agents.deploy.integer_policy import Choice, IntegerPolicy, IntegerTunable
from bbrgym.agents.deploy.policy_file import policy_file, read_policy
from bbrgym.agents.deploy.policy_header import policy_header
from bbrgym.agents.deploy.quantise import quantise
from bbrgym.agents.loading import load_agent
from bbrgym.agents.rollout import batch_of
from bbrgym.agents.shipped import POLICY, SHIPPED
from bbrgym.envs.memory import FlowMemory
from bbrgym.envs.tune_batch import TuneBatch

SOURCES = Path(__file__).resolve().parents[3] / "agents"
pytestmark = pytest.mark.usefixtures("undrawn_file")

KINDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "per flow": ({"frame_stack": 3}, {}),
    "all tunables": ({"variant": "bbr-mix"}, {"activation": nn.ReLU}),
    "one bound": ({"variant": "bbr-pg", "tunables": ["pg_trand_high_us", "pg_tinterval_us"]}, {}),
    "relative": ({"action_kind": "relative", "max_change": 0.05, "frame_stack": 2}, {}),
    "levels": (FLAT, {}),
    "pooled": ({"is_per_flow": False, "view": "pooled", "max_tuned": 3, "frame_stack": 2}, {}),
    "each": ({"is_per_flow": False, "max_tuned": 2, "tunables": ["bbr_up_gain"]}, {}),
    "memory": ({"features": "memory"}, {}),
    "path": ({"variant": "bbr-mix", "features": "path"}, {}),
    "memory of all flows": ({"is_per_flow": False, "view": "pooled", "max_tuned": 3, "features": "memory"}, {}),
    "held": ({"features": "memory", "frame_stack": 2, "hold_intervals": 3}, {}),
    "saturating": ({"frame_stack": 2}, {"scale": 900.0, "activation": nn.ReLU}),
}
PORTFOLIOS: dict[str, dict[str, Any]] = {
    "portfolio": {"flows": 2},
    "portfolio that reselects": {"flows": 2, "intervals": 3, "pause": 1},
}

TOLERANCE = Q16 // 1000
"""Of a position: a thousandth of the tunable's range."""


def policy_of(kind: str) -> IntegerPolicy:
    if kind in PORTFOLIOS:
        return random_portfolio(**PORTFOLIOS[kind])
    arguments, how = KINDS[kind]
    return random_policy(options_of(**arguments), **how)


@pytest.mark.parametrize("kind", [one for one in (*KINDS, *PORTFOLIOS) if one != "memory"])
def test_decisions_are_defined_whatever_is_measured(kind: str, tmp_path: Path) -> None:
    policy = policy_of(kind)
    fields, flows = wild_fields(policy, 300)
    controller = Controller(CompiledPolicy(policy, tmp_path))
    values = np.array([controller.decide(row[:count]) for row, count in zip(fields, flows, strict=True)])
    if kind == "saturating":
        assert controller["layers"].max() == 2**31 - 1
    np.testing.assert_array_equal(sanitized(policy, tmp_path, fields, flows), values)
    assert len(np.unique(values, axis=0)) > (1 if kind in PORTFOLIOS else 3), "it decides"
    for tunable, column in zip(policy.tunables, values.T, strict=True):
        assert tunable.low <= column.min() <= column.max() <= tunable.high


@pytest.mark.parametrize("kind", ["per flow", "levels", "memory of all flows", "path", *PORTFOLIOS])
@pytest.mark.parametrize("compiler", [c for c in ("gcc", "clang") if shutil.which(c)])
def test_the_header_is_freestanding(kind: str, compiler: str, tmp_path: Path) -> None:
    write_header(policy_of(kind), tmp_path / "policy.h")
    unit = '#include "policy.h"\n#include "policy.h"\nvoid use(struct policy_state *);\n'
    (tmp_path / "unit.c").write_text(unit + "void use(struct policy_state *s) { policy_begin(s); policy_decide(s); }\n")
    flags = ["-ffreestanding", "-mgeneral-regs-only", "-c", str(tmp_path / "unit.c"), "-o", str(tmp_path / "unit.o")]
    subprocess.run([compiler, *FREESTANDING, *flags], check=True, timeout=compilers.PATIENCE_S)
    undefined = subprocess.run(
        ["nm", "-u", str(tmp_path / "unit.o")], capture_output=True, text=True, check=True, timeout=60
    )
    assert set(undefined.stdout.split()) <= {"U", "memset", "memcpy", "memmove"}


# ---- laws ---------------------------------------------------------------------------------------------


def test_functions_rise_and_are_near(tmp_path: Path) -> None:
    compiled = CompiledPolicy(policy_of("per flow"), tmp_path)
    x = np.unique(np.exp2(np.linspace(0, 40, 20_000)).astype(np.int64))
    found = compiled.function("log_2", x)
    assert (np.diff(found) >= 0).all()
    np.testing.assert_allclose(found / 2**20, np.log2(x), atol=4e-6)
    x = np.arange(0, 31 << 20, 997)
    found = compiled.function("power_of_2", x)
    assert (np.diff(found) >= 0).all()
    np.testing.assert_allclose(found, np.exp2(x / 2**20), rtol=2e-6, atol=0.5)
    x = np.arange(-9 * Q16, 9 * Q16, 13)
    found = compiled.function("tanh_q16", x)
    assert (np.diff(found) >= 0).all()
    assert (compiled.function("tanh_q16", -x) == -found).all()
    straight_lines = 0.77 * (8 / 512) ** 2 / 8  # the largest curvature of tanh, times the square of a step
    np.testing.assert_allclose(found / Q16, np.tanh(x / Q16), atol=straight_lines + 1.5 / Q16)


@pytest.mark.parametrize("kind", ["memory", "path"])
def test_what_is_remembered_is_the_environment_s(kind: str, tmp_path: Path) -> None:
    policy = policy_of(kind)
    names = [field.source for field in policy.fields]
    remembered = batch_of(1, options_of(**KINDS[kind][0])).observation.memory_terms
    expected = FlowMemory(remembered, names, policy.interval_us / 1e6, (1, 1))
    places = [expected.fields.index(str(one)) for one in remembered]
    digits = np.array([row.digits for row in policy.memory])
    assert kind != "path" or {"low", "high", "ewma"} < {one.kind for one in remembered}
    units = [1e6 if one.kind == "seconds" else 1.0 for one in remembered] * 2.0**digits
    controller, generator = Controller(CompiledPolicy(policy, tmp_path)), np.random.default_rng(6)
    sizes = [22 if name.endswith("_pkts") else 30 for name in names]  # log2; larger means of packets saturate
    for _ in range(200):
        fields = np.exp2(generator.uniform(0, sizes)).astype(np.int64) * (generator.random(len(names)) < 0.8)
        controller.decide(fields[None])
        expected.add(fields[:, None].astype(np.float64))
        wanted = expected.extend(fields[:, None].astype(np.float64))[places, 0] * units
        np.testing.assert_allclose(controller["remembered"], wanted, rtol=1e-4, atol=1)


def test_the_first_of_equal_outputs_is_taken(tmp_path: Path) -> None:
    controller = Controller(CompiledPolicy(policy_of("levels"), tmp_path))
    for outputs, best in (([1, 2, 2, 1], 1), ([-5, -5, -5, -7], 0), ([0, 0, 0, 1], 3)):
        controller["layers"][:] = -9
        controller["layers"][:4] = outputs
        assert controller.call("best") == best


def set_at(controller: Controller, positions: Any) -> tuple[Any, Any]:
    """Tunables at positions, and the positions then: [N, tunables] all."""
    reached = []
    for row in positions:
        controller["positions"][:] = row
        controller.call("set_tunables")
        reached.append((controller["tunables"].copy(), controller["positions"].copy()))
    values, snapped = zip(*reached, strict=True)
    return np.array(values), np.array(snapped)


@pytest.mark.parametrize("kind", ["all tunables", "one bound"])
def test_tunables_rise_with_their_position_from_end_to_end(kind: str, tmp_path: Path) -> None:
    policy = policy_of(kind)
    controller = Controller(CompiledPolicy(policy, tmp_path))
    positions = np.tile(np.arange(0, Q16 + 1, 16)[:, None], (1, len(policy.tunables)))
    values, snapped = set_at(controller, positions)
    assert (np.diff(values, axis=0) >= 0).all()
    for index, tunable in enumerate(policy.tunables):
        for value, end in ((values[0, index], tunable.low), (values[-1, index], tunable.high)):
            assert value == pytest.approx(end, rel=2e-6)
            assert tunable.low <= value <= tunable.high
    assert (set_at(controller, snapped)[0] == values).all()


@pytest.mark.parametrize("kind", ["all tunables", "one bound", "per flow"])
def test_values_and_positions_are_the_environment_s(kind: str, tmp_path: Path) -> None:
    policy, scaling = policy_of(kind), batch_of(1, options_of(**KINDS[kind][0])).scaling
    compiled = CompiledPolicy(policy, tmp_path)
    normalised = np.random.default_rng(1).uniform(-1, 1, (500, len(policy.tunables))).astype(np.float32)
    expected, middles = scaling.snap(normalised)
    values, positions = set_at(Controller(compiled), positions_at(normalised))
    found_again = np.array([Controller(compiled, row)["positions"] for row in values])
    again, _ = set_at(Controller(compiled), found_again)
    for index, tunable in enumerate(policy.tunables):
        wanted = expected[:, index] * tunable.per_unit
        grain = grain_of(tunable, wanted)
        assert (np.abs(values[:, index] - wanted) <= grain).all()
        assert (np.abs(again[:, index] - values[:, index]) <= grain).all()
    assert np.abs(positions - (middles + 1.0) * (Q16 / 2)).max() < 2


def grain_of(tunable: IntegerTunable, values: np.ndarray) -> Any:
    """Distance of values whose positions differ by 1, and the rounding to whole ones."""
    if tunable.scale == "log":
        return 1 + values * (np.log(tunable.high / tunable.low) / Q16 + 5e-6)
    return 0 if tunable.scale == "whole" else 1 + (tunable.high - tunable.low) / Q16


# ---- decisions ----------------------------------------------------------------------------------------

AGENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "pooled": ("ppo", {}),
    "each": ("ppo", {"env": {"view": "each", "frame_stack": 1}}),
    "relative": ("ppo", {"action": {"kind": "relative", "max_change": 0.05}}),
    "levels": ("ppo", {"action": FLAT}),
    "torch": ("torch_ppo", {"variant": "bbr-mix"}),
    "sac": ("sac", {}),
    "dqn": ("dqn", {}),
    "memory": ("ppo", {"observation": "memory"}),
}


@pytest.mark.parametrize("kind", AGENTS)
def test_decisions_are_the_agent_s(kind: str, tmp_path: Path) -> None:
    agent, others = AGENTS[kind]
    train(tmp_path / "run", agent, total_steps=96, **others)
    trained, arguments = load_agent(tmp_path / "run")
    options = options_of(is_per_flow=False, **{**arguments, "world": "twin"})
    compare(trained, options, tmp_path, num_envs=8, steps=4)


def compare(agent: Any, options: Any, folder: Path, num_envs: int, steps: int) -> None:
    """In runs in which the agent acts; the policy is given the normalised that the environment has."""
    batch = batch_of(num_envs, options)
    assert isinstance(batch, TuneBatch)
    network = agent.network()
    policy = quantise(network, batch, options, agent.name)
    observations = batch.reset(range(num_envs), list(range(num_envs)))
    worlds = batch.episodes.worlds
    assert worlds is not None
    columns = [worlds.flow_fields.index(field.source) for field in policy.fields]
    compiled = CompiledPolicy(policy, folder)
    controllers = [Controller(compiled) for _ in range(num_envs)]
    for _ in range(steps):
        actions = agent.make_policy(range(num_envs)).act(observations, np.ones(num_envs, np.bool_))
        with torch.no_grad():
            outputs = network.layers(torch.from_numpy(observations)).numpy()
        for index, controller in enumerate(controllers):
            spec = batch.episodes._specs[index]
            assert spec is not None
            current = batch._normalised[index : index + 1]
            controller["positions"][:] = positions_at(current)[0]
            values = controller.decide(in_whole_units(policy, worlds.flow_stats[index][spec.tuned][:, columns]))
            np.testing.assert_allclose(controller["inputs"] / Q16, observations[index], atol=1e-4)
            _, reached = batch.action.apply(actions[index : index + 1], current)
            if isinstance(policy.head, Choice):
                taken = (policy.head.values == values).all(axis=1)
                assert outputs[index][taken].max() > outputs[index].max() - 1e-3
                continue
            np.testing.assert_allclose(controller["positions"], positions_at(reached)[0], atol=TOLERANCE)
        batch.simulate(actions)
        observations = batch.observe()
        if batch.episodes.has_ended.any():
            break
    batch.episodes.close()


# ---- errors -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("agent", "others", "says"),
    [
        ({"name": "ppo", "n_steps": 8, "batch_size": 32, "acts": "sample"}, {}, "samples or remembers, allowed"),
        ("recurrent_ppo", {}, "samples or remembers, allowed"),
        ("ppo", {"action": {"levels": 3}}, "allowed with format c are normalised actions, and"),
        (
            "ppo",
            {"action": {**FLAT, "kind": "relative"}},
            "allowed with format c are normalised actions, and",
        ),
    ],
)
def test_what_has_no_form_in_integers_is_said(agent: Any, others: Any, says: str, tmp_path: Path) -> None:
    train(tmp_path / "run", agent, total_steps=32, **others)
    with pytest.raises(bbrgym.ConfigError, match=says):
        export(tmp_path / "run", "c")


def test_a_policy_in_bpf_is_of_one_flow_and_needs_clang(monkeypatch: pytest.MonkeyPatch) -> None:
    for_all = random_policy(options_of(is_per_flow=False, max_tuned=2, tunables=["bbr_up_gain"]))
    with pytest.raises(bbrgym.ConfigError, match="acts for all tuned flows, of which a socket knows one, allowed with"):
        bpf_object(for_all)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(bbrgym.ConfigError, match="format bpf: needs clang, 14 or later, which is not in the PATH"):
        bpf_object(random_policy(options_of()))


def test_the_integer_form_of_a_shipped_agent_is_its_export() -> None:
    shipped = {name: folder / POLICY for name, folder in SHIPPED.items() if (folder / POLICY).exists()}
    assert list(shipped) == ["shipped/flow"]
    for name, file in shipped.items():
        exported = policy_header(integer_form(*load_agent(SHIPPED[name])))
        assert policy_header(read_policy(file)) == exported, f"python -m bbrgym.agents.shipped writes {name}"


@pytest.mark.parametrize("kind", ["pooled", "memory", "levels", "path", "portfolio that reselects"])
def test_the_build_writes_the_header_of_a_policy_without_pytorch(kind: str, tmp_path: Path) -> None:
    policy = policy_of(kind)
    (tmp_path / "policy.npz").write_bytes(policy_file(policy))
    forbidden = "import sys; sys.modules['torch'] = sys.modules['bbrgym'] = None; import runpy; "
    program = forbidden + "runpy.run_module('deploy.policy_file', run_name='__main__')"
    command = [sys.executable, "-c", program, str(tmp_path / "policy.npz"), str(tmp_path / "policy.h")]
    subprocess.run(command, cwd=SOURCES, check=True, timeout=120)
    assert (tmp_path / "policy.h").read_text(encoding="utf-8") == policy_header(policy)


def test_a_network_of_other_layers_is_refused() -> None:
    options = options_of()
    network = random_network(options, activation=nn.GELU)
    with pytest.raises(bbrgym.ConfigError, match="has a layer GELU, allowed with format c are Linear, Tanh, ReLU"):
        quantise(network, batch_of(1, options), options, "mine")


def test_weights_that_are_too_large_are_refused() -> None:
    options = options_of()
    with pytest.raises(bbrgym.ConfigError, match="too large for format c"):
        quantise(random_network(options, scale=1e6), batch_of(1, options), options, "mine")
