# SPDX-License-Identifier: GPL-2.0-only
"""A rule is explained by what it does, another agent by what shuffled features change; the command says both."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny import SCENARIO, asked

from bbrgym.agents.deploy.export_agent import export
from bbrgym.agents.explanation.episodes import recorded_episodes
from bbrgym.agents.explanation.explanation import Explanation, explain
from bbrgym.agents.explanation.shuffling import TUNABLES, columns_by_feature, shuffled_features
from bbrgym.agents.loading import load_agent
from bbrgym.agents.rollout import make_rollout, options_for
from bbrgym.agents.training.train_agent import train
from bbrgym.cli.main import main
from bbrgym.report.explanation_tables import usual_range
from bbrgym.scenario.distribution import load_distribution
from bbrgym.worlds import Flags
from bbrgym.worlds.score import Objective

DRAWS = 6
RIVAL = {"name": "cubic", "number": {"choice": [0, 1]}, "cc": "cubic", "rtt_ms": 20.0}
TWO = {**SCENARIO["flows"][0], "number": 2}
EVOLUTION = asked(
    {"name": "evolution", "policies": 4, "draws": 3, "corrected": ["bbr_cwnd_gain"]},
    scenario={**SCENARIO, "flows": [TWO, RIVAL]},
    env={"name": "multi", "control_interval_s": 0.25},
    observation="path",
    total_steps=3000,
)


@pytest.fixture(scope="module")
def rule_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rule") / "run"
    train(output_dir=folder, **EVOLUTION)
    return folder


@pytest.fixture(scope="module")
def explanation(rule_run: Path) -> Explanation:
    return explain(rule_run, checkpoint="last", draws=DRAWS)


def test_the_modes_and_the_table_are_those_of_the_actions(rule_run: Path, explanation: Explanation) -> None:
    agent, _ = load_agent(rule_run, "last")
    network, rule = agent.network(), explanation.rule
    assert rule is not None
    _, corrections = network.terms()
    (place,) = network.places.argmax(dim=1).tolist()
    for episode, by_flow in zip(explanation.episodes, rule.modes, strict=True):
        for decisions, modes in zip(episode.decisions, by_flow, strict=True):
            assert modes[0] == 0
            wanted = network.anchors.numpy()[modes]
            features = decisions.observations[:, : len(rule.features)]
            correction = features @ corrections.weights[0] + corrections.biases[0]
            correction[0] = network.correction_bias.item()
            wanted[:, place] += correction
            np.testing.assert_allclose(decisions.actions, wanted.clip(-1, 1), atol=1e-5)
    moved = corrections.weights[0] * np.diff(rule.usual, axis=0)[0] / 2
    np.testing.assert_allclose(rule.corrections[0], moved)


def test_the_episodes_are_those_of_the_validation(rule_run: Path, explanation: Explanation) -> None:
    agent, arguments = load_agent(rule_run, "last")
    scenarios = [one.scenario for one in explanation.episodes]
    options = options_for(agent, **{**arguments, "world": "twin", "scenario": scenarios})
    rollout = make_rollout(options, [one.seed for one in explanation.episodes])
    np.testing.assert_array_equal(rollout.scores(agent.make_policy), [one.score for one in explanation.episodes])
    rollout.close()
    for one in explanation.episodes:
        assert len(one.times_s) == len(one.queue_delay_ms) == len(one.goodput_mbps)
        assert one.times_s[-1] == pytest.approx(one.scenario.duration_s)
        assert one.goodput_mbps.shape[1] == len(one.flows)


def test_a_range_has_the_feature_s_unit() -> None:
    assert usual_range("srtt", 0.0, 0.5) == "1 to 8 ratio"
    assert usual_range("delivery_of_bw", 0.25, 1.0) == "0.5 to 2 ratio"
    assert usual_range("mean srtt", 0.0, 0.5) == "0.00 to 0.50"


# ---- other agents -------------------------------------------------------------------------------------


class Follower:
    """Agent whose first tunable follows one number of the observation."""

    name = "follower"

    def __init__(self, column: int, tunables: int, *, is_per_flow: bool) -> None:
        self.column, self.tunables, self.is_per_flow = column, tunables, is_per_flow

    def make_policy(self, seeds: Any) -> "Follower":
        return self

    def act(self, observations: Any, episode_starts: Flags) -> Any:
        actions = np.zeros((len(observations), self.tunables), np.float32)
        actions[:, 0] = 2 * observations[:, self.column] - 1
        return actions


@pytest.mark.parametrize("is_per_flow", [False, True])
def test_only_what_an_agent_reads_changes_its_actions(is_per_flow: bool) -> None:
    agent = Follower(1, 1, is_per_flow=is_per_flow)
    source = load_distribution({**SCENARIO, "flows": [TWO, RIVAL]})
    given = {"features": ["srtt", "delivery_rate"], "frame_stack": 1, "tunables": ["bbr_cwnd_gain"], "variant": "bbq"}
    options = options_for(agent, scenario=source, world="twin", control_interval_s=0.25, **given)
    seeds = range(DRAWS)
    episodes = recorded_episodes(agent, options, source, seeds, objective=Objective())
    columns = {"srtt": [0], "delivery_rate": [1]}
    found = shuffled_features(agent, options, source, episodes, columns, objective=Objective())
    assert [one.name for one in found] == ["delivery_rate", "srtt"]
    read, ignored = found
    assert read.action_change.mean() > 0.01
    assert np.abs(read.score_drop).max() > 0
    assert not ignored.action_change.any()
    assert not ignored.score_drop.any()


def test_columns_of_a_feature_are_those_of_all_intervals_and_flows() -> None:
    names = ["bw[0]@-1", "bw[1]@-1", "mean srtt@-1", "gain@-1", "bw[0]", "bw[1]", "mean srtt", "gain"]
    assert columns_by_feature(names, ["gain"]) == {"bw": [0, 1, 4, 5], "srtt": [2, 6], TUNABLES: [3, 7]}


# ---- the command --------------------------------------------------------------------------------------


def test_the_command_prints_a_rule_and_writes_its_page(rule_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(rule_run), "--checkpoint", "last", "--draws", "3"]) == 0
    printed = capsys.readouterr().out
    words = " ".join(printed.split())
    assert "Each tuned flow decides every 0.25 s by what it measures. It starts in mode 1 and changes" in words
    assert "bbr_cwnd_gain, in parts of its range, changes by " in words
    assert "Settings of the modes" in printed
    assert "beside others" in printed
    assert f"report: {rule_run / 'explained' / 'report.html'}" in printed
    page = (rule_run / "explained" / "report.html").read_text()
    assert "Modes over time by kind of network" in page
    assert "same mode" in page
    assert "What moves as a feature rises" in (rule_run / "explained" / "summary.txt").read_text()


def test_the_command_shuffles_the_features_of_another_agent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(output_dir=tmp_path / "run", **asked("ppo"))
    assert main(["explain", str(tmp_path / "run"), "--draws", "3"]) == 0
    printed = capsys.readouterr().out
    assert "What changes if a feature is that of another episode" in printed
    assert TUNABLES in printed
    assert (tmp_path / "run" / "explained" / "report.html").is_file()


def test_too_few_draws_are_refused(rule_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(rule_run), "--draws", "1"]) == 2
    assert capsys.readouterr().err == "bbrgym: draws: is 1, allowed are whole numbers from 2\n"


def test_a_trained_rule_is_exported_with_its_modes(rule_run: Path, tmp_path: Path) -> None:
    agent, _ = load_agent(rule_run, "last")
    header = export(rule_run, "c", checkpoint="last", output=tmp_path / "rule.h").read_text()
    assert f"#define POLICY_MODES {len(agent.network().anchors)}u" in header
    assert f"#define POLICY_HYSTERESIS {round(torch.abs(agent.network().hysteresis).item() * 2**20)} " in header
