# SPDX-License-Identifier: GPL-2.0-only
"""A portfolio in C identifies the path, chooses and holds as the agent does."""

import subprocess
from pathlib import Path
from typing import Any

import compilers
import numpy as np
import numpy.typing as npt
import pytest
import torch
from compiled_policies import CompiledPolicy, Controller
from policies import in_whole_units, portfolio_of, random_networks
from tiny import SCENARIO, asked

import bbrgym
from bbrgym.agents.deploy.export_agent import export
from bbrgym.agents.deploy.fixed_point import MAX_NUMBER, Q16, Q20, Integers
from bbrgym.agents.deploy.integer_policy import IntegerPolicy, ScalarProgram
from bbrgym.agents.deploy.quantise_portfolio import quantise_networks, quantise_portfolio
from bbrgym.agents.deploy.trace_program import traced
from bbrgym.agents.loading import load_agent
from bbrgym.agents.portfolio.policy import PortfolioAgent
from bbrgym.agents.portfolio.selector import layered
from bbrgym.agents.rollout import batch_of, options_for, validation_rollout
from bbrgym.agents.training.train_agent import train
from bbrgym.envs.tune_batch import TuneBatch
from bbrgym.scenario.files import with_variant
from bbrgym.worlds.score import score_of_run

pytestmark = pytest.mark.usefixtures("undrawn_file")

AGENT: dict[str, Any] = {
    "name": "portfolio",
    "library_size": 4,
    "search_trials": 6,
    "search_runs": 1,
    "identification_s": 1.0,
    "fit": {"networks": 2, "folds": 2},
}
RESELECTS = {"reselect_share": 0.2, "identification_s": 1.5}
KINDS: dict[str, dict[str, Any]] = {"holds": {}, "reselects": RESELECTS, "soon": {**RESELECTS, "reselect_s": 0.5}}
LONG = {**SCENARIO, "duration_s": 6.0}
NUM_ENVS = 8
FEATURES, SETTINGS = 6, 4


@pytest.fixture(scope="module", params=KINDS)
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("portfolio") / "run"
    train(output_dir=folder, **asked({**AGENT, **KINDS[request.param]}, total_steps=9000, scenario=LONG))
    return folder


@pytest.fixture(scope="module")
def quantised(trained: Path) -> tuple[PortfolioAgent, IntegerPolicy, Any]:
    agent, arguments = load_agent(trained)
    assert isinstance(agent, PortfolioAgent)
    options = options_for(agent, **{**arguments, "world": "twin"})
    batch = batch_of(NUM_ENVS, options)
    return agent, quantise_portfolio(agent, batch, options), batch


def results(controller: Controller, program: ScalarProgram) -> Integers:
    """What the program makes of the controller's history, Q20."""
    controller.call("run_program")
    return np.array([controller.call("number", one) for one in program.outputs.tolist()])


def test_it_decides_as_the_agent_does(quantised: Any, tmp_path: Path) -> None:
    agent, policy, batch = quantised
    assert isinstance(batch, TuneBatch)
    observations = batch.reset(range(NUM_ENVS), list(range(NUM_ENVS)))
    acting = agent.make_policy(range(NUM_ENVS))
    columns = [batch.episodes.worlds.flow_fields.index(field.source) for field in policy.fields]
    numbers = policy.flows * len(policy.features)
    compiled = CompiledPolicy(policy, tmp_path)
    controllers = [Controller(compiled) for _ in range(NUM_ENVS)]
    full = agent.routine.intervals
    left = full - (agent.routine.pause or full)  # after a choice it forgets
    episode_starts, kinds, choices, differing = np.ones(NUM_ENVS, np.bool_), set(), 0, 0
    while not batch.episodes.has_ended.all():
        actions = acting.act(observations, episode_starts)
        episode_starts = np.zeros(NUM_ENVS, np.bool_)
        for index, controller in enumerate(controllers):
            stats = batch.episodes.worlds.flow_stats[index][batch.episodes._specs[index].tuned]
            positions_before = controller["positions"].copy()
            observed_before = int(controller["observed"][0])
            controller.decide(in_whole_units(policy, stats[:, columns]))
            is_held = actions[index].tolist() != agent.routine.setting.tolist()
            kinds.add(is_held)
            assert (controller["chosen"][0] < len(agent.library)) == is_held
            observed = int(controller["observed"][0])
            if observed == (observed_before if observed_before < full else left) + 1:
                choices += observed == full
                seen = observations[index][-batch.observation.width :][:numbers]
                found = controller["history"][(observed - 1) * numbers :][:numbers] / Q20
                np.testing.assert_allclose(found, seen, atol=1e-4)
            best = int(np.abs(agent.library - actions[index]).max(axis=1).argmin())
            if is_held and controller["chosen"][0] != best:
                differing += 1
                controller["positions"][:] = positions_before
                held = results(controller, policy.identification.program)
                chosen_by = predicted(agent, held)
                assert chosen_by.max() - chosen_by[controller["chosen"][0]] < 1e-3
                controller["chosen"][:], controller["positions"][:] = best, policy.head.positions[best]
        batch.simulate(actions)
        observations = batch.observe()
    assert kinds == {True, False}, "it identifies and holds"
    assert choices >= NUM_ENVS
    assert differing <= choices // 8


