# SPDX-License-Identifier: GPL-2.0-only
"""The run folder of a portfolio that a benchmark measures, and the page that its section goes to."""

from __future__ import annotations

import argparse
from pathlib import Path

from bbrgym.agents.loading import load_agent
from bbrgym.agents.portfolio.policy import PortfolioAgent
from bbrgym.agents.rollout import options_for
from bbrgym.envs.options import Options
from bbrgym.errors import ConfigError


def parser_of(description: str | None) -> argparse.ArgumentParser:
    """Return a parser that knows RUN and --write."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", metavar="RUN", type=Path)
    parser.add_argument("--write", type=Path, help="page whose section is replaced")
    return parser


def load_portfolio(run: Path) -> tuple[PortfolioAgent, Options]:
    """Return the agent of a run folder, and the options with which it acts in the twin.

    Raises:
        ConfigError: there is no portfolio in it.
    """
    agent, arguments = load_agent(run)
    if not isinstance(agent, PortfolioAgent) or agent.is_per_flow:
        raise ConfigError(f"{str(run)!r} holds agent {agent.name}, expected a portfolio of all flows")
    return agent, options_for(agent, **{**arguments, "world": "twin"})
