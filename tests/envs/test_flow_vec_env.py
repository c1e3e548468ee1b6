# SPDX-License-Identifier: GPL-2.0-only
import numpy as np
import pytest
from plain_envs import PLAIN
from vectors import Crowds, assert_same, coming_and_going, crowd, drawn

import bbrgym

pytest.importorskip("stable_baselines3", reason="what is tested is made for it")
pytest.importorskip("pettingzoo", reason="it is what the rows are compared with")
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import VecNormalize

from bbrgym.envs.flow_vec_env import FlowVecEnv
from bbrgym.envs.multi import parallel_env


@pytest.fixture
def make(closed):
    """Makes vectors in the twin."""

    def make_one(num_worlds=3, **options):
        return closed(FlowVecEnv(num_worlds, **{**PLAIN, "world": "twin", "scenario": crowd(3), **options}))

    return make_one


class World:
    """One world of agents, run by itself and reset when it has none left."""

    def __init__(self, seed, **options):
        self.env = parallel_env(**{**PLAIN, "world": "twin", **options})
        self.returns, self.lengths = {}, {}
        self.seen, self.infos = self.env.reset(seed=seed)
        self._begin()

    def _begin(self):
        self.returns = dict.fromkeys(self.env.possible_agents, 0.0)
        self.lengths = dict.fromkeys(self.env.possible_agents, 0)

    def step(self, actions):
        """Of the agents that acted: rewards, infos, and what those saw last that left."""
        self.seen, rewards, _, truncated, self.infos = self.env.step(actions)
        for agent in actions:
            self.returns[agent] += rewards[agent]
            self.lengths[agent] += 1
        last = {agent: self.seen[agent] for agent, has_left in truncated.items() if has_left}
        infos = {agent: self.infos[agent] for agent in actions}
        episodes = {agent: {"r": self.returns[agent], "l": self.lengths[agent]} for agent in last}
        if not self.env.agents:
            self.seen, self.infos = self.env.reset()
            self._begin()
        return rewards, infos, last, episodes


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"frame_stack": 3, "reward_scope": "own", "variant": "bbr-mix", "action_kind": "relative"},
        {"tunables": ["bbq_beta", "bbq_latch"], "levels": 3, "flat": True, "max_change": 0.5},
    ],
    ids=str,
)
def test_its_rows_are_the_agents_of_worlds_run_one_by_one(make, options):
    scenarios = [coming_and_going(), Crowds(), crowd(3, 0.6), drawn, "steady"]
    envs = make(5, scenario=scenarios, **options)
    assert envs.world_of_row.tolist() == [0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 3, 3, 4]
    assert envs.tuned_of_row.tolist() == [0, 1, 2, 0, 1, 2, 3, 0, 1, 2, 0, 1, 0]
    worlds = [World(7 + i, scenario=each, **options) for i, each in enumerate(scenarios)]
    agents = [
        worlds[world].env.possible_agents[slot]
        for world, slot in zip(envs.world_of_row, envs.tuned_of_row, strict=True)
    ]
    assert envs.observation_space == worlds[0].env.observation_space(agents[0])
    assert envs.action_space == worlds[0].env.action_space(agents[0])
    envs.action_space.seed(1)
    envs.seed(7)
    observations = envs.reset()
    ends = 0
    for _ in range(40):
        acts = envs.row_will_act.copy()
        assert not observations[~acts].any()
        for row in np.flatnonzero(acts):
            assert observations[row].tobytes() == worlds[envs.world_of_row[row]].seen[agents[row]].tobytes()
        actions = np.stack([envs.action_space.sample() for _ in agents])
        observations, rewards, done, infos = envs.step(actions)
        assert envs.row_is_active.tolist() == acts.tolist()
        assert not rewards[~acts].any()
        for number, world in enumerate(worlds):
            rows = [row for row in np.flatnonzero(acts) if envs.world_of_row[row] == number]
            if not rows:  # the single world has passed over this
                continue
            assert [agents[row] for row in rows] == world.env.agents
            paid, single_infos, last, episodes = world.step({agents[row]: actions[row] for row in rows})
            for row in rows:
                agent, info = agents[row], infos[row]
                assert rewards[row] == np.float32(paid[agent])
                assert done[row] == info["TimeLimit.truncated"] == (agent in last)
                assert not info.pop("absent")
                if done[row]:
                    assert info.pop("TimeLimit.truncated")
                    assert info.pop("terminal_observation").tobytes() == last[agent].tobytes()
                    assert info.pop("episode") == episodes[agent]
                    assert_same(info, single_infos[agent])
                    ends += 1
    assert ends > 60
    for world in worlds:
        world.env.close()


