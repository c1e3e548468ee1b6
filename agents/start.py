# SPDX-License-Identifier: GPL-2.0-only
"""Settings that a training starts from: an earlier training's, or a shipped agent's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bbrgym.agents.base import Constant
from bbrgym.agents.loading import load_agent
from bbrgym.agents.portfolio.policy import PortfolioAgent
from bbrgym.agents.shipped import SHIPPED, shipped_setting
from bbrgym.envs.scaling import NormalisedAction, TunableScaling
from bbrgym.errors import ConfigError


def start_settings(start: str, scaling: TunableScaling) -> list[NormalisedAction]:
    """Return a fixed setting, or a portfolio's with the best fixed one first, [tunables] each.

    A tunable that they do not have keeps the variant's own value.

    Args:
        start: run folder, or a name as shipped/fixed.
        scaling: of the training's tunables.

    Raises:
        ConfigError: it is neither, or of another variant.
    """
    variant, settings = _settings_of(start)
    if variant != scaling.variant:
        raise ConfigError(f"agent.start: {start!r} has variant {variant}, allowed is {scaling.variant}")
    own = scaling.to_values(scaling.default)
    return [scaling.from_values({name: setting.get(name, own[name]) for name in own}) for setting in settings]


def _settings_of(start: str) -> tuple[str, Sequence[Mapping[str, float]]]:
    """Return the variant, and the settings by tunable."""
    if start in SHIPPED and (fixed := shipped_setting(SHIPPED[start])) is not None:
        return fixed[0], [fixed[1]]
    agent, arguments = load_agent(SHIPPED.get(start, start))
    if isinstance(agent, Constant):
        library = agent.action[None]
    elif isinstance(agent, PortfolioAgent):
        library = agent.library
    else:
        raise ConfigError(
            f"agent.start: {start!r} holds agent {agent.name}, expected a portfolio or a search (agent=grid, optuna)"
        )
    scaling = TunableScaling(arguments["variant"], arguments.get("tunables"))
    return arguments["variant"], [scaling.to_values(setting) for setting in library]
