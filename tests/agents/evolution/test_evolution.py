# SPDX-License-Identifier: GPL-2.0-only
"""The rule, its first gate, the fitness, and a training by evolution from its start, or from where it was killed."""

from itertools import islice

import numpy as np
import pytest
import torch
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tiny import SCENARIO, asked, curve, interrupt, weights

from bbrgym.agents.deploy.export_agent import export
from bbrgym.agents.evolution import evolution_trainer
from bbrgym.agents.evolution.corrections_network import CorrectionsNetwork
from bbrgym.agents.evolution.deployed import Deployed
from bbrgym.agents.evolution.gate import fit_gate
from bbrgym.agents.evolution.modes_network import HeldNetwork, ModesNetwork
from bbrgym.agents.evolution.population import NetworkPolicies, Population
from bbrgym.agents.evolution.search import Evolution
from bbrgym.agents.loading import load_agent
from bbrgym.agents.network_agents import NetworkAgent
from bbrgym.agents.shipped import SHIPPED, shipped_setting
from bbrgym.agents.training.draw_groups import guarded_mean
from bbrgym.agents.training.draws import training_draws
from bbrgym.agents.training.train_agent import resume_training, train
from bbrgym.envs.flow_batch import FlowOptions
from bbrgym.envs.scaling import TunableScaling
from bbrgym.errors import ConfigError
from bbrgym.scenario.distribution import load_distribution
from bbrgym.worlds.score import Objective

ANCHORS = torch.tensor([[0.0, 0.5], [1.0, -0.5], [-1.0, 0.0]])


def rule(**parameters: float) -> ModesNetwork:
    """A rule of one feature, which corrects the second tunable."""
    network = ModesNetwork(ANCHORS, torch.eye(2)[1:], torch.zeros(1), torch.ones(1))
    with torch.no_grad():
        for name, value in parameters.items():
            getattr(network, name).copy_(torch.as_tensor(value).expand_as(getattr(network, name)))
    return network


def actions_of(network: ModesNetwork, features: list[float]) -> list[list[float]]:
    """The actions of one flow, from its start on."""
    policy = NetworkAgent("rule", network).make_policy([1])
    return [
        policy.act(np.array([[value]], np.float32), np.array([number == 0]))[0].tolist()
        for number, value in enumerate(features)
    ]


def test_a_rule_starts_in_the_first_mode_and_switches_with_hysteresis() -> None:
    network = rule(merit=torch.tensor([[1.0], [0.0]]), merit_bias=torch.tensor([0.0, -9.0]), hysteresis=0.5)
    first, second = ANCHORS[0].tolist(), ANCHORS[1].tolist()
    assert actions_of(network, [9.0, 0.4, 0.6, -0.4, -0.6]) == [first, first, second, second, first]


def test_a_correction_is_linear_and_stays_in_the_range() -> None:
    network = rule(correction=0.25, correction_bias=0.125)
    assert [action[1] for action in actions_of(network, [1.0, 1.0, -1.0, 8.0])] == [0.625, 0.875, 0.375, 1.0]


@pytest.mark.parametrize("mode", range(3))
def test_a_held_mode_is_held_whatever_is_measured(mode: int) -> None:
    held = {name: one[0] for name, one in rule().holding([mode]).items()}
    assert actions_of(rule(**held), [0.0, 1e3, -1e3])[1:] == [ANCHORS[mode].tolist()] * 2


def test_a_network_starts_at_the_anchor_and_moves_the_tunables_that_it_may() -> None:
    network = CorrectionsNetwork.drawn(ANCHORS[0], torch.eye(2)[1:], torch.tensor([3.0]), torch.tensor([2.0]), 1)
    observations = torch.tensor([[1.0, 9.0], [4.0, 9.0], [5.0, 9.0]])
    assert network(observations, torch.zeros(3))[0].tolist() == [ANCHORS[0].tolist()] * 3
    with torch.no_grad():
        network.head.fill_(0.2)
    actions = network(observations, torch.zeros(3))[0]
    assert actions[:, 0].tolist() == [0.0] * 3
    assert actions[:, 1].unique().numel() == 3
    assert network.folded(2)(observations).numpy() == pytest.approx(actions.detach().numpy(), abs=1e-6)


