# SPDX-License-Identifier: GPL-2.0-only
"""Policies in integer arithmetic: Python's model and the C are equal in every bit, and decide as the agent does."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import compilers
import numpy as np
import pytest
import torch
from policies import FLAT, FREESTANDING, first_tunables, options_of, program, random_network, random_policy, run
from tiny import run as train
from torch import nn

import bbrgym
from bbrgym.agents.loading import load_agent
from bbrgym.agents.rollout import batch_of
from bbrgym.agents.deploy.export_agent import export
from bbrgym.agents.deploy.integer_policy import MAX_FIELD, Choice, IntegerController, IntegerPolicy, IntegerTunable
from bbrgym.agents.deploy.integer_tables import Q16, exp2, log2, tanh
from bbrgym.agents.deploy.policy_header import policy_header
from bbrgym.agents.deploy.quantise import quantise
from bbrgym.envs.tune_batch import TuneBatch

pytestmark = pytest.mark.usefixtures("undrawn_file")

KINDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "per flow": ({"stack": 3}, {}),
    "all tunables": ({"variant": "bbr-mix"}, {"activation": nn.ReLU}),
    "one bound": ({"variant": "bbr-pg", "tunables": ["pg_trand_high_us", "pg_tinterval_us"]}, {}),
    "relative": ({"action_kind": "relative", "max_change": 0.05, "stack": 2}, {}),
    "levels": (FLAT, {}),
    "pooled": ({"is_per_flow": False, "view": "pooled", "max_learners": 3, "stack": 2}, {}),
    "each": ({"is_per_flow": False, "max_learners": 2, "tunables": ["bbr_up_gain"]}, {}),
    "few features": ({"features": ["bw", "srtt"]}, {}),
    "memory": ({"features": "memory"}, {}),
    "memory of all flows": ({"is_per_flow": False, "view": "pooled", "max_learners": 3, "features": "memory"}, {}),
    "held": ({"features": "memory", "stack": 2, "hold_intervals": 3}, {}),
    "saturating": ({"stack": 2}, {"scale": 900.0, "activation": nn.ReLU}),
}

TOLERANCE = Q16 // 1000
"""Of a part: a thousandth of the tunable's range."""


def policy_of(kind: str) -> IntegerPolicy:
    arguments, how = KINDS[kind]
    return random_policy(options_of(**arguments), **how)


def wild_fields(policy: IntegerPolicy, steps: int) -> np.ndarray:
    """Measurements of all sizes, the largest and smallest numbers among them."""
    generator = np.random.default_rng(3)
    shape = (steps, policy.flows, len(policy.fields))
    sizes = np.exp2(generator.uniform(-1, 42, shape)).astype(np.int64)
    ends = np.array([0, 1, -1, MAX_FIELD, MAX_FIELD + 1, np.iinfo(np.int64).max, np.iinfo(np.int64).min])
    fields = np.where(generator.random(shape) < 0.2, generator.choice(ends, shape), sizes)
    for index, field in enumerate(policy.fields):
        if field.per_unit == 1 and field.source in ("active", "phase", "app_limited"):
            fields[:, :, index] = generator.integers(0, 18 if field.source == "phase" else 2, shape[:2])
    return fields


@pytest.mark.parametrize("kind", KINDS)
def test_the_c_equals_the_model_whatever_is_measured(kind: str, tmp_path: Path) -> None:
    policy = policy_of(kind)
    fields = wild_fields(policy, 300)
    flows = np.random.default_rng(4).integers(1, policy.flows + 1, len(fields))
    values, parts = run(program(policy, tmp_path), policy, first_tunables(policy), fields, flows)
    controller = IntegerController(policy, first_tunables(policy))
    for step, (row, count) in enumerate(zip(fields, flows, strict=True)):
        assert controller.decide(row[None, :count]).tolist() == [values[step].tolist()]
        assert controller.parts.tolist() == [parts[step].tolist()]
    assert len(np.unique(values, axis=0)) > 3, "it decides"


def test_wild_weights_do_saturate() -> None:
    policy = policy_of("saturating")
    numbers = np.full((1, policy.layers[0].weights.shape[1]), Q16)
    for layer in policy.layers[:-1]:
        numbers = layer.outputs(numbers)
    assert numbers.max() == 2**31 - 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("compiler", [c for c in ("gcc", "clang") if shutil.which(c)])
