# SPDX-License-Identifier: GPL-2.0-only
"""Values of NumPy, OmegaConf and such, which count as Python's own wherever a user gives one."""

from collections import UserList
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

import bbrgym
from bbrgym.evaluate.evaluation_settings import parse_settings
from bbrgym.papers.reproduction import parse_reproduction
from bbrgym.schema import plain

SCENARIO: dict[str, Any] = {
    "name": "mine",
    "duration_s": 2.0,
    "link": {"rate_mbps": 10.0, "queue": {"size_bdp": 2.0}, "changes": [{"at_s": 1.0, "rate_mbps": 5.0}]},
    "flows": [{"name": "one", "rtt_ms": 40.0, "count": 2}],
}

LEAVES = st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | st.text(max_size=4)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
)


def disguised(value: Any) -> Any:
    """The same value in types of others."""
    if isinstance(value, dict):
        return MappingProxyType({np.str_(name): disguised(one) for name, one in value.items()})
    if isinstance(value, list):
        kinds = {type(one) for one in value}
        if kinds in ({int}, {float}, {bool}):
            return np.array(value)
        return UserList([disguised(one) for one in value])
    return np.asarray(value)[()] if isinstance(value, bool | int | float) else value


@given(VALUES)
def test_what_others_types_hold_is_python_again(value: Any) -> None:
    assert repr(plain(disguised(value))) == repr(plain(value)) == repr(value)


@given(
    st.dictionaries(st.from_regex("[a-z]{1,3}", fullmatch=True), st.integers() | st.lists(st.booleans()), max_size=3)
)
def test_so_is_what_omegaconf_holds(value: dict[str, Any]) -> None:
    assert plain(OmegaConf.create(value)) == value


def test_ranges_classes_and_interpolations() -> None:
    assert plain(range(1, 4)) == [1, 2, 3]
    assert plain(Path) == "pathlib.Path"
    assert plain({"one": OmegaConf.create({"a": 2, "b": "${a}"})}) == {"one": {"a": 2, "b": 2}}
    with pytest.raises(bbrgym.ConfigError, match="Interpolation key 'c' not found"):
        plain(OmegaConf.create({"b": "${c}"}))


@pytest.mark.parametrize(
    "disguise", [disguised, OmegaConf.create, lambda value: value], ids=["numpy", "omegaconf", "no"]
)
def test_every_entry_point_takes_them(disguise: Any) -> None:
    scenario = disguise(SCENARIO)
    expected = bbrgym.load_scenario(SCENARIO)
    assert bbrgym.load_scenario(scenario) == expected
    assert bbrgym.Scenario(**scenario) == expected
    distribution = {**SCENARIO, "variables": {"rate": {"uniform": [1, 5]}}}
    drawn = bbrgym.Distribution(disguise(distribution))
    assert drawn(3) == bbrgym.load_distribution(disguise(distribution))(3) == bbrgym.Distribution(distribution)(3)
    with bbrgym.make_world("twin", scenario, np.int64(3), timeout_s=np.float32(30)) as world:
        world.set_tunables(np.int64(0), disguise({"bbr_cwnd_gain": 1.5}))
        world.advance(np.float64(0.5))
        assert (world.now_s, world.seed) == (0.5, 3)
    rows = bbrgym.evaluate(scenario, disguise(["bbr", "bbq"]), world="twin", seeds=disguise([1, 2]), jobs=np.int64(1))
    assert rows.equals(bbrgym.evaluate(SCENARIO, ["bbr", "bbq"], world="twin", seeds=[1, 2], jobs=1))


def test_requests_take_them() -> None:
    assert parse_settings({"variants": np.array(["bbr"]), "seeds": range(1, 3)}).seeds == (1, 2)
    assert parse_settings({"variants": ["bbr"], "world": OmegaConf.create(["twin"])}).world.keys() == {"twin"}
    asked = parse_reproduction({"experiment": np.array(["x"]), "seeds": np.int64(2), "recordings": Path("there")})
    assert (asked.experiment, asked.seeds, asked.recordings) == (("x",), 2, "there")


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"duration_s": True}, "duration_s: is True, expected a number"),
        ({"duration_s": np.bool_(True)}, "duration_s: is True, expected a number"),
        ({"duration_s": np.array([1.0])}, r"duration_s: is \[1.0\], expected a number"),
        ({"duration_s": np.float64("nan")}, "duration_s: is nan, expected a finite number"),
        ({"flows": "bbr"}, r"flows: is 'bbr', expected a list: write \['bbr'\]"),
        ({"flows": {"a", "b"}}, "flows: is {.*}, expected a list"),
    ],
)
def test_what_is_none_of_these_is_refused(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(bbrgym.ScenarioError, match=problem):
        bbrgym.load_scenario({**SCENARIO, **fields})


@pytest.mark.parametrize(
    "values", [{"bbr_cwnd_gain": True}, {"bbr_cwnd_gain": "2"}, {"bbr_cwnd_gain": np.nan}, ["bbr"]]
)
def test_a_world_refuses_tunables_that_are_no_numbers(values: Any) -> None:
    with (
        bbrgym.make_world("twin", SCENARIO) as world,
        pytest.raises(bbrgym.ConfigError, match="flow 'one-0': tunables"),
    ):
        world.set_tunables(0, values)
