# SPDX-License-Identifier: GPL-2.0-only
"""Which jobs a sweep has."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bbrgym.compose import job_name
from bbrgym.errors import ConfigError
from bbrgym.sweeps.plan import check, jobs_of, parse_options


def names(*overrides: str) -> list[str]:
    return [job.name for job in jobs_of("train", parse_options(overrides))]


def test_every_combination_is_a_job_with_a_name_of_its_own() -> None:
    jobs = jobs_of("train", parse_options(["agent=ppo,sac", "variant=bbq", "seed=range(1,4)"]))
    assert [job.name for job in jobs] == [
        f"agent-{agent}_seed-{seed}" for agent in ("ppo", "sac") for seed in (1, 2, 3)
    ]
    assert jobs[1].overrides == ("variant=bbq", "agent=ppo", "seed=2")
    assert jobs[1].parameters == {"agent": "ppo", "seed": "2"}


def test_without_several_values_there_is_one_job() -> None:
    assert names("seed=1") == ["train"]


def test_a_list_is_one_value_and_choices_are_several() -> None:
    assert len(names("action.tunables=[bbq_beta],[bbq_alpha_us,bbq_beta]")) == 2
    assert len(names("action.tunables=[bbq_alpha_us,bbq_beta]")) == 1
    assert names("agent.learning_rate=choice(1e-3,0.0001)") == [
        "agent.learning_rate-0.001",
        "agent.learning_rate-0.0001",
    ]


@given(st.dictionaries(st.from_regex(r"[a-z]{1,8}", fullmatch=True), st.text(min_size=1, max_size=300), min_size=1))
def test_names_are_file_names_of_bounded_length_and_always_the_same(parameters: dict[str, str]) -> None:
    name = job_name(parameters)
    assert re.fullmatch(r"[\w.+-]{1,140}", name, re.ASCII)
    assert name == job_name(dict(parameters))


@given(st.lists(st.text(min_size=1), min_size=2, max_size=2, unique=True))
def test_other_values_have_other_names(values: list[str]) -> None:
    one, two = (job_name({"option": value}) for value in values)
    assert one != two


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("output_dir=x", "output_dir: a sweep gives each job its own, expected sweep_dir"),
        ("seed=1,1", "seed: is 1, 1, expected each value once"),
        ("agent=glob(*)", "expected values such as agent=1,2,3"),
        ("seed", "'seed' is no override"),
    ],
)
def test_what_cannot_be_is_refused(override: str, says: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(says)):
        parse_options([override])


def test_an_option_is_given_once() -> None:
    with pytest.raises(ConfigError, match="seed: is given twice"):
        parse_options(["seed=1", "seed=1,2"])


def test_a_job_that_cannot_be_is_named_before_anything_runs() -> None:
    with pytest.raises(ConfigError, match="job agent-pppo: agent: is 'pppo'; did you mean ppo"):
        check(jobs_of("train", parse_options(["agent=ppo,pppo"])))
    with pytest.raises(ConfigError, match="job seed-1: total_step: is no option; did you mean total_steps"):
        check(jobs_of("train", parse_options(["total_step=3", "seed=1,2"])))
