# SPDX-License-Identifier: GPL-2.0-only
"""Arguments of environments: of which types, which are refused and how, and where they are made elsewhere."""

import dataclasses
import subprocess
import sys

import numpy as np
import pytest
from kinds import OPTIONS, make_tune
from omegaconf import OmegaConf
from vectors import Crowds, crowd, drawn

import bbrgym
from bbrgym.agents.training.settings import TrainingSettings, parse_training
from bbrgym.cli.composition import compose_config
from bbrgym.envs.ns3gym_env import Ns3GymEnv
from bbrgym.envs.observation import FEATURE_LISTS
from bbrgym.envs.options import Options
from bbrgym.envs.reward import Reward


def test_an_unknown_argument_is_pythons_type_error_too(make_any):
    """As TorchRL and Stable-Baselines3 look for."""
    with pytest.raises(TypeError, match=r"__init__\(\) got an unexpected keyword argument 'frameskip'") as error:
        make_any(frameskip=2)
    assert isinstance(error.value, bbrgym.ConfigError)
    with pytest.raises(TypeError, match=r"__init__\(\) got an unexpected keyword argument 'render_mode'"):
        Ns3GymEnv(render_mode="rgb_array")


def test_what_the_hint_names_shows_the_arguments():
    with pytest.raises(bbrgym.ConfigError, match=r"; help\(bbrgym\.envs\.options\.Options\) shows all \d+"):
        make_tune(zzz=1)
    with pytest.raises(bbrgym.ConfigError, match=r"features: 'zzz': help\(bbrgym\.envs\.tune_env\.TuneEnv\) shows all"):
        make_tune(**OPTIONS, features=["zzz"])


TYPES = {
    "numpy": {
        "tunables": np.array(["bbq_beta"]),
        "control_interval_s": np.float64(0.1),
        "frame_stack": np.int64(2),
        "features": np.array(["active", "bw"]),
        "reward": {"throughput": np.float64(2.0)},
        "numeric_infos": np.bool_(True),
        "max_tuned": np.array(3),
        "variant": np.str_("bbq"),
    },
    "omegaconf": dict(
        OmegaConf.create(
            {
                "tunables": ["bbq_beta"],
                "control_interval_s": 0.1,
                "frame_stack": 2,
                "features": ["active", "${one}"],
                "one": "bw",
                "reward": {"throughput": 2.0},
                "numeric_infos": True,
                "max_tuned": 3,
                "scenario": crowd(2),
            }
        )
    ),
}
TYPES["omegaconf"].pop("one")


@pytest.mark.parametrize("types", TYPES)
def test_types_of_others_count_as_pythons(make_any, types):
    plain = {"tunables": ["bbq_beta"], "frame_stack": 2, "features": ["active", "bw"], "reward": {"throughput": 2.0}}
    ours, theirs = make_any(**plain, numeric_infos=True, max_tuned=3), make_any(**TYPES[types])
    assert ours._batch._options == theirs._batch._options


@pytest.mark.parametrize(
    ("option", "wrong", "allowed"),
    [
        ("tunables", "bbq_beta", r"is a list of names: write \['bbq_beta'\]"),
        ("tunables", [1], "is a list of names"),
        ("features", "bw", r"are instant, memory, path, or a list of names: write \['bw'\]"),
        ("control_interval_s", float("nan"), "is a finite number above 0"),
        ("control_interval_s", "0.1", "is a number"),
        ("reward_horizon_s", float("inf"), "is a finite number above 0, or None"),
        ("reward_horizon_s", 0.0, "is a finite number above 0, or None"),
        ("hold_intervals", 0, "are whole numbers from 1"),
        ("frame_stack", True, "are whole numbers from 1"),
        ("levels", "3", "are whole numbers from 1"),
        ("flat", 1, "are True and False"),
        ("world", 3, "is a text"),
        ("variant", ["bbq"], "is a text"),
    ],
)
def test_values_of_another_type_are_refused(make_any, option, wrong, allowed):
    with pytest.raises(bbrgym.ConfigError, match=rf"^{option}: .*allowed {allowed}"):
        make_any(**{option: wrong})


