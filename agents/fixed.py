# SPDX-License-Identifier: GPL-2.0-only
"""The baseline that every agent has to beat: a variant as its paper has it, or with tunables of one's choice."""

from __future__ import annotations

from collections.abc import Mapping

from bbrgym.scenario.files import with_variant
from bbrgym.scenario.model import Scenario
from bbrgym.tunables import VARIANTS


def assign(scenario: Scenario, variant: str, tunables: Mapping[str, float]) -> Scenario:
    """The scenario with ``variant`` in every learner flow and the given tunables set for the whole run.

    Tunables that the variant does not have are left out, so that one mapping can serve several variants.

    Raises:
        ScenarioError: a tunable is out of its range.
    """
    own = {name: value for name, value in tunables.items() if name in VARIANTS[variant].preset}
    return with_variant(scenario, variant, own)
