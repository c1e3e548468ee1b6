# SPDX-License-Identifier: GPL-2.0-only
"""``bbrgym scenario``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bbrgym.cli.plain_command import Words
from bbrgym.errors import ConfigError
from bbrgym.scenario.distribution import Distribution, is_distribution, load_distribution, split_seeds
from bbrgym.scenario.files import parse_scenario
from bbrgym.scenario.model import Scenario
from bbrgym.worlds.last_hop import record_last_hop

DESCRIPTION = """\
Prints a scenario in its resolved form, the JSON that every world and the standalone program read. Of a distribution it
prints a draw: the one with the number draw=, counted from 0, of the split split= (default: train).

With record=FILE it prints no scenario: it saturates the scenario's last hop in the ns-3 world and writes the delivery
opportunities to FILE, which scenario.link.trace_path= of any world can follow.

examples:
  bbrgym scenario rtt_fairness scenario.link.rate_mbps=50 > scenario.json
  bbrgym scenario wan_mix draw=5 split=validation
  bbrgym scenario wifi record=wifi.down seconds=20 seed=1
"""
WORDS = Words("NAME|FILE")


def run(words: Sequence[str], given: Sequence[str]) -> None:
    """Print the scenario, or a draw of the distribution; or record the last hop."""
    from bbrgym.cli.composition import compose_config  # with Hydra, which users of `scenario_of` may not need

    config = compose_config("scenario", [f"scenario={words[0]}", *given])
    source = scenario_of(config["scenario"])
    scenario = draw_of(source, config["draw"], config["split"])
    if config["record"] is None:
        sys.stdout.write(scenario.resolved_json() + "\n")
        return
    if not isinstance(config["record"], str):
        raise ConfigError(f"record: is {config['record']!r}, expected the name of a file")
    path = Path(config["record"])
    rate_mbps = record_last_hop(scenario, path, seconds=config["seconds"], seed=config["seed"])
    sys.stdout.write(f"{path}: {config['seconds']:g} s of {scenario.name}'s last hop, {rate_mbps:.1f} Mbit/s\n")


def scenario_of(fields: Any) -> Scenario | Distribution:
    """Return the scenario or distribution of a composed configuration."""
    if not isinstance(fields, dict):
        raise ConfigError(f"scenario: is {fields!r}, expected a mapping of fields")
    return load_distribution(fields) if is_distribution(fields) else parse_scenario(fields)


def draw_of(source: Scenario | Distribution, number: Any, split: str) -> Scenario:
    """Return a scenario as it is, or a draw of a distribution. Raises ConfigError: the number fits neither."""
    if isinstance(source, Scenario):
        if number is not None:
            raise ConfigError(f"draw: is {number!r}, but {source.name} is a scenario, expected a distribution with it")
        return source
    if not isinstance(number, int) or isinstance(number, bool):
        raise ConfigError(
            f"draw: is {number!r}, but {source.name} is a distribution, expected the number of a draw, from 0 on"
        )
    return source(split_seeds(split, 1, number)[0])
