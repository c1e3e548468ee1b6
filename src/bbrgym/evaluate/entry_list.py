# SPDX-License-Identifier: GPL-2.0-only
"""Who takes part in an evaluation, from what its option `agent` says.

    fixed      every variant with its own setting; takes part without being named, as long as there are variants
    oracle     the best fixed setting for each run alone, which a search on that very run in the twin finds
    random     other tunables every interval, drawn at random
    RUN_DIR    what `bbrgym train` left: a trained agent, or the setting that a search found

One of these, a list, or a mapping from names of one's own to these or lists of these. Several training runs of one
agent (in a list: of the same name and variant; in a mapping: under one name) are a group: they are shown one by one,
numbered, and pooled.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bbrgym.agents.base import Constant, load_agent
from bbrgym.envs.options import Options
from bbrgym.envs.scaling import TunableScaling
from bbrgym.envs.tune_batch import TuneBatch
from bbrgym.errors import ConfigError, nearest
from bbrgym.evaluate.entrants import Entrant, Found, Learned, Oracle, Random, preset
from bbrgym.evaluate.records import FIXED, label_of
from bbrgym.schema import shown

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


@dataclass(frozen=True)
class ByName:
    """What agents that are known by name are made with.

    Attributes:
        variant: whose tunables they set.
        interval_s: how often `random` does.
        oracle_budget: settings that `oracle` tries on each run.
        score_delta: weight of the RTT in the score that `oracle` looks for.
    """

    variant: str
    interval_s: float
    oracle_budget: int
    score_delta: float


def entrants_of(
    agent: Any,
    variants: Sequence[str],
    tunables: Mapping[str, float],
    by_name: ByName,
) -> list[Entrant]:
    """All who take part, in the order of the records: presets first.

    Args:
        agent: see above; a `Entrant` made elsewhere may stand in the place of a name.
        variants: of the presets.
        tunables: set in those of the variants that have them.
        by_name: of the agents that are known by name.

    Raises:
        ConfigError: something else is asked for, or nobody takes part.
    """
    presets = [preset(name, tunables) for name in variants]
    others = [
        replace(entrant, agent=entrant.agent if name is None else name)
        for name, entries in _by_name(agent)
        for entrant in _of_entries(entries, by_name)
    ]
    everyone = [*presets, *_numbered(_with_what_was_found(others))]
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


def _of_entries(entries: Any, by_name: ByName) -> list[Entrant]:
    several = entries if isinstance(entries, list | tuple) else [entries]
    return [_entrant(entry, by_name) for entry in several if entry != FIXED]


def _entrant(entry: Any, by_name: ByName) -> Entrant:
    if isinstance(entry, Entrant):
        return entry
    if entry in _BY_NAME:
        return _BY_NAME[entry](by_name)
    if isinstance(entry, str | Path) and Path(entry).is_dir():
        return trained(Path(entry))
    raise ConfigError(f"agent: is {shown(entry)}; {nearest(str(entry), (FIXED, *_BY_NAME))}, or a run folder")


def _random(by_name: ByName) -> Entrant:
    arguments = {"control_interval_s": by_name.interval_s}
    return Random("random", by_name.variant, label_of("random", by_name.variant), arguments)


def _oracle(by_name: ByName) -> Entrant:
    label = label_of("oracle", by_name.variant)
    return Oracle("oracle", by_name.variant, label, by_name.oracle_budget, by_name.score_delta)


_BY_NAME: Mapping[str, Callable[[ByName], Entrant]] = {"oracle": _oracle, "random": _random}


def trained(run_dir: Path) -> Learned:
    """What `bbrgym train` left in a run folder, its best checkpoint.

    Raises:
        ConfigError: it is no such folder.
    """
    agent, arguments = load_agent(run_dir)
    arguments = dict(arguments)
    variant = arguments.pop("variant")
    if agent.is_per_flow:
        arguments.pop("max_learners")  # it sees one flow, whatever there is beside it
    elif arguments.get("view") != "pooled":  # it has a place for each flow that it was trained for, and no more
        arguments["max_learners"] = TuneBatch(1, Options(**{**arguments, "variant": variant})).max_learners
    arguments.pop("scenario", None)
    label, digest = label_of(agent.name, variant), _digest(run_dir)
    if isinstance(agent, Constant):
        setting = TunableScaling(variant, arguments.get("tunables")).to_values(agent.action)
        return Found(agent.name, variant, label, arguments, agent, digest, setting)
    return Learned(agent.name, variant, label, arguments, agent, digest)


def _digest(run_dir: Path) -> str:
    """Of the files that say what an agent does."""
    digest = hashlib.sha256()
    for path in [run_dir / "config.yaml", *sorted((run_dir / "checkpoints").glob("best*"))]:
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _with_what_was_found(entrants: Sequence[Entrant]) -> list[Entrant]:
    """The oracle tries first what searches have found, so that it is at least as good on every run in the twin."""
    found = [one for one in entrants if isinstance(one, Found)]
    return [
        replace(one, first=[other.setting for other in found if other.variant == one.variant])
        if isinstance(one, Oracle)
        else one
        for one in entrants
    ]


def _numbered(entrants: Sequence[Entrant]) -> list[Entrant]:
    """Runs of one agent get numbers, and a group."""
    groups: dict[str, list[Entrant]] = {}
    for entrant in entrants:
        groups.setdefault(entrant.label, []).append(entrant)
    numbered = []
    for entrant in entrants:
        group = groups[entrant.label]
        number = 1 + next(index for index, one in enumerate(group) if one is entrant)
        agent = entrant.agent if len(group) == 1 else f"{entrant.agent}-{number}"
        numbered.append(replace(entrant, agent=agent, group=entrant.label))
    return numbered