def test_flows_by_themselves_score_in_c_as_in_python(tmp_path: Path) -> None:
    settings = asked({**AGENT, **KINDS["soon"]}, total_steps=9000, scenario=LONG, env="multi")
    train(output_dir=tmp_path / "run", **settings)
    agent, arguments = load_agent(tmp_path / "run")
    header, library = export(tmp_path / "run", "c", output=tmp_path / "policy.h"), tmp_path / "policy.so"
    flags = ["-O2", "-shared", "-fPIC", "-w", "-DBBRGYM_POLICY_ENTRY", "-x", "c", str(header), "-o", str(library)]
    subprocess.run([compilers.compiler(compilers.C), *flags], check=True, timeout=compilers.PATIENCE_S)
    source, seeds = bbrgym.load_distribution(LONG), range(1, 17)
    rollout = validation_rollout(options_for(agent, **{**arguments, "world": "twin"}), source, seeds)
    try:
        expected = rollout.scores(agent.make_policy)
    finally:
        rollout.close()
    scores = []
    for seed in seeds:
        scenario = with_variant(source(seed), "bbq")
        with bbrgym.make_world("twin", scenario, seed=seed, options={"policy": str(library)}) as world:
            world.advance(scenario.duration_s)
            scores.append(score_of_run(scenario, world.flow_summary_fields, world.summary()[0]))
    differing = np.flatnonzero(np.array(scores) != expected)  # an integer may be on the other side of a threshold
    assert len(differing) <= len(seeds) // 8, (scores, expected)


def predicted(agent: PortfolioAgent, inputs: Integers) -> npt.NDArray[np.float32]:
    """What the agent's own selector promises by the policy's inputs."""
    selector, given = agent.network().selector, torch.from_numpy(inputs[None] / Q20).float()
    return layered(given, selector.layers).mean(0)[0].numpy()


# ---- programs -----------------------------------------------------------------------------------------

ALL = np.array(True)


def run_program(program: ScalarProgram, inputs: Integers, folder: Path) -> Integers:
    """Results of a program, [N, outputs], of inputs, [N, inputs], by the C of a portfolio that has it."""
    selector = random_networks(len(program.outputs), SETTINGS, torch.Generator().manual_seed(1))
    controller = Controller(CompiledPolicy(portfolio_of(program, quantise_networks(selector)), folder))
    found = []
    for row in inputs:
        controller["history"][:] = row
        found.append(results(controller, program))
    return np.array(found)


def test_a_program_is_the_function_it_was_traced_from(tmp_path: Path) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        size = (0.5 + x).log().exp().sqrt() / (0.1 + x[:, :, :1])
        sizes = torch.where(size > 1.0, size, size.square()).sort(1).values
        known = (x > 0.25) & (x < 0.75)
        return torch.cat(
            [sizes.amax(1), sizes.amin(1), sizes[:, 1], (x * known).sum(1), x.mean(1), x.clamp(0.2, 0.6)[:, 0]], 1
        )

    program = traced(function, torch.rand(1, 4, 3), ALL)
    x = (torch.rand(50, 4, 3, generator=torch.Generator().manual_seed(1)) * Q20).round() / Q20
    given = (x.reshape(50, -1).double().numpy() * Q20).astype(np.int64)
    np.testing.assert_allclose(run_program(program, given, tmp_path) / Q20, function(x).numpy(), rtol=1e-5, atol=3e-5)


def test_numbers_saturate_and_infinity_is_the_largest(tmp_path: Path) -> None:
    program = traced(lambda x: torch.cat([x * 1e9 * 1e9, -1e9 * x, torch.log(x - x)], 1), torch.rand(1, 1), ALL)
    assert run_program(program, np.array([[Q20]]), tmp_path).tolist() == [[MAX_NUMBER, -MAX_NUMBER, -MAX_NUMBER]]


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


# ---- networks ------------------------------------------------------------------------------------------


def test_networks_are_one_in_integers(tmp_path: Path) -> None:
    selector = random_networks(FEATURES, SETTINGS, torch.Generator().manual_seed(3))
    layers = quantise_networks(selector)
    program = traced(selector.inputs, torch.rand(1, FEATURES), ALL)
    controller = Controller(CompiledPolicy(portfolio_of(program, layers), tmp_path))
    inputs = np.random.default_rng(3).integers(-3 * Q20, 3 * Q20, (200, FEATURES))
    found = []
    for row in inputs:
        controller["history"][:] = row
        controller.call("run_program")
        controller.call("predict")
        found.append(controller["layers"][:SETTINGS] / Q16)
    expected = selector(torch.from_numpy(inputs / Q20).float()).numpy()
    assert np.abs(expected).max() > 1.0
    np.testing.assert_allclose(found, expected, atol=2e-3)
