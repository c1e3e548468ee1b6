# SPDX-License-Identifier: GPL-2.0-only
"""Who takes part in an evaluation, from what its option `agent` says.

    fixed      every variant with its own setting; takes part without being named, as long as there are variants
    random     other tunables every interval, drawn at random
    RUN_DIR    what `bbrgym train` left: a trained agent, or the setting that a search found

One of these, a list, or a mapping from names of one's own to these or lists of these. Several training runs of one
agent (in a list: of the same name and variant; in a mapping: under one name) are a group: they are shown one by one,
numbered, and pooled.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from bbrgym.contestants import Contestant, Random, preset
from bbrgym.errors import ConfigError, nearest
from bbrgym.records import FIXED, label_of
from bbrgym.validation import shown

RANDOM = "random"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def contestants_of(
    agent: Any,
    variants: Sequence[str],
    tunables: Mapping[str, float],
    *,
    variant: str,
    interval_s: float,
) -> list[Contestant]:
    """All who take part, in the order of the records: presets first.

    Args:
        agent: see above; a `Contestant` made elsewhere may stand in the place of a name.
        variants: of the presets.
        tunables: set in those of the variants that have them.
        variant: whose tunables the agents by name set.
        interval_s: how often.

    Raises:
        ConfigError: something else is asked for, or nobody takes part.
    """
    presets = [preset(name, tunables) for name in variants]
    others = [
        replace(contestant, agent=contestant.agent if name is None else name)
        for name, entries in _by_name(agent)
        for contestant in _of_entries(entries, variant, interval_s)
    ]
    everyone = [*presets, *_numbered(others)]
    if not everyone:
        raise ConfigError(f"variants: is [], expected at least 1, or another agent than {shown(agent)}")
    return everyone


def _by_name(agent: Any) -> list[tuple[str | None, Any]]:
    """What is asked for, with the name that it is to have."""
    if not isinstance(agent, Mapping):
        return [(None, agent)]
    for name in agent:
        if not isinstance(name, str) or not _NAME.fullmatch(name) or name == FIXED:
            raise ConfigError(
                f"agent: {shown(name)} is no name for one, expected letters, digits, '_', '.' and '-', not {FIXED!r}"
            )
    return list(agent.items())


def _of_entries(entries: Any, variant: str, interval_s: float) -> list[Contestant]:
    several = entries if isinstance(entries, list | tuple) else [entries]
    return [_contestant(entry, variant, interval_s) for entry in several if entry != FIXED]


def _contestant(entry: Any, variant: str, interval_s: float) -> Contestant:
    if isinstance(entry, Contestant):
        return entry
    if entry == RANDOM:
        return Random(RANDOM, variant, label_of(RANDOM, variant), {"control_interval_s": interval_s})
    raise ConfigError(f"agent: is {shown(entry)}; {nearest(str(entry), (FIXED, RANDOM))}, or a run folder")


def _numbered(contestants: Sequence[Contestant]) -> list[Contestant]:
    """Runs of one agent get numbers, and a group."""
    groups: dict[str, list[Contestant]] = {}
    for contestant in contestants:
        groups.setdefault(contestant.label, []).append(contestant)
    numbered = []
    for contestant in contestants:
        group = groups[contestant.label]
        number = 1 + next(index for index, one in enumerate(group) if one is contestant)
        agent = contestant.agent if len(group) == 1 else f"{contestant.agent}-{number}"
        numbered.append(replace(contestant, agent=agent, group=contestant.label))
    return numbered
