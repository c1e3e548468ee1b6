# SPDX-License-Identifier: GPL-2.0-only
"""A portfolio in integer arithmetic probes, chooses and holds as the agent does, and as the C does to the bit."""

from __future__ import annotations

import itertools
import subprocess
from pathlib import Path
from typing import Any

import compilers
import numpy as np
import pytest
import torch
from policies import FREESTANDING, first_tunables, program, random_portfolio, run, shared_object
from tiny import SCENARIO, asked

import bbrgym
from bbrgym.agents.loading import load_agent
from bbrgym.agents.portfolio.policy import PortfolioAgent
from bbrgym.agents.deploy.quantise_portfolio import quantise_portfolio
from bbrgym.agents.portfolio.tree_selector import TreeSelector
from bbrgym.agents.rollout import batch_of, options_for
from bbrgym.agents.deploy.export_agent import export
from bbrgym.agents.deploy.integer_policy import IntegerController, IntegerPolicy
from bbrgym.agents.deploy.policy_header import policy_header
from bbrgym.agents.deploy.scalar_program import MOST, ONE, traced
from bbrgym.agents.training.train_agent import train
from bbrgym.envs.flow_batch import FlowBatch
from bbrgym.envs.tune_batch import TuneBatch
from bbrgym.scenario.distribution import load_distribution
from bbrgym.scenario.files import with_variant

pytestmark = pytest.mark.usefixtures("undrawn_file")

AGENT: dict[str, Any] = {
    "name": "portfolio",
    "library_size": 4,
    "search_trials": 6,
    "search_runs": 1,
    "probe_s": 1.0,
    "probe": {"bbr_cwnd_gain": 1.24},
    "fit": {"hidden": [8, 6], "members": 3, "epochs": 3, "folds": 2},
    "change": {"ratio": 1.5, "window_s": 0.4},
    "guard": {"share": 0.3},
}
AGAIN: dict[str, Any] = {"again_share": 0.2, "probe_s": 1.5}
KINDS: dict[str, dict[str, Any]] = {
    "networks": {},
    "networks that look again": AGAIN,
    "trees": {"fit": {"model": "trees", "trees": 7, "leaf_draws": 1, "folds": 2}},
    "trees that look again": {**AGAIN, "fit": {"model": "trees", "trees": 7, "leaf_draws": 1, "folds": 2}},
}
LONG = {
    **SCENARIO,
    "duration_s": 6.0,
    "link": {**SCENARIO["link"], "changes": [{"at_s": 2.5, "rate_mbps": 20.0}]},
}


@pytest.fixture(scope="module", params=KINDS)
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if "trees" in request.param:
        pytest.importorskip("sklearn", reason="NO SCIKIT-LEARN: agent.fit.model=trees; pip install '.[trees]'")
    folder = tmp_path_factory.mktemp("portfolio") / "run"
    train(output_dir=folder, **asked({**AGENT, **KINDS[request.param]}, total_steps=9000, scenario=LONG))
    return folder


@pytest.fixture(scope="module")
def parts(trained: Path) -> tuple[PortfolioAgent, IntegerPolicy, Any]:
    agent, arguments = load_agent(trained)
    assert isinstance(agent, PortfolioAgent)
    options = options_for(agent, **{**arguments, "world": "twin"})
    batch = batch_of(8, options)
    return agent, quantise_portfolio(agent, batch, options), batch


def whole(policy: IntegerPolicy, stats: np.ndarray) -> np.ndarray:
    """Measurements in whole units, as world/policy.cpp rounds them."""
    return np.floor(stats * [field.per_unit for field in policy.fields] + 0.5).astype(np.int64)


def test_it_decides_as_the_agent_does_and_the_c_as_its_model(parts: Any, tmp_path: Path) -> None:
    agent, policy, batch = parts
    assert isinstance(batch, TuneBatch)
    observations = batch.reset(range(8), list(range(8)))
    tuner = agent.tuner(range(8))
    worlds = batch.worlds
    columns = [worlds.flow_fields.index(field.source) for field in policy.fields]
    controllers = [IntegerController(policy, first_tunables(policy)) for _ in range(8)]
    begun, rows, counts = np.ones(8, np.bool_), [], []
    kinds, probes_again, choices, differing = set(), False, 0, 0
    while not batch.has_ended.all():
        actions = tuner.act(observations, begun)
        begun = np.zeros(8, np.bool_)
        for index, controller in enumerate(controllers):
            stats = worlds.flow_stats[index][batch._specs[index].learners]
            before, parts_before = int(controller.chosen[0]), controller.parts[0]
            controller.decide(whole(policy, stats[:, columns])[None])
            probes_again |= bool(before >= 0 > controller.chosen[0])
            held = actions[index].tolist() != agent.routine.setting.tolist()
            kinds.add(held)
            assert (controller.chosen[0] >= 0) == held
            probing = controller._probes[0]
            if held:
                best = int(np.abs(agent.library - actions[index]).max(axis=1).argmin())
                choices += len(probing.history) == policy.probe.intervals
                if best != controller.chosen[0]:
                    differing += 1
                    assert by_the_same_inputs(agent, policy, probing.inputs(parts_before), before) == probing.held
                    probing.held, controller.chosen, controller.parts = (
                        best,
                        np.array([best]),
                        policy.head.parts[[best]],
                    )
            if index == 1:
                counts.append(len(stats))
                rows.append(np.pad(whole(policy, stats[:, columns]), ((0, policy.flows - len(stats)), (0, 0))))
        batch.simulate(actions)
        observations = batch.observe()
    assert kinds == {True, False}, "it probes and holds"
    assert probes_again, "the path changes"
    assert differing <= choices // 8
    by_c, _ = run(program(policy, tmp_path), policy, first_tunables(policy), np.stack(rows), np.array(counts))
    alone = IntegerController(policy, first_tunables(policy))
    np.testing.assert_array_equal(by_c, [alone.decide(row[None, : counts[0]])[0] for row in rows])


