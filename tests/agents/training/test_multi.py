# SPDX-License-Identifier: GPL-2.0-only
"""One policy for all tuned flows: trained, resumed, validated, evaluated and exported like any other."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from tiny import AGENTS, asked, curve, interrupt, run, weights

pytest.importorskip("pettingzoo", reason="what acts is compared with its agents")

import bbrgym
from bbrgym.agents.base import Agent, Constant
from bbrgym.agents.deploy.export_agent import export
from bbrgym.agents.loading import load_agent
from bbrgym.agents.rollout import flow_seed, options_for, validation_rollout
from bbrgym.agents.training.train_agent import resume_training
from bbrgym.envs.flow_batch import FlowOptions
from bbrgym.envs.multi import parallel_env
from bbrgym.envs.options import Options
from bbrgym.envs.scaling import TunableScaling
from bbrgym.evaluate.evaluation import run_evaluation
from bbrgym.evaluate.records import TUNABLE_PREFIX
from bbrgym.scenario.distribution import split_seeds
from bbrgym.worlds.score import Objective

pytestmark = pytest.mark.usefixtures("undrawn_file")

SCENARIO: dict[str, Any] = {
    "name": "changing",
    "variables": {"rate_mbps": {"log_uniform": [1, 4]}},
    "duration_s": 2.0,
    "warmup_s": 0.5,
    "link": {"rate_mbps": {"value": "rate_mbps"}, "queue": {"size_packets": {"integer": [5, 30]}}},
    "flows": [
        {
            "name": "flow",
            "number": {"integer": [1, 3]},
            "rtt_ms": {"uniform": [10, 50]},
            "start_s": {"uniform": [0, 0.9]},
            "stop_s": {"uniform": [1.2, 1.8]},
        },
        {"name": "cubic", "cc": "cubic", "role": "fixed", "rtt_ms": 30.0},
    ],
}
ENV: dict[str, Any] = {"name": "multi", "control_interval_s": 0.2}
SHARED = ("ppo", "sac", "dqn")  # tqc learns as sac does


def asked_for_flows(agent: Any = "ppo", **others: Any) -> dict[str, Any]:
    return asked(agent, **{"scenario": SCENARIO, "env": ENV, **others})


@pytest.fixture(scope="module", params=SHARED)
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(tmp_path_factory.mktemp("trained") / "run", **asked_for_flows(request.param))


@pytest.fixture(scope="module")
def sampling(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An agent that draws its actions."""
    agent = {"name": "ppo", **AGENTS["ppo"], "acts": "sample"}
    return run(tmp_path_factory.mktemp("sampling") / "run", **asked_for_flows(agent))


def validated(agent: Agent, arguments: dict[str, Any]) -> list[float]:
    validation = validation_rollout(
        options_for(agent, **{**arguments, "world": "twin"}),
        bbrgym.load_distribution(SCENARIO),
        split_seeds("validation", 3),
    )
    scores: list[float] = validation.scores(agent.make_policy, Objective())[0].tolist()
    validation.close()
    return scores


# ---- trained ------------------------------------------------------------------------------------------


def test_steps_are_those_of_environments_however_many_flows_act(trained: Path) -> None:
    rows = curve(trained)
    assert rows.drop_nulls("validation/score")["step"][-1] == 320
    assert json.loads((trained / "summary.json").read_text())["agent"] == f"{load_agent(trained)[0].name}"
    assert rows["rollout/episodes"].sum() > 0
    runs = 320 / 4 / 10  # of each of four environments, of ten steps each
    assert rows["rollout/episodes"].sum() <= 3 * 4 * runs


def test_a_broken_training_goes_on_as_if_nothing_had_happened(trained: Path, tmp_path: Path) -> None:
    interrupt(tmp_path, 230, asked_for_flows(load_agent(trained)[0].name.removesuffix("-multi")))
    assert curve(tmp_path)["step"].max() < 230
    resume_training(tmp_path)
    assert curve(tmp_path).equals(curve(trained))
    assert weights(tmp_path) == weights(trained)


def test_what_is_loaded_scores_what_was_validated_here_and_in_an_evaluation(trained: Path) -> None:
    agent, arguments = load_agent(trained)
    best = pl.read_parquet(trained / "validation.parquet").filter(
        pl.col("step") == json.loads((trained / "summary.json").read_text())["best_step"]
    )
    assert validated(agent, arguments) == best["score"].to_list()
    rows = bbrgym.evaluate(SCENARIO, [], agent=str(trained), world="twin", draws=3, split="validation")
    assert rows.unique("seed", maintain_order=True)["score"].to_list() == best["score"].to_list()


# ---- validated and evaluated -----------------------------------------------------------------------------


