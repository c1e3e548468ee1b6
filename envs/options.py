# SPDX-License-Identifier: GPL-2.0-only
"""The arguments that all environments share."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from bbrgym.envs.observation import View
from bbrgym.errors import ConfigError
from bbrgym.scenario_files import Source
from bbrgym.worlds import Isolation

Draw: TypeAlias = Callable[[int], Source]
"""Draws the scenario of a run from the run's seed; the same seed must give the same scenario.

An attribute `max_learners` may say how many learner flows a draw has at most.
"""


@dataclass(frozen=True)
class Options:
    """What each means is in `TuneEnv`; the batches check the rest."""

    world: str = "ns3"
    scenario: Source | Draw | Sequence[Source | Draw] = "steady"
    variant: str = "bbq"
    tunables: Sequence[str] | None = None
    control_interval_s: float = 0.1
    features: Sequence[str] | None = None
    stack: int = 1
    reward_weights: Mapping[str, float] | None = None
    isolation: Isolation | None = None
    timeout_s: float = 60.0
    render_mode: str | None = None
    max_learners: int | None = None
    view: View = "each"
    flow_capacity: int | None = None
    threads: int | None = None

    def __post_init__(self) -> None:
        if self.max_learners is not None and (not isinstance(self.max_learners, int) or self.max_learners < 1):
            raise ConfigError(f"max_learners: {self.max_learners!r}, allowed are whole numbers from 1")
        if not 0.0 < self.control_interval_s < math.inf:
            raise ConfigError(f"control_interval_s: {self.control_interval_s}, allowed is a finite number above 0")
        if self.render_mode not in (None, "rgb_array"):
            raise ConfigError(f"render_mode: {self.render_mode!r}, allowed are None and 'rgb_array'")
