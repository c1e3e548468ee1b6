# SPDX-License-Identifier: GPL-2.0-only
"""Overrides of a command line in Hydra's grammar, and the names of the jobs that they make."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from functools import cache
from typing import TYPE_CHECKING

from bbrgym.errors import ConfigError, MissingExtraError, one_line

if TYPE_CHECKING:  # Hydra and OmegaConf are imported where they are used: plain command lines need neither
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.core.override_parser.types import Override

DIRNAME = "hydra.job.override_dirname"
"""Option with the name of a job, what differs between jobs."""

_BEFORE_A_QUOTE = re.compile(r"(\\+)(?='|$)")  # the backslashes that Hydra's grammar halves within quotes
_PATH = re.compile(r"/?[a-z_][\w-]*(?:/[a-z_][\w-]*)+", re.ASCII | re.I)  # a path that needs no quotes
_MAX_NAME = 120  # characters of a job's name: file systems allow 255 bytes, and endings follow
_DIGEST = 8


def parse_override(text: str) -> Override:
    """Parse an override of a command line. Raises ConfigError: it is not an override."""
    from hydra.errors import HydraException

    try:
        return copy(_parsed(text))
    except HydraException as error:
        raise ConfigError(
            f"{text!r} is not an override like scenario.link.rate_mbps=50: {hydra_reason(error)}"
        ) from error


@cache  # a command asks for each of its own several times
def _parsed(text: str) -> Override:
    return _parser().parse_override(text)


@cache
def _parser() -> OverridesParser:
    from hydra.core.override_parser.overrides_parser import OverridesParser

    return OverridesParser.create()


def key_of(text: str) -> str:
    """Return the key that an override gives a value, as written: with ``+`` or ``~``."""
    return parse_override(text).get_key_element()


def override_of(key: str, value: str) -> str:
    """Return the override that gives an option a text, quoted if it would mean something else."""
    plain = f"{key}={value}"
    if _PATH.fullmatch(value):
        return plain
    from hydra.errors import HydraException

    try:
        if _parser().parse_override(plain).value() == value:
            return plain
    except HydraException:
        pass  # the grammar has no such value without quotes
    quoted = _BEFORE_A_QUOTE.sub(r"\1\1", value).replace("'", "\\'")
    return f"{key}='{quoted}'"


def job_name(parameters: Mapping[str, str], kv_sep: str = "-", item_sep: str = "_") -> str:
    """Return a name such as ``agent-ppo_seed-1``; if it is too long or leaves characters out, a digest follows."""
    whole = item_sep.join(f"{key}{kv_sep}{value}" for key, value in parameters.items())
    allowed = re.escape(kv_sep + item_sep)
    plain = re.sub(rf"[^\w.+{allowed}-]+", "-", whole, flags=re.ASCII).strip("-.")
    if plain == whole and len(plain) <= _MAX_NAME:
        return plain
    digest = hashlib.sha256(repr(sorted(parameters.items())).encode()).hexdigest()[:_DIGEST]
    return f"{plain[:_MAX_NAME]}-{digest}"


@contextmanager
def composing(overrides: Sequence[str]) -> Iterator[None]:
    """Turn the errors of Hydra and OmegaConf into a ConfigError."""
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException

    try:
        yield
    except (ConfigError, MissingExtraError):
        raise
    except (HydraException, OmegaConfBaseException, ValueError, TypeError) as error:
        reason = hydra_reason(error) + (f" ({hydra_reason(error.__cause__)})" if error.__cause__ else "")
        raise ConfigError(f"cannot compose {' '.join(overrides)}: {reason.strip()}") from error


def hydra_reason(error: BaseException) -> str:
    """Return the message of an error on one line, without Hydra's links to its pages and OmegaConf's types."""
    plain = one_line(error).split(" See https://")[0]
    plain = re.sub(r"list index out of range full_key: (\S+)\[(\d+)\] object_type=\S+", r"\1 has no entry \2", plain)
    return re.sub(r" full_key: (\S+) object_type=\S+", r" at \1", plain)