def test_ends_of_rows(make):
    envs = make(1, scenario=coming_and_going())
    envs.seed(1)
    envs.reset()
    steps = [envs.step(np.zeros((3, *envs.action_space.shape), np.float32)) for _ in range(9)]
    names = ["first", "second", "third"]
    ends = [[name for name, is_end in zip(names, done, strict=True) if is_end] for _, _, done, _ in steps]
    assert ends == [[], ["second"], ["first"], ["second"], [], ["third"], [], [], names]
    real = [[info["TimeLimit.truncated"] for info in infos] for *_, infos in steps]
    assert [sum(each) for each in real] == [0, 0, 1, 1, 0, 0, 0, 0, 1]
    absent = [[info["absent"] for info in infos] for *_, infos in steps]
    assert [[not is_absent for is_absent in each] for each in absent][5] == [False] * 3
    for *_, done, infos in steps:
        for is_end, info in zip(done, infos, strict=True):
            assert is_end == ("terminal_observation" in info)
            assert info["TimeLimit.truncated"] == ("episode" in info)
            assert not info["absent"] or not info["TimeLimit.truncated"]


def test_full_infos_are_of_all_that_acted(make):
    envs = make(2, scenario=crowd(4), full_infos=True)
    envs.reset()
    *_, infos = envs.step(np.zeros((8, *envs.action_space.shape), np.float32))
    for has_acted, info in zip(envs.row_is_active, infos, strict=True):
        assert has_acted == ("reward_terms" in info) == ("flow_stats" in info)
    assert envs.row_is_active.sum() == 6


def test_rows_are_as_many_as_a_worlds_scenarios_need(make):
    assert make(3).num_envs == 9
    assert make(2, scenario=[crowd(1), Crowds()]).num_envs == 5
    assert make(2, scenario=[crowd(1), crowd(2)], max_tuned=4).num_envs == 8
    envs = make(2, scenario=[crowd(1), crowd(3)])
    envs.set_attr("scenario", crowd(1), 1)
    envs.reset()
    with pytest.raises(bbrgym.ConfigError, match=r"'crowd-of-2' has up to 2 .* at most 1: .*max_tuned=2"):
        envs.set_attr("scenario", crowd(2), 0)
    envs.step(np.zeros((4, *envs.action_space.shape), np.float32))


def test_attributes_and_methods_of_rows(make):
    envs = make(2, scenario=Crowds(), render_mode="rgb_array")
    envs.seed(1)
    envs.reset()
    flows = envs.get_attr("flow")
    assert [info.get("flow") for info in envs.reset_infos] == flows
    assert {None, "tuned-0"} < set(flows)
    assert envs.get_attr("world") == envs.world_of_row.tolist()
    assert envs.get_attr("tuned_flow") == envs.tuned_of_row.tolist()
    envs.set_attr("scenario", crowd(2), indices=[4])
    envs.reset()
    assert envs.get_attr("flow")[4:] == ["tuned-0", "tuned-1", None, None]
    assert envs.env_method("info", indices=4)[0]["flow"] == "tuned-0"
    assert envs.render().shape == (2 * 720, 960, 3)
    assert envs.env_is_wrapped(Monitor) == [True] * 8
    assert envs.env_is_wrapped(VecNormalize, 0) == [False]
