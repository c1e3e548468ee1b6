# SPDX-License-Identifier: GPL-2.0-only
"""Libraries of settings: their files, and the actions that choose from them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import plain_envs
import pytest
from gymnasium import spaces
from vectors import scenario

import bbrgym
from bbrgym.envs.action import ActionMapping
from bbrgym.envs.library import load_library, write_library
from bbrgym.envs.scaling import TunableScaling
from bbrgym.tunables import VARIANTS

FIELDS: dict[str, Any] = {
    "variant": "bbr-mix",
    "units": {"bbr_cwnd_gain": "ratio", "use_probe_cap": "switch"},
    "settings": {
        "draining": {"bbr_cwnd_gain": 1.24, "use_probe_cap": 1},
        "preset": {},
        "careful": {"bbr_up_gain": 1.1},
    },
}


def with_settings(**settings: Any) -> dict[str, Any]:
    """A library of these settings of bbr-mix."""
    return {"variant": "bbr-mix", "settings": settings}


def test_a_file_is_read_as_its_contents(tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text(json.dumps(FIELDS))
    library = load_library(tmp_path / "mine.json")
    assert library == load_library(FIELDS) == load_library(library)
    assert library.tunables == ("bbr_up_gain", "bbr_cwnd_gain", "use_probe_cap")
    preset = VARIANTS["bbr-mix"].preset
    assert library.values(["use_probe_cap", "bbr_cwnd_gain"]).tolist() == [
        [1.0, 1.24],
        *[[preset["use_probe_cap"], preset["bbr_cwnd_gain"]]] * 2,
    ]


def test_what_is_written_is_read_again_with_all_units_and_in_order(tmp_path: Path) -> None:
    library = load_library({**FIELDS, "origin": {"draws": 256}})
    for name in ("one.yaml", "other.yaml"):
        write_library(tmp_path / name, library)
    assert (tmp_path / "one.yaml").read_bytes() == (tmp_path / "other.yaml").read_bytes()
    again = load_library(str(tmp_path / "one.yaml"))
    assert list(again.settings.items()) == list(library.settings.items())
    assert again.units == {"bbr_up_gain": "ratio", "bbr_cwnd_gain": "ratio", "use_probe_cap": "switch"}
    assert again.origin == {"draws": 256}


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"settings": {"a": {}}}, r"library\.variant: is missing"),
        ({"variant": "bbq"}, r"library\.settings: is missing"),
        ({**FIELDS, "variant": "bqq"}, r"library\.variant: is 'bqq'; did you mean bbq"),
        (with_settings(a={"bbr_cwnd_gian": 1}), r"settings\.a\.bbr_cwnd_gian: is not a tunable of bbr-mix; did"),
        (with_settings(a={"bbr_cwnd_gain": 99}), r"library\.settings\.a\.bbr_cwnd_gain: is 99, expected .* \(ratio\)"),
        (with_settings(a={"use_probe_cap": 0.5}), r"settings\.a\.use_probe_cap: is 0.5, expected a whole number"),
        (with_settings(a={"bbr_cwnd_gain": "2"}), r"library\.settings\.a\.bbr_cwnd_gain: is '2', expected a number"),
        (
            with_settings(a={"pg_trand_low_us": 9e6, "pg_trand_high_us": 8e6}),
            r"library\.settings\.a\.pg_trand_high_us: is 8e\+06, expected at least pg_trand_low_us = 9e\+06",
        ),
        (with_settings(a={}), r"library\.settings: is .*, expected one with a tunable at least"),
        ({**FIELDS, "units": {"bbr_cwnd_gain": "us"}}, r"library\.units\.bbr_cwnd_gain: is 'us', expected 'ratio'"),
        ({**FIELDS, "units": {"bbq_beta": "ratio"}}, r"library\.units\.bbq_beta: is 'ratio', but no setting has it"),
        ({**FIELDS, "setings": {}}, r"library\.setings: .*settings"),
        ([FIELDS], "library: .*, expected a file or a mapping with variant and settings"),
        ("/none/such.yaml", "cannot read '/none/such.yaml'"),
    ],
)
def test_what_is_wrong_is_one_clear_error(fields: Any, says: str) -> None:
    with pytest.raises(bbrgym.ConfigError, match=says) as error:
        load_library(fields)
    assert "\n" not in str(error.value)


def mapping(fields: Any = FIELDS, variant: str = "bbr-mix", tunables: Any = None, **options: Any) -> ActionMapping:
    """Actions that choose from a library."""
    library = load_library(fields)
    scaling = TunableScaling(variant, library.tunables if tunables is None else tunables)
    return ActionMapping(scaling, "library", library=library, **options)


def test_an_action_gives_the_values_of_its_setting_exactly() -> None:
    actions, library = mapping(), load_library(FIELDS)
    assert actions.space == spaces.Discrete(3)
    current = np.zeros((4, 3), np.float32)
    values, normalised = actions.apply(np.array([2, 0, 1, 0]), current)
    assert values.tolist() == library.values(library.tunables)[[2, 0, 1, 0]].tolist()
    assert np.allclose(TunableScaling("bbr-mix", library.tunables).values(normalised), values, rtol=1e-6)
    values[:] = 0.0
    assert actions.apply(np.array([0]), current)[0].tolist() == library.values(library.tunables)[:1].tolist()


def test_the_default_action_is_the_setting_nearest_to_the_preset() -> None:
    assert mapping().default == 1
    assert mapping(with_settings(far={"bbr_cwnd_gain": 4}, near={"bbr_cwnd_gain": 2.1})).default == 1


@pytest.mark.parametrize("action", [3, -1, 0.0, [0, 1], None])
def test_an_action_outside_the_library_is_refused(action: Any) -> None:
    env = plain_envs.make(
        "bbrgym/Tune-v2", world="twin", scenario=scenario(), variant="bbr-mix", action_kind="library", library=FIELDS
    ).unwrapped
    env.reset(seed=1)
    with pytest.raises(bbrgym.ConfigError, match=r"action: .*, allowed are whole numbers from 0 to 2"):
        env.step(action)
    env.close()
