# SPDX-License-Identifier: GPL-2.0-only
"""All kinds of tuning environments."""

import plain_envs
import pytest
from vectors import crowd

import bbrgym.envs  # noqa: F401 - registers the environments


def make_tune(**options):
    return plain_envs.make("bbrgym/Tune-v2", **options).unwrapped


def make_vector(**options):
    return plain_envs.make_vec("bbrgym/Tune-v2", num_envs=2, **options)


def make_vec(**options):
    return pytest.importorskip("bbrgym.envs.tune_vec_env", exc_type=ImportError).TuneVecEnv(
        2, **{**plain_envs.PLAIN, **options}
    )


def make_flow_vec(**options):
    return pytest.importorskip("bbrgym.envs.flow_vec_env", exc_type=ImportError).FlowVecEnv(
        1, **{**plain_envs.PLAIN, **options}
    )


def make_multi(**options):
    return pytest.importorskip("bbrgym.envs.multi", exc_type=ImportError).parallel_env(
        **{**plain_envs.PLAIN, **options}
    )


KINDS = [make_tune, make_vector, make_vec, make_flow_vec, make_multi]
OPTIONS = {"world": "twin", "scenario": crowd(2), "tunables": ["bbq_beta", "bbq_alpha_us"]}
