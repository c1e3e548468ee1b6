# SPDX-License-Identifier: GPL-2.0-only
"""Overrides of a command line: whatever text is given is kept, and jobs have names that files can have."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bbrgym.config.overrides import job_name, key_of, override_of, parse_override
from bbrgym.errors import ConfigError


@given(st.dictionaries(st.from_regex(r"[a-z]{1,8}", fullmatch=True), st.text(min_size=1, max_size=300), min_size=1))
def test_names_are_file_names_of_bounded_length_and_always_the_same(parameters: dict[str, str]) -> None:
    name = job_name(parameters)
    assert re.fullmatch(r"[\w.+-]{1,140}", name, re.ASCII)
    assert name == job_name(dict(parameters))


@given(st.lists(st.text(min_size=1), min_size=2, max_size=2, unique=True))
def test_other_values_have_other_names(values: list[str]) -> None:
    one, two = (job_name({"option": value}) for value in values)
    assert one != two


@given(st.text(alphabet=st.characters(exclude_categories=("Cs",), exclude_characters="\n\r\x00"), max_size=40))
def test_an_option_gets_the_text_that_it_is_given(value: str) -> None:
    override = override_of("logger.project", value)
    assert key_of(override) == "logger.project"
    assert parse_override(override).value() == value


@pytest.mark.parametrize("text", ["rate", "a=[1", "a={b"])
def test_what_is_not_an_override_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is not an override like"):
        parse_override(text)