def test_the_header_is_freestanding(kind: str, compiler: str, tmp_path: Path) -> None:
    (tmp_path / "policy.h").write_text(policy_header(policy_of(kind)))
    unit = '#include "policy.h"\n#include "policy.h"\nvoid use(struct policy_state *);\n'
    (tmp_path / "unit.c").write_text(unit + "void use(struct policy_state *s) { policy_begin(s); policy_decide(s); }\n")
    flags = ["-ffreestanding", "-mgeneral-regs-only", "-c", str(tmp_path / "unit.c"), "-o", str(tmp_path / "unit.o")]
    subprocess.run([compiler, *FREESTANDING, *flags], check=True, timeout=compilers.PATIENCE_S)
    undefined = subprocess.run(
        ["nm", "-u", str(tmp_path / "unit.o")], capture_output=True, text=True, check=True, timeout=60
    )
    assert set(undefined.stdout.split()) <= {"U", "memset", "memcpy", "memmove"}


def test_the_same_agent_gives_the_same_bytes(tmp_path: Path) -> None:
    train(tmp_path / "run", total_steps=32)
    first, second = (export(tmp_path / "run", "c", output=tmp_path / name).read_bytes() for name in ("a.h", "b.h"))
    assert first == second


# ---- laws ---------------------------------------------------------------------------------------------


def test_functions_rise_and_are_near() -> None:
    x = np.unique(np.exp2(np.linspace(0, 40, 20_000)).astype(np.int64))
    assert (np.diff(log2(x)) >= 0).all()
    np.testing.assert_allclose(log2(x) / 2**20, np.log2(x), atol=4e-6)
    x = np.arange(0, 31 << 20, 997)
    assert (np.diff(exp2(x)) >= 0).all()
    np.testing.assert_allclose(exp2(x), np.exp2(x / 2**20), rtol=2e-6, atol=0.5)
    x = np.arange(-9 * Q16, 9 * Q16, 13)
    assert (np.diff(tanh(x)) >= 0).all()
    assert (tanh(-x) == -tanh(x)).all()
    straight_lines = 0.77 * (8 / 512) ** 2 / 8  # the largest curvature of tanh, times the square of a step
    np.testing.assert_allclose(tanh(x) / Q16, np.tanh(x / Q16), atol=straight_lines + 1.5 / Q16)


def test_features_rise_with_their_field_and_fall_with_what_divides_it() -> None:
    policy = policy_of("per flow")
    rising = np.unique(np.exp2(np.linspace(0, 41, 3000)).astype(np.int64))
    fields = np.full((len(rising), len(policy.fields)), 1000)
    for index, feature in enumerate(policy.features):
        if feature.scale == "within":
            continue
        for column, sign in ((feature.field, 1), (feature.per, -1)):
            if column >= 0:
                given = fields.copy()
                given[:, column] = rising
                found = policy.features_of(given)[:, index]
                assert (sign * np.diff(found) >= 0).all()
                assert 0 <= found.min() <= found.max() <= Q16


@pytest.mark.parametrize("kind", ["all tunables", "one bound"])
def test_tunables_rise_with_their_part_from_end_to_end(kind: str) -> None:
    policy = policy_of(kind)
    parts = np.tile(np.arange(0, Q16 + 1, 16)[:, None], (1, len(policy.tunables)))
    values, snapped = policy.snap(parts)
    assert (np.diff(values, axis=0) >= 0).all()
    for index, tunable in enumerate(policy.tunables):
        for value, end in ((values[0, index], tunable.low), (values[-1, index], tunable.high)):
            assert value == pytest.approx(end, rel=2e-6)
            assert tunable.low <= value <= tunable.high
    assert (policy.snap(snapped)[0] == values).all()


@pytest.mark.parametrize("kind", ["all tunables", "one bound", "per flow"])
def test_values_and_parts_are_the_environment_s(kind: str) -> None:
    options = options_of(**KINDS[kind][0])
    policy, scaling = policy_of(kind), batch_of(1, options).scaling
    coordinates = np.random.default_rng(1).uniform(-1, 1, (500, len(policy.tunables))).astype(np.float32)
    expected, middles = scaling.snap(coordinates)
    values, parts = policy.snap(np.rint((coordinates.astype(np.float64) + 1.0) * (Q16 / 2)).astype(np.int64))
    again, _ = policy.snap(policy.parts_of(values))
    for index, tunable in enumerate(policy.tunables):
        wanted = expected[:, index] * (Q16 if tunable.unit == "ratio" else 1)
        grain = grain_of(tunable, wanted)
        assert (np.abs(values[:, index] - wanted) <= grain).all()
        assert (np.abs(again[:, index] - values[:, index]) <= grain).all()
    assert np.abs(parts - (middles + 1.0) * (Q16 / 2)).max() < 2