LIBRARY = {"variant": "bbr-mix", "settings": {"a": {"bbr_up_gain": 1.1}, "b": {"bbr_cwnd_gain": 1.2}}}
CHOOSING = {"variant": "bbr-mix", "action_kind": "library", "library": LIBRARY}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"scenario": "stedy"}, "did you mean steady"),
        ({"scenario": {**crowd(1), "flows": [{"name": "a", "cc": "cubic", "rtt_ms": 9}]}}, "no flow with role tuned"),
        ({"world": "ns4"}, "world 'ns4': did you mean ns3"),
        # actions
        ({"action_kind": "relativ"}, "action_kind: 'relativ': did you mean relative"),
        ({"levels": 1}, "levels: 1, allowed are whole numbers from 2"),
        ({"levels": 2.0}, r"levels: 2\.0, allowed"),
        ({"action_kind": "relative", "levels": 4}, "levels: 4, allowed are odd numbers from 3: the middle level stays"),
        ({"flat": True}, "flat: True without levels, allowed with discrete actions: give levels"),
        ({"levels": 9, "flat": True}, "9 x 9 x 9 x 9 x 9 x 9 x 2 x 2 levels make 2125764 combinations"),
        ({"step_size": 0.0}, r"step_size: 0\.0, allowed are numbers above 0, up to 2"),
        ({"max_change": 2.1}, r"max_change: 2\.1, allowed are numbers above 0, up to 2"),
        ({"max_change": float("nan")}, "max_change: nan, allowed"),
        ({"max_change": "much"}, "max_change: 'much', allowed"),
        ({"variant": "bbz"}, "variant 'bbz': did you mean bb"),
        ({"variant": "cubic"}, "variant 'cubic' has no tunables to set"),
        ({"tunables": ["plus_alpha"]}, "tunables: 'plus_alpha' is not one of bbq's: .*allowed are bbr_up_gain"),
        ({"tunables": ["bbq_beta", "bbq_beta"]}, "allowed is a non-empty list without repetition"),
        ({"tunables": []}, "allowed is a non-empty list without repetition"),
        # from a library
        ({**CHOOSING, "variant": "bbq"}, "library.variant: is 'bbr-mix', expected that of the environment, 'bbq'"),
        ({**CHOOSING, "levels": 3}, "levels: 3 with action_kind 'library', allowed is none"),
        ({**CHOOSING, "flat": True}, "flat: True with action_kind 'library'"),
        ({**CHOOSING, "max_change": 0.1}, "max_change: 0.1 with action_kind 'library'"),
        ({**CHOOSING, "library": None}, "library: None with action_kind 'library', allowed is one with 'library' al"),
        ({**CHOOSING, "action_kind": "absolute"}, "with action_kind 'absolute', allowed is one with 'library' alone"),
        ({**CHOOSING, "tunables": ["bbr_cwnd_gain"]}, "tunables: .*, expected those of the library too, such as 'bbr_"),
        # observations
        ({"features": ["cwmd"]}, "features: 'cwmd': did you mean cwnd"),
        ({"features": "memry"}, "features: 'memry': did you mean memory.*, or a list of names"),
        ({"features": 3}, "features: 3, allowed are instant, memory, path, or a list of names"),
        ({"features": ["queue_delay_mean_ms"]}, "features: 'queue_delay_mean_ms'"),
        ({"features": ["cwnd", "cwnd"]}, "without repetition"),
        ({"frame_stack": 1.5}, "frame_stack: 1.5, allowed are whole numbers from 1"),
        ({"view": "one"}, "view: 'one', allowed are each and pooled"),
    ],
    ids=str,
)
def test_arguments_that_cannot_be_are_named(options, text):
    with pytest.raises(bbrgym.ConfigError, match=text):
        make_tune(**{"world": "twin", "scenario": "steady", **options})


@pytest.mark.parametrize(
    "scene", [crowd(3), Crowds(), drawn, "wan_mix"], ids=["given", "object", "function", "distribution"]
)
def test_infos_of_numbers_are_flat_and_always_of_the_same_names(closed, scene):
    env = closed(make_tune(world="twin", scenario=scene, numeric_infos=True, max_tuned=8))
    found, shapes = set(), set()
    for seed in range(3):
        _, info = env.reset(seed=seed)
        for _ in range(2):
            assert all(np.asarray(value).dtype.kind in "biuf" for value in info.values())
            found.add(frozenset(info))
            shapes.add(info["flow_stats"].shape)
            *_, info = env.step(env.default_action)
    assert len(found) == 1
    assert {"reward_terms.delay", "tunables.bbq_beta", "now_s", "flow_stats"} <= set(next(iter(found)))
    assert len(shapes) == 1 or callable(scene), "a function does not tell how many flows it draws"


@pytest.mark.parametrize("make_text", ['make("bbrgym:bbrgym/Tune-v2"', 'make_vec("bbrgym:bbrgym/Tune-v2", 2'])
def test_a_process_that_has_not_imported_the_package_makes_it(make_text):
    code = f"import gymnasium; env = gymnasium.{make_text}, world='twin'); env.reset(seed=1); print('made')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.strip() == "made", done.stderr


def test_an_environment_is_by_default_the_one_that_train_uses():
    config = compose_config("train", [])
    settings = parse_training({name: config[name] for name in TrainingSettings.model_fields if name in config})
    trained, made = settings.options(settings.world_name), Options()
    own = ("scenario", "features", "max_tuned", "flow_capacity", "reward", "isolation", "world_options")  # resolved
    for field in dataclasses.fields(Options):
        if field.name not in own:
            assert getattr(trained, field.name) == getattr(made, field.name), field.name
    assert Reward(trained.reward).weights == Reward(made.reward).weights
    assert settings.source.fields == bbrgym.load_distribution(made.scenario).fields
    assert [*trained.features] == [*FEATURE_LISTS[made.features]]