def test_one_of_each_flow_decides_as_its_agent_does(tmp_path: Path) -> None:
    """Each flow's controller begins with its flow, and knows nothing of the others."""
    late = {"choice": [0.0, 0.9, 1.6]}
    flows = [{**flow, "number": 2, "start_s": late} for flow in LONG["flows"]]
    asked_for = asked({**AGENT, "change": None}, total_steps=9000, scenario={**LONG, "flows": flows}, env="multi")
    train(output_dir=tmp_path / "run", **asked_for)
    agent, arguments = load_agent(tmp_path / "run")
    assert isinstance(agent, PortfolioAgent)
    options = options_for(agent, **{**arguments, "world": "twin"})
    batch = batch_of(8, options)
    assert isinstance(batch, FlowBatch)
    policy = quantise_portfolio(agent, batch, options)
    assert policy.is_per_flow
    observations, tuners, choices = batch.reset(range(8), list(range(8))), {}, []
    columns = [batch.worlds.flow_fields.index(field.source) for field in policy.fields]
    while not batch.has_ended.all():
        actions = np.tile(batch.action.default, (8, batch.max_learners, 1))
        for env, learner in np.argwhere(batch.will_act).tolist():
            joins = (env, learner) not in tuners
            if joins:
                tuners[env, learner] = (agent.tuner([0]), IntegerController(policy, first_tunables(policy)))
            tuner, controller = tuners[env, learner]
            actions[env, learner] = tuner.act(observations[env, learner][None], np.array([joins]))[0]
            stats = batch.worlds.flow_stats[env][batch._specs[env].learners[learner]]
            was = int(controller.chosen[0])
            controller.decide(whole(policy, stats[None, columns])[None])
            is_held = actions[env, learner].tolist() != agent.routine.setting.tolist()
            assert (controller.chosen[0] >= 0) == is_held
            if was < 0 <= controller.chosen[0]:
                choices.append(
                    int(np.abs(agent.library - actions[env, learner]).max(axis=1).argmin()) == controller.chosen[0]
                )
        batch.act(actions)
        observations = batch.observe()
    assert len(choices) == len(tuners) == 16
    assert np.mean(choices) > 0.9  # but for ties within the rounding


def by_the_same_inputs(agent: PortfolioAgent, policy: IntegerPolicy, inputs: np.ndarray, held: int) -> int:
    """What the agent's own trees choose by the policy's features, of which one is on the other side of a threshold."""
    assert policy.probe is not None
    look = min(held + 1, 1, len(agent.looks) - 1)
    place, selector = policy.probe.looks[look], agent.looks[look].selector
    assert isinstance(selector, TreeSelector), "networks have no tie that is that near"
    results = policy.probe.program.run(inputs[None])
    given = torch.from_numpy(results[:, place.first : place.first + place.count] / ONE).float()
    return 0 if place.is_guarded and results[0, place.first + place.count] > 0 else int(selector.choices(given)[0])


def choices_of_both(policy: IntegerPolicy, fields: np.ndarray, flows: np.ndarray, folder: Path) -> list[int]:
    """Return what model and C choose after each interval; they must set the same."""
    found, _ = run(program(policy, folder), policy, first_tunables(policy), fields, flows)
    controller = IntegerController(policy, first_tunables(policy))
    chosen = []
    for step, (row, count) in enumerate(zip(fields, flows, strict=True)):
        assert controller.decide(row[None, :count])[0].tolist() == found[step].tolist()
        chosen.append(int(controller.chosen[0]))
    return chosen


def test_the_c_equals_the_model_whatever_is_measured(parts: Any, tmp_path: Path) -> None:
    policy = parts[1]
    generator = np.random.default_rng(3)
    shape = (120, policy.flows, len(policy.fields))
    fields = np.exp2(generator.uniform(-1, 42, shape)).astype(np.int64)
    names = [field.source for field in policy.fields]
    fields[:, :, names.index("active")] = generator.random(shape[:2]) < 0.9
    fields[:, :, names.index("phase")] = generator.integers(0, 18, shape[:2])
    flows = generator.integers(1, policy.flows + 1, len(fields))
    chosen = choices_of_both(policy, fields, flows, tmp_path)
    assert any(before >= 0 > after for before, after in itertools.pairwise(chosen)), "it probes again"


