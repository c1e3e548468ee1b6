# SPDX-License-Identifier: GPL-2.0-only
"""All kinds of tuning environments."""

import gymnasium
import pytest

import bbrgym.envs  # noqa: F401 - registers the environments


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
