# SPDX-License-Identifier: GPL-2.0-only
"""List of an evaluation's entrants: the presets of its variants, then its agents, numbered where they share a name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from bbrgym.errors import ConfigError
from bbrgym.evaluate.entrants import Entrant, preset
from bbrgym.evaluate.evaluation_settings import Evaluation
from bbrgym.evaluate.records import FIXED
from bbrgym.schema import shown


def entrants_of(agent: Any, settings: Evaluation) -> list[Entrant]:
    """Return all entrants in the order of the records: presets first.

    Several training runs of one agent are a group: ranked one by one, numbered, and pooled.

    Raises:
        ConfigError: ``agent`` names no agent, or there is no entrant.
    """
    presets: list[Entrant] = [preset(name, settings.tunables) for name in settings.variants]
    entrants = [*presets, *_numbered(_agents(agent, settings))]
    if not entrants:
        raise ConfigError(f"variants: is [], expected at least 1, or another agent than {shown(agent)}")
    return entrants


def _agents(agent: Any, settings: Evaluation) -> list[Entrant]:
    if isinstance(agent, str) and agent == FIXED:
        return []
    from bbrgym.evaluate.agent_option import (
        agent_entrants_of,  # with environments and agents, which presets do not need
    )

    return agent_entrants_of(agent, settings)


def _numbered(entrants: Sequence[Entrant]) -> list[Entrant]:
    """Give the training runs of one agent numbers, and every entrant its group."""
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
