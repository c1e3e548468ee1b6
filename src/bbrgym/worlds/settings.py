# SPDX-License-Identifier: GPL-2.0-only
"""Settings of the runs in a world."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from bbrgym.errors import ConfigError
from bbrgym.schema import Float, Model, shown
from bbrgym.worlds.specs import DEFAULT_TIMEOUT_S, Isolation, world_spec


class WorldSettings(Model):
    """Settings of the runs in a world; see :func:`bbrgym.make_world`."""

    isolation: Isolation | None = None  # ``process`` or ``none``. Default: the world's own.
    # the longest wall time of a start, a reset, and of each simulated second of an advance
    timeout_s: Annotated[Float, Field(gt=0, le=86_400)] = DEFAULT_TIMEOUT_S
    options: dict[str, Any] = Field(default_factory=dict)  # the world's own options, by name


def check_no_programs(worlds: Mapping[str, WorldSettings]) -> None:
    """Check that settings which were only found, such as those in a run folder, run no program.

    Raises:
        ConfigError: names the option that does.
    """
    for name, settings in worlds.items():
        for option in world_spec(name).programs:
            program = settings.options.get(option)
            if program is not None:
                raise ConfigError(
                    f"world.{name}.options.{option}: is {shown(program)}, a program named by a run folder; the world "
                    f"would run it. If you trust it, give the option yourself"
                )
