# SPDX-License-Identifier: GPL-2.0-only
"""All tuning environments: what they tell, and what they refuse alike."""

import copy
import pickle

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from kinds import OPTIONS
from vectors import assert_same

import bbrgym
from bbrgym.envs.tune_env import TuneEnv
from bbrgym.worlds import VectorWorld


def actions_of(env):
    """Default actions of all that act."""
    if hasattr(env, "agents"):
        return dict.fromkeys(env.agents, env.default_action)
    num_envs = getattr(env, "num_envs", None)
    return env.default_action if num_envs is None else np.stack([env.default_action] * num_envs)


def wrong(actions, change):
    """The actions, each changed."""
    return (
        {agent: change(action) for agent, action in actions.items()} if isinstance(actions, dict) else change(actions)
    )


def test_they_have_the_same_properties(make_any):
    env = make_any(max_tuned=3)
    assert env.tunables == ("bbq_beta", "bbq_alpha_us")
    assert env.max_tuned == 3
    assert env.default_action.shape == (2,)
    assert (env.flow_fields, env.link_fields) == (VectorWorld.flow_fields, VectorWorld.link_fields)
    with pytest.raises(ResetNeeded, match=r"call reset\(\) first"):
        env.step(actions_of(env))


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
@pytest.mark.parametrize("is_closed", [False, True])
def test_a_copy_would_share_the_worlds_and_is_refused(make_any, duplicate, is_closed):
    env = make_any()
    env.reset()
    if is_closed:
        env.close()
    with pytest.raises(TypeError, match=f"{type(env).__name__} cannot be copied or pickled from its first reset on"):
        duplicate(env)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_before_the_first_reset_a_copy_is_another_one_of_the_same_arguments(make_any, duplicate, closed):
    env = make_any(frame_stack=2)
    again = closed(duplicate(env))
    assert type(again) is type(env)
    assert getattr(again, "spec", None) == getattr(env, "spec", None)
    results = []
    for one in (env, again):
        if hasattr(one, "seed"):
            one.seed(3)
        begun = one.reset() if hasattr(one, "seed") else one.reset(seed=3)
        results.append((begun, one.step(actions_of(one))))
    assert_same(*results)


def test_a_derived_class_with_arguments_of_its_own_is_pickled_by_its_own_rules(closed):
    with pytest.raises(TypeError, match="Derived cannot be copied or pickled"):
        pickle.dumps(closed(Derived(0.5)))
    again = closed(pickle.loads(pickle.dumps(closed(DerivedToo(0.5)))))
    assert again.tunables == ("bbq_beta",)


class Derived(TuneEnv):
    def __init__(self, bonus):
        super().__init__(**OPTIONS | {"tunables": ["bbq_beta"]})
        self.bonus = bonus


class DerivedToo(Derived, gymnasium.utils.EzPickle):
    def __init__(self, bonus):
        gymnasium.utils.EzPickle.__init__(self, bonus)
        super().__init__(bonus)


def test_a_picture_shows_the_episode_so_far(make_any):
    env = make_any(render_mode="rgb_array")
    env.reset()
    before = np.array(env.render())
    env.step(actions_of(env))
    assert (before.shape[-2:], before.dtype) == ((960, 3), np.uint8)
    assert not np.array_equal(before, env.render())


@pytest.mark.parametrize("has_begun", [False, True])
def test_nothing_revives_a_closed_environment(make_any, has_begun):
    env = make_any()
    env.reset()
    actions = actions_of(env)
    if not has_begun:
        env.close()
        env = make_any()
    env.close()
    with pytest.raises(ClosedEnvironmentError, match="the environment is closed: make another one"):
        env.reset()
    with pytest.raises(ClosedEnvironmentError, match="the environment is closed: make another one"):
        env.step(actions)
    assert env._batch.episodes.worlds is None


@pytest.mark.parametrize(
    "change",
    [
        lambda action: np.ma.masked_array(action, np.zeros(action.shape, bool)),
        lambda action: np.ma.masked_greater(action, -2.0),
        lambda action: action + 0j,
        lambda action: action.astype(object),
        lambda action: action.astype(str),
        lambda action: action[..., None],
        lambda action: action * np.nan,
    ],
    ids=["masked nowhere", "masked", "complex", "objects", "texts", "another shape", "NaN"],
)
def test_actions_that_are_no_arrays_of_numbers_are_refused(make_any, change):
    env = make_any()
    env.reset()
    actions = actions_of(env)
    with pytest.raises(bbrgym.ConfigError, match=r"^action: .*allowed are 2 numbers in \[-1, 1\]"):
        env.step(wrong(actions, change))
    env.step(actions)


def test_masked_levels_are_refused(make_any):
    env = make_any(levels=3)
    env.reset()
    with pytest.raises(bbrgym.ConfigError, match="allowed are 2 whole numbers"):
        env.step(wrong(actions_of(env), lambda action: np.ma.masked_array(action, np.ones(action.shape, bool))))
