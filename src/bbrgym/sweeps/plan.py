# SPDX-License-Identifier: GPL-2.0-only
"""Plans a sweep: a job for every combination of the options with several values, in Hydra's grammar.

agent=ppo,sac seed=range(1,4)    -> 6 jobs: agent-ppo_seed-1, agent-ppo_seed-2, ...
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hydra.core.override_parser.types import Override

from bbrgym.compose import compose_config, job_name, key_of, parse_override
from bbrgym.errors import ConfigError

_GIVEN = ("output_dir", "resume")  # the sweep sets these for each job


@dataclass(frozen=True)
class SweepJob:
    """Request of one job.

    Attributes:
        name: of its run folder; always the same for the same combination.
        command: train or evaluate.
        parameters: values of the options that differ between jobs, as written on a command line.
        overrides: all options, these included.
    """

    name: str
    command: str
    parameters: Mapping[str, str]
    overrides: tuple[str, ...]


@dataclass(frozen=True)
class JobOptions:
    """Parsed options of jobs.

    Attributes:
        fixed: overrides that all jobs share.
        swept: values by option, of the options with several.
        open: ranges by option, from which only a search takes values.
    """

    fixed: tuple[str, ...]
    swept: Mapping[str, tuple[str, ...]]
    open: Mapping[str, Override]

    def keys(self) -> set[str]:
        """Return the keys of all options."""
        return {key_of(text) for text in self.fixed} | set(self.swept) | set(self.open)


def parse_options(overrides: Sequence[str]) -> JobOptions:
    """Parse the options of the jobs.

    Raises:
        ConfigError: an override is malformed, given twice, or one that the sweep sets itself.
    """
    fixed: list[str] = []
    swept: dict[str, tuple[str, ...]] = {}
    ranges: dict[str, Override] = {}
    for text in overrides:
        override = parse_override(text)
        key = override.get_key_element()
        if override.key_or_group in _GIVEN:
            raise ConfigError(f"{override.key_or_group}: a sweep gives each job its own, expected sweep_dir and resume")
        if key in {key_of(one) for one in fixed} or key in swept or key in ranges:
            raise ConfigError(f"{key}: is given twice, expected once")
        if not override.is_sweep_override():
            fixed.append(text)
        elif override.is_interval_sweep():
            ranges[key] = override
        elif override.is_discrete_sweep() and hasattr(override.value(), "tags"):
            swept[key] = tuple(override.sweep_string_iterator())
            if len(set(swept[key])) < len(swept[key]):
                raise ConfigError(f"{key}: is {', '.join(swept[key])}, expected each value once")
        else:
            raise ConfigError(f"{text!r}: expected values such as {key}=1,2,3 or {key}=range(1,4)")
    return JobOptions(tuple(fixed), swept, ranges)


def jobs_of(
    command: str, options: JobOptions, chosen: Mapping[str, str] | None = None, prefix: str = ""
) -> list[SweepJob]:
    """Return a job for each combination.

    Args:
        command: train or evaluate.
        options: of all jobs.
        chosen: parameters from a trial of a search, which all these jobs share. Default: none.
        prefix: of the jobs' names, which stands for these parameters.
    """
    jobs = []
    for values in itertools.product(*options.swept.values()):
        combination = dict(zip(options.swept, values, strict=True))
        parameters = {**(chosen or {}), **combination}
        name = "_".join(filter(None, (prefix, job_name(combination)))) or command
        overrides = (*options.fixed, *(f"{key}={value}" for key, value in parameters.items()))
        jobs.append(SweepJob(name, command, parameters, overrides))
    return jobs


def check(jobs: Iterable[SweepJob]) -> None:
    """Compose the configuration of each job.

    Raises:
        ScenarioError, ConfigError: a job's options are wrong, or two jobs have one name.
    """
    names = set[str]()
    for job in jobs:
        if job.name in names:
            raise ConfigError(f"two jobs would have the name {job.name}")
        names.add(job.name)
        try:
            compose_config(job.command, job.overrides)
        except ConfigError as error:
            raise ConfigError(f"job {job.name}: {error}") from error
