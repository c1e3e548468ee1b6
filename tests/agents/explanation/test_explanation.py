# SPDX-License-Identifier: GPL-2.0-only
"""An agent is explained by what shuffled features change; the command says so."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny import SCENARIO, asked

from bbrgym.agents.explanation.episodes import recorded_episodes
from bbrgym.agents.explanation.explanation import explain
from bbrgym.agents.explanation.shuffling import TUNABLES, columns_by_feature, shuffled_features
from bbrgym.agents.loading import load_agent
from bbrgym.agents.rollout import make_rollout, options_for
from bbrgym.agents.training.train_agent import train
from bbrgym.cli.main import main
from bbrgym.scenario.distribution import load_distribution
from bbrgym.worlds import Flags
from bbrgym.worlds.score import Objective

DRAWS = 6
RIVAL = {"name": "cubic", "number": {"choice": [0, 1]}, "cc": "cubic", "rtt_ms": 20.0}
TWO = {**SCENARIO["flows"][0], "number": 2}
PPO = asked(
    "ppo",
    scenario={**SCENARIO, "flows": [TWO, RIVAL]},
    env={"name": "multi", "control_interval_s": 0.25},
    observation="path",
)


@pytest.fixture(scope="module")
def ppo_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ppo") / "run"
    train(output_dir=folder, **PPO)
    return folder


def test_the_episodes_are_those_of_the_validation(ppo_run: Path) -> None:
    explanation = explain(ppo_run, checkpoint="last", draws=DRAWS)
    agent, arguments = load_agent(ppo_run, "last")
    scenarios = [one.scenario for one in explanation.episodes]
    options = options_for(agent, **{**arguments, "world": "twin", "scenario": scenarios})
    rollout = make_rollout(options, [one.seed for one in explanation.episodes])
    np.testing.assert_array_equal(rollout.scores(agent.make_policy), [one.score for one in explanation.episodes])
    rollout.close()
    for one in explanation.episodes:
        assert len(one.times_s) == len(one.queue_delay_ms) == len(one.goodput_mbps)
        assert one.times_s[-1] == pytest.approx(one.scenario.duration_s)
        assert one.goodput_mbps.shape[1] == len(one.flows)


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


def test_the_command_prints_the_table_and_writes_the_page(ppo_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(ppo_run), "--checkpoint", "last", "--draws", "3"]) == 0
    printed = capsys.readouterr().out
    assert "Each tuned flow decides every 0.25 s. A feature's part is what changes if it is" in printed
    assert "What changes if a feature is that of another episode" in printed
    assert TUNABLES in printed
    assert f"report: {ppo_run / 'explained' / 'report.html'}" in printed
    page = (ppo_run / "explained" / "report.html").read_text()
    assert "One episode of" in page
    assert TUNABLES in (ppo_run / "explained" / "summary.txt").read_text()


def test_too_few_draws_are_refused(ppo_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(ppo_run), "--draws", "1"]) == 2
    assert capsys.readouterr().err == "bbrgym: draws: is 1, allowed are whole numbers from 2\n"
