# SPDX-License-Identifier: GPL-2.0-only
"""All tuning environments: what they tell, and what they refuse alike."""

import copy
import pickle

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from vectors import crowd

import bbrgym
from bbrgym.worlds import VectorWorld

OPTIONS = {"world": "twin", "scenario": crowd(2), "tunables": ["bbq_beta", "bbq_alpha_us"]}


def make_tune(**options):
    return gymnasium.make("bbrgym/Tune-v0", **options).unwrapped


def make_vector(**options):
    return gymnasium.make_vec("bbrgym/Tune-v0", num_envs=2, **options)


def make_vec(**options):
    return pytest.importorskip("bbrgym.envs.tune_vec_env", exc_type=ImportError).TuneVecEnv(2, **options)


def make_flow_vec(**options):
    return pytest.importorskip("bbrgym.envs.flow_vec_env", exc_type=ImportError).FlowVecEnv(1, **options)


def make_multi(**options):
    return pytest.importorskip("bbrgym.envs.multi", exc_type=ImportError).parallel_env(**options)


KINDS = [make_tune, make_vector, make_vec, make_flow_vec, make_multi]


@pytest.fixture(params=KINDS, ids=lambda make: make.__name__.removeprefix("make_"))
def make(request, closed):
    """Makes environments of one kind."""
    return lambda **options: closed(request.param(**{**OPTIONS, **options}))


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


def test_they_have_the_same_properties(make):
    env = make(max_learners=3)
    assert env.tunables == ("bbq_beta", "bbq_alpha_us")
    assert env.max_learners == 3
    assert env.default_action.shape == (2,)
    assert (env.flow_fields, env.link_fields) == (VectorWorld.flow_fields, VectorWorld.link_fields)


@pytest.mark.parametrize("has_begun", [False, True])
@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_copy_would_share_the_worlds_and_is_refused(make, duplicate, has_begun):
    env = make()
    if has_begun:
        env.reset()
    with pytest.raises(TypeError, match=f"{type(env).__name__} cannot be copied or pickled"):
        duplicate(env)


def test_a_step_needs_a_reset(make):
    env = make()
    with pytest.raises(ResetNeeded, match=r"call reset\(\) first"):
        env.step(actions_of(env))


@pytest.mark.parametrize("has_begun", [False, True])
def test_nothing_revives_a_closed_environment(make, has_begun):
    env = make()
    env.reset()
    actions = actions_of(env)
    if not has_begun:
        env.close()
        env = make()
    env.close()
    with pytest.raises(ClosedEnvironmentError, match="the environment is closed: make another one"):
        env.reset()
    with pytest.raises(ClosedEnvironmentError, match="the environment is closed: make another one"):
        env.step(actions)
    assert env._batch.worlds is None


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
def test_actions_that_are_no_arrays_of_numbers_are_refused(make, change):
    env = make()
    env.reset()
    actions = actions_of(env)
    with pytest.raises(bbrgym.ConfigError, match=r"^action: .*allowed are 2 numbers in \[-1, 1\]"):
        env.step(wrong(actions, change))
    env.step(actions)


def test_masked_levels_are_refused(make):
    env = make(levels=3)
    env.reset()
    with pytest.raises(bbrgym.ConfigError, match="allowed are 2 whole numbers"):
        env.step(wrong(actions_of(env), lambda action: np.ma.masked_array(action, np.ones(action.shape, bool))))