def grain_of(tunable: IntegerTunable, values: np.ndarray) -> Any:
    """How far apart values are: a part of 1, and the rounding to whole ones."""
    if tunable.scale == "log":
        return 1 + values * (np.log(tunable.high / tunable.low) / Q16 + 5e-6)
    return 0 if tunable.scale == "whole" else 1 + (tunable.high - tunable.low) / Q16


# ---- decisions ----------------------------------------------------------------------------------------

AGENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "pooled": ("ppo", {}),
    "each": ("ppo", {"env": {"view": "each", "stack": 1}}),
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
    compare(trained, options, num_envs=8, steps=4)


def compare(agent: Any, options: Any, num_envs: int, steps: int) -> None:
    """In runs in which the agent acts; the model is given the coordinates that the environment has."""
    batch = batch_of(num_envs, options)
    assert isinstance(batch, TuneBatch)
    network = agent.network()
    policy = quantise(network, batch, options, agent.name)
    observations = batch.reset(range(num_envs), list(range(num_envs)))
    worlds = batch.worlds
    assert worlds is not None
    columns = [worlds.flow_fields.index(field.source) for field in policy.fields]
    controllers = [IntegerController(policy, first_tunables(policy)) for _ in range(num_envs)]
    for _ in range(steps):
        actions = agent.tuner(range(num_envs)).act(observations, np.ones(num_envs, np.bool_))
        with torch.no_grad():
            outputs = network.layers(torch.from_numpy(observations)).numpy()
        for index, controller in enumerate(controllers):
            spec = batch._specs[index]
            assert spec is not None
            fields = whole(policy, worlds.flow_stats[index][spec.learners][:, columns])
            current = batch._coordinates[index : index + 1]
            controller.parts = parts_at(current)
            values = controller.decide(fields[None])
            expected, reached = batch.action.apply(actions[index : index + 1], current)
            if isinstance(policy.head, Choice):
                taken = (policy.head.values == values).all(axis=1)
                assert outputs[index][taken].max() > outputs[index].max() - 1e-3
                continue
            np.testing.assert_allclose(controller.parts, parts_at(reached), atol=TOLERANCE)
            assert expected.shape == values.shape
        batch.simulate(actions)
        observations = batch.observe()
        if batch.has_ended.any():
            break
    batch.close()


def parts_at(coordinates: Any) -> np.ndarray:
    return np.rint((coordinates.astype(np.float64) + 1.0) * (Q16 / 2)).astype(np.int64)


def whole(policy: IntegerPolicy, fields: np.ndarray) -> np.ndarray:
    """Measurements in whole units, as world/policy.cpp rounds them."""
    return np.floor(fields * [field.per_unit for field in policy.fields] + 0.5).astype(np.int64)


# ---- errors -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("agent", "others", "says"),
    [
        ({"name": "ppo", "n_steps": 8, "batch_size": 32, "acts": "sample"}, {}, "samples or remembers, allowed"),
        ("recurrent_ppo", {}, "samples or remembers, allowed"),
        (
            "ppo",
            {"env": {"name": "multi", "view": "host"}},
            "view: 'host' needs the measurements of other flows, allowed",
        ),
        ("ppo", {"action": {"levels": 3}}, "allowed with format c are coordinates, and one number"),
        ("ppo", {"action": {**FLAT, "kind": "relative"}}, "allowed with format c are coordinates, and one number"),
    ],
)
def test_what_has_no_form_in_integers_is_said(agent: Any, others: Any, says: str, tmp_path: Path) -> None:
    train(tmp_path / "run", agent, total_steps=32, **others)
    with pytest.raises(bbrgym.ConfigError, match=says):
        export(tmp_path / "run", "c")


def test_a_network_of_other_layers_is_refused() -> None:
    options = options_of()
    network = random_network(options, activation=nn.GELU)
    with pytest.raises(bbrgym.ConfigError, match="has a layer GELU, allowed with format c are Linear, Tanh, ReLU"):
        quantise(network, batch_of(1, options), options, "mine")


def test_weights_that_are_too_large_are_refused() -> None:
    options = options_of()
    with pytest.raises(bbrgym.ConfigError, match="too large for format c"):
        quantise(random_network(options, scale=1e6), batch_of(1, options), options, "mine")