@pytest.mark.parametrize("has_trees", [False, True], ids=["networks", "trees"])
def test_a_later_look_may_choose_another_setting_in_the_c_too(has_trees: bool, tmp_path: Path) -> None:
    policy = random_portfolio(flows=2, intervals=3, has_trees=has_trees, looks=2)
    generator = np.random.default_rng(3)
    fields = np.exp2(generator.uniform(-1, 42, (20, 2, len(policy.fields)))).astype(np.int64)
    flows = generator.integers(1, 3, len(fields))
    chosen = choices_of_both(policy, fields, flows, tmp_path)
    changes = [step for step in range(1, len(chosen)) if chosen[step] != chosen[step - 1]]
    assert changes[0] == 3, "the probe ends"
    assert len(changes) > 1
    assert all(step % 3 == 0 for step in changes)


@pytest.mark.parametrize("name", ["twin", "ns3"])
def test_a_world_with_it_runs_as_its_model_says(name: str, parts: Any, tmp_path: Path) -> None:
    policy = parts[1]
    path = shared_object(policy, tmp_path / "policy.so")
    scenario = with_variant(load_distribution(LONG)(3), policy.variant)
    interval_s = policy.interval_us / 1e6
    with bbrgym.make_world(name, scenario, seed=3, options={"policy": str(path)}) as world:
        columns = [world.flow_fields.index(field.source) for field in policy.fields]
        controller = IntegerController(policy, first_tunables(policy))
        names = [one.name for one in policy.tunables]
        seen = set()
        while not world.done:
            values = controller.decide(whole(policy, world.flow_stats()[:, columns])[None])[0]
            world.advance(interval_s)
            units = [65536 if one.unit == "ratio" else 1 for one in policy.tunables]
            shown = world.tunables()[0, [list(bbrgym.worlds.TUNABLE_COLUMNS).index(one) for one in names]]
            np.testing.assert_array_equal(shown, values / units)
            seen.add(tuple(values))
    assert len(seen) > 1


def test_the_header_is_freestanding(parts: Any, tmp_path: Path) -> None:
    (tmp_path / "policy.h").write_text(policy_header(parts[1]))
    unit = '#include "policy.h"\nvoid use(struct policy_state *);\n'
    (tmp_path / "unit.c").write_text(unit + "void use(struct policy_state *s) { policy_begin(s); policy_decide(s); }\n")
    flags = ["-ffreestanding", "-mgeneral-regs-only", "-c", str(tmp_path / "unit.c"), "-o", str(tmp_path / "unit.o")]
    subprocess.run(["gcc", *FREESTANDING, *flags], check=True, timeout=compilers.PATIENCE_S)


def test_the_command_writes_the_same_bytes_twice(trained: Path, tmp_path: Path) -> None:
    first, second = (export(trained, "c", output=tmp_path / name).read_bytes() for name in ("a.h", "b.h"))
    assert first == second


# ---- programs -----------------------------------------------------------------------------------------

ALL = np.array(True)


def test_a_program_is_the_function_it_was_traced_from() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        size = (0.5 + x).log().exp().sqrt() / (0.1 + x[:, :, :1])
        sizes = torch.where(size > 1.0, size, size.square()).sort(1).values
        known = (x > 0.25) & (x < 0.75)
        return torch.cat(
            [sizes.amax(1), sizes.amin(1), sizes[:, 1], (x * known).sum(1), x.mean(1), x.clamp(0.2, 0.6)[:, 0]], 1
        )

    program = traced(function, torch.rand(1, 4, 3), ALL)
    x = (torch.rand(50, 4, 3, generator=torch.Generator().manual_seed(1)) * ONE).round() / ONE
    given = (x.reshape(50, -1).double().numpy() * ONE).astype(np.int64)
    np.testing.assert_allclose(program.run(given) / ONE, function(x).numpy(), rtol=1e-5, atol=3e-5)


def test_numbers_saturate_and_infinity_is_the_largest() -> None:
    program = traced(lambda x: torch.cat([x * 1e9 * 1e9, -1e9 * x, torch.log(x - x)], 1), torch.rand(1, 1), ALL)
    assert program.run(np.array([[ONE]])).tolist() == [[MOST, -MOST, -MOST]]


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda x: x.tan(), "has an operation tan.default, of which format c has no form"),
        (lambda x: x**3, "has a power of 3, of which"),
        (lambda x: x[:, 1:] * 2, "needs numbers beside the features of flows"),
    ],
)
def test_what_has_no_form_in_integers_is_said(function: Any, says: str) -> None:
    with pytest.raises(bbrgym.ConfigError, match=says):
        traced(function, torch.rand(1, 2), np.array([True, False]))