@pytest.mark.parametrize("options", [Options, FlowOptions])
def test_a_validation_gives_each_run_the_score_that_it_has_alone(options: type[Options]) -> None:
    """Runs of different lengths side by side, in which tuned flows leave long before the end."""
    distribution = bbrgym.load_distribution({**SCENARIO, "duration_s": {"uniform": [2.0, 4.0]}})
    seeds, action = split_seeds("validation", 4), TunableScaling("bbq")
    agent = Constant("mine", np.full(action.space.shape, 0.25, np.float32))
    arguments = options(world="twin", scenario=distribution, variant="bbq", control_interval_s=0.15)
    validation = validation_rollout(arguments, distribution, seeds)
    [scores] = validation.scores(agent.make_policy, Objective())
    assert validation.scores(agent.make_policy, Objective())[0].tolist() == scores.tolist()
    validation.close()
    for seed, score in zip(seeds, scores, strict=True):
        values = action.to_values(agent.action)
        alone = bbrgym.evaluate(distribution(seed), ["bbq"], seeds=[seed], world="twin", tunables=values)
        assert alone["score"][0] == pytest.approx(score, abs=1e-12)


def by_hand(run_dir: Path, scenario: Any, seed: int) -> dict[str, list[dict[str, float]]]:
    """What agents of TuneMulti-v0 set that have the policy, each by itself."""
    agent, arguments = load_agent(run_dir)
    env = parallel_env(**{**arguments, "scenario": scenario, "world": "twin"})
    slots = {name: slot for slot, name in enumerate(env.possible_agents)}
    seen, _ = env.reset(seed=seed)
    policies, settings = {}, {name: [] for name in slots}
    while env.agents:
        actions = {}
        for name in env.agents:
            episode_starts = name not in policies
            if episode_starts:
                policies[name] = agent.make_policy([flow_seed(seed, slots[name])])
            actions[name] = policies[name].act(seen[name][None], np.array([episode_starts]))[0]
        seen, _, _, _, infos = env.step(actions)
        for name in actions:
            settings[name].append(infos[name]["tunables"])
    env.close()
    return settings


def test_in_an_evaluation_each_flow_acts_by_itself(sampling: Path, tmp_path: Path) -> None:
    """On more flows than it was trained with."""
    flows = [
        {"name": f"flow-{index}", "rtt_ms": 10.0 + 9.0 * index, "start_s": 0.2 * index, "stop_s": 1.9 - 0.1 * index}
        for index in range(5)
    ]
    link = {"rate_mbps": 4.0, "queue": {"size_packets": 20}}
    scenario = bbrgym.load_scenario({"name": "five", "duration_s": 2.0, "link": link, "flows": flows})
    bbrgym.evaluate(scenario, [], agent=str(sampling), world="twin", seeds=[7], output_dir=tmp_path)
    series = pl.read_parquet(tmp_path / "timeseries.parquet")
    settings = by_hand(sampling, scenario, 7)
    seen = set()
    for index, (name, expected) in enumerate(settings.items()):
        rows = series.filter(
            (pl.col("flow") == name) & (pl.col("time_s") > 0.2 * index + 1e-6) & (pl.col("time_s") < 2.1 - 0.1 * index)
        )
        assert len(expected) >= 3
        for tunable in expected[0]:
            assert rows[TUNABLE_PREFIX + tunable].to_list()[: len(expected)] == [one[tunable] for one in expected]
        seen.add(expected[0]["bbr_up_gain"])
    assert len(seen) == 5  # no two flows do the same


@pytest.mark.parametrize("world", ["twin", pytest.param("ns3", marks=pytest.mark.slow)])
def test_it_takes_part_beside_others(world: str, sampling: Path, tmp_path: Path) -> None:
    agent = {"name": "ppo", **AGENTS["ppo"], "acts": "sample"}
    whole = run(tmp_path / "whole", agent, scenario=SCENARIO, total_steps=32)
    asked_for = {"variants": ["bbr"], "world": world, "draws": 2, "split": "validation"}
    outcome = run_evaluation(SCENARIO, asked_for, agent=[str(sampling), str(whole), "random"])
    names = [row.entrant for row in outcome.rankings[0].rows]
    assert names == ["bbr", "ppo-multi bbq", "ppo bbq", "random bbr-mix"]
    assert outcome.summary["score"].is_finite().all()
    again = run_evaluation(SCENARIO, {**asked_for, "jobs": 1}, agent=str(sampling))
    assert again.summary.equals(outcome.summary.filter(pl.col("agent").is_in(["fixed", "ppo-multi"])))


# ---- elsewhere ----------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_an_exported_policy_is_a_function_of_one_flow_s_observation(trained: Path) -> None:
    extra = {"bbrgym.json": ""}
    function = torch.jit.load(str(export(trained, "torchscript")), _extra_files=extra)
    assert json.loads(extra["bbrgym.json"])["acts_for"] == "each tuned flow"
    agent, arguments = load_agent(trained)
    assert agent.is_per_flow
    env = parallel_env(**{**arguments, "world": "twin"})
    seen, _ = env.reset(seed=3)
    for name, observation in seen.items():
        expected = agent.make_policy([1]).act(observation[None], np.ones(1, np.bool_))
        with torch.no_grad():
            actions = function(torch.from_numpy(observation[None])).numpy()
        np.testing.assert_allclose(actions, expected, atol=1e-5)
        assert env.action_space(name).contains(expected[0])
    env.close()
