# SPDX-License-Identifier: GPL-2.0-only
"""Which jobs a sweep has: every combination of the options that are given several values, in Hydra's grammar.

agent=ppo,sac seed=range(1,4)    -> 6 jobs: agent-ppo_seed-1, agent-ppo_seed-2, ...
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hydra.core.override_parser.types import Override

from bbrgym.compose import compose_config, parse_override
from bbrgym.errors import ConfigError

COMMANDS = ("train", "evaluate")
_MAX_NAME = 120  # characters of a job's name: file systems allow 255 bytes, and endings follow
_DIGEST = 8
_GIVEN = ("output_dir", "resume")  # to each job by the sweep


@dataclass(frozen=True)
class Job:
    """What one job is asked for.

    Attributes:
        name: of its run folder; the same combination always has the same.
        command: train or evaluate.
        parameters: the options that differ between jobs, and their values as the command line has them.
        overrides: all options, these included.
    """

    name: str
    command: str
    parameters: Mapping[str, str]
    overrides: tuple[str, ...]


@dataclass(frozen=True)
class Options:
    """The options of jobs, parsed.

    Attributes:
        fixed: the same for all.
        swept: values by option, of those that have several.
        open: ranges by option, from which only a search can take values.
    """

    fixed: tuple[str, ...]
    swept: Mapping[str, tuple[str, ...]]
    open: Mapping[str, Override]

    def keys(self) -> set[str]:
        """Options that are given in any way."""
        return {key_of(text) for text in self.fixed} | set(self.swept) | set(self.open)


def parse_options(overrides: Sequence[str]) -> Options:
    """What the command line says of the jobs.

    Raises:
        ConfigError: an override cannot be.
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
    return Options(tuple(fixed), swept, ranges)


def jobs_of(command: str, options: Options, chosen: Mapping[str, str] | None = None, prefix: str = "") -> list[Job]:
    """A job for each combination.

    Args:
        command: train or evaluate.
        options: of all jobs.
        chosen: by a search: parameters that all these jobs share.
        prefix: of their names, which stands for these.
    """
    jobs = []
    for values in itertools.product(*options.swept.values()):
        combination = dict(zip(options.swept, values, strict=True))
        parameters = {**(chosen or {}), **combination}
        name = "_".join(filter(None, (prefix, job_name(combination)))) or command
        overrides = (*options.fixed, *(f"{key}={value}" for key, value in parameters.items()))
        jobs.append(Job(name, command, parameters, overrides))
    return jobs


def job_name(parameters: Mapping[str, str]) -> str:
    """``agent-ppo_seed-1``; where that is too long, or has to leave something out, a digest of all follows."""
    whole = "_".join(f"{key}-{value}" for key, value in parameters.items())
    plain = re.sub(r"[^\w.+-]+", "-", whole, flags=re.ASCII).strip("-.")
    if plain == whole and len(plain) <= _MAX_NAME:
        return plain
    digest = hashlib.sha256(repr(sorted(parameters.items())).encode()).hexdigest()[:_DIGEST]
    return f"{plain[:_MAX_NAME]}-{digest}"


def check(jobs: Iterable[Job]) -> None:
    """Composes what each job is asked for.

    Raises:
        ScenarioError, ConfigError: a job cannot be, or two have one name.
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


def key_of(text: str) -> str:
    """The option that an override gives a value."""
    return parse_override(text).get_key_element()
