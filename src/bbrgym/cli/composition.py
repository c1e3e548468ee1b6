# SPDX-License-Identifier: GPL-2.0-only
"""Configurations of commands, with this package's scenarios and worlds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.utils import setup_globals
from hydra.types import RunMode
from pydantic import BaseModel

from bbrgym.config.loader import Loader, Products, plain_values
from bbrgym.scenario.distribution import is_range
from bbrgym.scenario.files import is_scenario_file, read_scenario
from bbrgym.worlds import registered_worlds


def config_loader(search_path: ConfigSearchPath | None = None, models: Sequence[type[BaseModel]] = ()) -> Loader:
    """Return the loader of configurations, see `bbrgym.config.loader.Loader`."""
    products = Products(
        is_file=is_scenario_file,
        read_scenario=read_scenario,
        is_range=is_range,
        world_settings=lambda: {name: spec.default_settings() for name, spec in registered_worlds().items()},
    )
    return Loader(products, search_path, models)


def compose_config(name: str, overrides: Sequence[str]) -> dict[str, Any]:
    """Return the configuration ``conf/<name>.yaml`` with overrides applied, as plain values.

    Raises:
        ConfigError: names the override or key that is wrong.
        ScenarioError: the scenario cannot be read.
    """
    setup_globals()
    return plain_values(config_loader().load_configuration(name, list(overrides), RunMode.RUN), overrides)
