# SPDX-License-Identifier: GPL-2.0-only
"""Networks from numbers: one number from [0, 1) for each range of a distribution that a network uses."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from bbrgym.errors import ConfigError
from bbrgym.evaluate.adversary.adversary_settings import Steps
from bbrgym.scenario.bounds import BOUNDS
from bbrgym.scenario.distribution import Distribution
from bbrgym.scenario.files import parse_scenario
from bbrgym.scenario.model import Scenario

_SIGNIFICANT_DIGITS = 4


class SearchSpace:
    """Networks of a distribution, perhaps with a capacity in steps.

    Raises:
        ConfigError: there is no range to search.
    """

    def __init__(self, distribution: Distribution, steps: Steps | None) -> None:
        self._distribution, self._steps = distribution, steps
        asked: list[str] = []

        def middle(place: str) -> float:
            asked.append(place)
            return 0.5

        self.network("middle", middle)
        if not asked:
            raise ConfigError(
                f"scenario: {distribution.name!r} has no ranges, expected a distribution with some, or steps"
            )

    def network(self, name: str, number_of: Callable[[str], float]) -> Scenario:
        """Return a network.

        Raises:
            ScenarioError: the numbers give no scenario.
        """
        drawn = self._distribution.drawn(name, number_of)
        if self._steps is None:
            return drawn
        fields: dict[str, Any] = drawn.model_dump(mode="json", exclude_none=True)
        link = fields["link"]
        if "rate_mbps" not in link:
            raise ConfigError(f"steps: given, but the link of {self._distribution.name!r} has a trace, expected a rate")
        low, high = BOUNDS["rate_mbps"][:2]
        link["changes"] = []
        for number in range(1, self._steps.count + 1):
            power = 2.0 * number_of(f"steps[{number}]") - 1.0
            rate = min(max(link["rate_mbps"] * math.pow(self._steps.ratio, power), low), high)
            at_s = drawn.duration_s * number / (self._steps.count + 1)
            link["changes"].append({"at_s": _readable(at_s), "rate_mbps": _readable(rate)})
        return parse_scenario(fields)


def _readable(number: float) -> float:
    return float(f"{number:.{_SIGNIFICANT_DIGITS}g}")