def test_a_gate_finds_the_feature_on_which_a_gain_depends() -> None:
    features = np.random.default_rng(1).normal(3.0, 2.0, (4000, 3)).astype(np.float32)
    gains = 0.1 * (features[:, 1:2] - 3.0) - 0.2
    gate = fit_gate(features, gains, np.ones(4000))
    assert gate.weights[0] == pytest.approx([0.0, 0.2, 0.0], abs=0.01)
    assert gate.bias == pytest.approx([-0.2], abs=0.01)


@given(st.lists(st.floats(-2, 2), min_size=4, max_size=4), st.floats(0, 3))
def test_a_guard_charges_what_a_group_loses_and_nothing_else(gains: list[float], guard: float) -> None:
    groups, weights = ["a", "a", "b", "b"], np.array([1.0, 3.0, 2.0, 2.0])
    loss = sum(min(np.dot(gains[part], weights[part]) / 8, 0.0) for part in (slice(0, 2), slice(2, 4)))
    expected = np.dot(gains, weights) / 8 + guard * loss
    assert guarded_mean(np.array([gains]), weights, groups, guard)[0] == pytest.approx(expected, abs=1e-12)


RIVAL = {"name": "cubic", "number": {"choice": [0, 1]}, "cc": "cubic", "rtt_ms": 20.0}
SHORT = asked(
    {"name": "evolution", "policies": 4, "draws": 3, "corrected": ["bbr_cwnd_gain"]},
    scenario={**SCENARIO, "flows": [*SCENARIO["flows"], RIVAL]},
    env={"name": "multi", "control_interval_s": 0.25},
    observation="path",
    total_steps=3000,
    checkpoint_steps=600,
)


@pytest.mark.parametrize("policy", ["modes", "network"])
def test_a_killed_evolution_goes_on_to_the_same_policy(policy, tmp_path) -> None:
    asked_for = {**SHORT, "agent": {**SHORT["agent"], "policy": policy}}
    train(output_dir=tmp_path / "whole", **asked_for)
    interrupt(tmp_path / "broken", 2500, asked_for)
    assert curve(tmp_path / "broken")["step"].max() < 2500
    resume_training(tmp_path / "broken")
    assert curve(tmp_path / "broken").equals(curve(tmp_path / "whole"))
    assert weights(tmp_path / "broken") == weights(tmp_path / "whole")
    agent, _ = load_agent(tmp_path / "whole", "last")
    assert agent.is_per_flow
    assert export(tmp_path / "whole", "c", checkpoint="last").stat().st_size > 0


def test_an_unknown_tunable_to_correct_is_refused(tmp_path) -> None:
    agent = {**SHORT["agent"], "corrected": ["bbr_gain"]}
    with pytest.raises(ConfigError, match=r"agent\.corrected: 'bbr_gain'"):
        train(output_dir=tmp_path / "run", **{**SHORT, "agent": agent})


def test_a_rule_starts_from_the_setting_of_a_finished_search(tmp_path) -> None:
    alone = {**SHORT, "scenario": SCENARIO, "total_steps": 600}
    train(output_dir=tmp_path / "fixed", **{**alone, "agent": {**SHORT["agent"], "policy": "fixed"}})
    fixed, _ = load_agent(tmp_path / "fixed", "last")
    train(output_dir=tmp_path / "rule", **{**alone, "agent": {**SHORT["agent"], "start": str(tmp_path / "fixed")}})
    rule, _ = load_agent(tmp_path / "rule", "last")
    assert rule.network().anchors.numpy() == pytest.approx(fixed.action[None], abs=0.5)
    with pytest.raises(ConfigError, match=r"agent\.start: .*rule' holds agent .*, expected"):
        train(output_dir=tmp_path / "other", **{**alone, "agent": {**SHORT["agent"], "start": str(tmp_path / "rule")}})


def test_a_rule_starts_from_a_setting_that_comes_with_bbrgym(tmp_path) -> None:
    settings = {**SHORT, "variant": "bbr-mix", "scenario": SCENARIO, "total_steps": 300}
    train(output_dir=tmp_path / "run", **{**settings, "agent": {**SHORT["agent"], "start": "shipped/fixed"}})
    rule, _ = load_agent(tmp_path / "run", "last")
    variant, setting = shipped_setting(SHIPPED["shipped/fixed"])
    assert rule.network().anchors[0].tolist() == TunableScaling(variant).from_values(setting).tolist()


