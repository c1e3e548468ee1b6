# SPDX-License-Identifier: GPL-2.0-only
"""Configurations composed without Hydra, against those that Hydra composes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hydra.core.utils import setup_globals
from hydra.types import RunMode
from hypothesis import given, settings
from hypothesis import strategies as st

from bbrgym.cli.composition import Loader, plain_values
from bbrgym.cli.plain_composition import plain_config
from bbrgym.config.overrides import override_of, parse_override
from bbrgym.evaluate.evaluation_settings import Evaluation
from bbrgym.scenario.shipped import shipped

MODELS = (Evaluation,)


def by_hydra(overrides: Sequence[str]) -> dict[str, Any]:
    setup_globals()
    return plain_values(Loader(models=MODELS).load_configuration("evaluate", list(overrides), RunMode.RUN))


SCENARIO_FIELDS = ["scenario.duration_s=20", "scenario.duration_s=7.5", "scenario.link.rate_mbps=50"]
OPTIONS = {
    "world": ["world=twin", "world=[ns3,twin]", "world=[twin]"],
    "variants": ["variants=[bbq]", "variants=[bbr,bbr-plus]", "variants=cubic"],
    "seeds": ["seeds=[1]", "seeds=[1,2,30]", "seeds=3"],
    "agent": ["agent=random", "agent=[random,oracle]", "agent=runs/mine"],
    "draws": ["draws=7"],
    "interval_s": ["interval_s=1", "interval_s=0.25"],
    "jobs": ["jobs=2", "jobs=null"],
    "trust": ["trust=true"],
    "reference": ["reference=bbr"],
    "figures": ["figures.format=png", "figures.style=paper"],
    "output_dir": ["output_dir=/tmp/a/b", "output_dir=runs/mine"],
    "resume": ["resume=true"],
    "logger": ["logger=csv", "logger=none"],
}


@settings(max_examples=12)  # Hydra takes a third of a second for each
@given(
    st.sampled_from(sorted(shipped())),
    st.lists(st.sampled_from(SCENARIO_FIELDS), max_size=1),
    st.lists(st.sampled_from(sorted(OPTIONS)), unique=True).flatmap(
        lambda keys: st.tuples(*(st.sampled_from(OPTIONS[key]) for key in keys))
    ),
)
def test_a_plain_command_line_gives_hydra_s_configuration(scenario: str, fields: list[str], options: list[str]) -> None:
    overrides = [f"scenario={scenario}", *fields, *options]
    plain = plain_config("evaluate", overrides, MODELS)
    if plain is not None:  # as of a scenario's field that the scenario's file does not have
        assert repr(dict(sorted(plain.items()))) == repr(dict(sorted(by_hydra(overrides).items())))
    assert plain is not None or fields


@given(
    st.from_regex(r"[/\w.\[\],-]{1,12}", fullmatch=True)
    | st.sampled_from(["True", "NULL", "nan", "-inf", "1e3", "01", "-0", "1_0", ".5", "5.", "1.50", "0x1", "a.b", "/a"])
)
def test_a_value_is_read_as_by_hydra_or_left_to_it(text: str) -> None:
    config = plain_config("evaluate", [f"output_dir={text}"], MODELS)
    if config is not None:
        assert repr(config["output_dir"]) == repr(parse_override(f"output_dir={text}").value())


@given(st.from_regex(r"/?[\w/.=-]{1,20}", fullmatch=True))
def test_a_path_needs_no_quotes_where_it_gets_none(path: str) -> None:
    assert parse_override(override_of("output_dir", path)).value() == path


@pytest.mark.parametrize(
    "overrides",
    [
        ["-m", "seeds=1,2"],
        ["seeds=1,2"],
        ["scenario=stedy"],
        ["scenario=mine.yaml"],
        ["world=twn"],
        ["world=[twin,twin]"],
        ["world.twin.isolation=process"],
        ["draw=3"],
        ["draws=a"],
        ["draws=3", "draws=4"],
        ["tunables=[1]"],
        ["+jobs=2"],
        ["scenario.flows=[1]"],
        ["scenario.flows.0.rtt_ms=3"],
        ["jobs=${draws}"],
        ["experiment=two_worlds"],
        ["agent='a b'"],
    ],
)
def test_what_is_not_plain_is_left_to_hydra(overrides: list[str]) -> None:
    assert plain_config("evaluate", overrides, MODELS) is None