def test_an_evolution_moves_the_gate_and_the_corrections_alone(tmp_path) -> None:
    found = []
    for steps in (1500, 3000):
        settings = {**SHORT, "agent": {**SHORT["agent"], "anchor_share": 600 / steps, "gate_share": 60 / steps}}
        train(output_dir=tmp_path / str(steps), **{**settings, "total_steps": steps})
        found.append(load_agent(tmp_path / str(steps), "last")[0].network())
    short, long = found
    assert torch.equal(short.anchors, long.anchors)
    assert all(not torch.equal(one, other) for one, other in zip(short.parameters(), long.parameters(), strict=True))


def test_a_policy_is_deployed_in_a_share_of_the_tuned_flows_and_all_are_scored() -> None:
    source = load_distribution({**SCENARIO, "flows": [{**SCENARIO["flows"][0], "number": 1, "count": 4}, RIVAL]})
    draws = list(islice(training_draws(source, 1), 40))
    numbers = set()
    for draw in map(Deployed(uniform=[0.2, 1]).of, draws):
        flows, team = draw.scenario.resolved().flows, draw.team.resolved().flows
        assert [flow.name for flow in flows] == [flow.name for flow in team]
        assert {flow.cc for flow in flows if flow.role == "fixed"} <= {"bbr", "cubic"}
        assert [flow.role for flow in team].count("tuned") == 4
        numbers.add([flow.role for flow in flows].count("tuned"))
    assert numbers == {1, 2, 3, 4}


def test_a_half_deployed_preset_of_bbr_scores_as_if_it_were_deployed_everywhere() -> None:
    source = load_distribution({**SCENARIO, "flows": [{**SCENARIO["flows"][0], "number": 3}]})
    whole = list(islice(training_draws(source, 1), 4))
    options = FlowOptions(scenario=source, variant="bbr", features="path", frame_stack=1, threads=1)
    population = Population(1, 4, options, Objective())
    network = HeldNetwork(torch.from_numpy(TunableScaling("bbr").default))
    held = {"setting": network.setting.detach()[None]}
    scores = [
        population.scores(NetworkPolicies(network, held, population.rows, population.width), draws)
        for draws in (whole, [Deployed(uniform=[0.4, 0.4]).of(one) for one in whole])
    ]
    population.close()
    assert scores[1] == pytest.approx(scores[0])


def test_a_rule_is_trained_beside_bbr_where_it_is_deployed_in_part(tmp_path) -> None:
    agent = {**SHORT["agent"], "deployed": {"uniform": [0.2, 1]}}
    train(output_dir=tmp_path / "run", **{**SHORT, "scenario": SCENARIO, "total_steps": 600, "agent": agent})
    rule, _ = load_agent(tmp_path / "run", "last")
    assert len(rule.network().anchors) == 2, "one of them for draws beside others"
    wrong = {**agent, "deployed": {"uniform": [1, 0.2]}}
    with pytest.raises(ConfigError, match=r"uniform: is \[1.0, 0.2\], expected numbers in ascending order"):
        train(output_dir=tmp_path / "other", **{**SHORT, "agent": wrong})


def test_a_fitness_over_several_distributions_is_that_of_the_worst(tmp_path, monkeypatch) -> None:
    seen = []

    def observed(gains, weights, groups, guard):
        seen.append(guarded_mean(gains, weights, groups, guard))
        return seen[-1]

    told = []
    monkeypatch.setattr(evolution_trainer, "guarded_mean", observed)
    monkeypatch.setattr(Evolution, "tell", lambda self, asked, fitness: told.append(fitness))
    monkeypatch.setattr(Evolution, "mean", lambda self: self._strategy.mean)
    (tmp_path / "more.yaml").write_text(yaml.dump({**SCENARIO, "flows": [{**SCENARIO["flows"][0], "number": 3}]}))
    agent = {**SHORT["agent"], "draws": 4, "distributions": [str(tmp_path / "more.yaml")], "anchor_share": 0.1}
    train(output_dir=tmp_path / "run", **{**SHORT, "scenario": SCENARIO, "agent": agent})
    assert len(seen) >= 4
    assert len(seen) % 2 == 0
    for number, fitness in enumerate(told[-len(seen) // 2 + 1 :], 1):
        assert fitness.tolist() == np.minimum(*seen[2 * number : 2 * number + 2]).tolist()
