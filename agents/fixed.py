# SPDX-License-Identifier: GPL-2.0-only
"""Fixed tunables: the baseline that every agent has to beat."""

from __future__ import annotations

from collections.abc import Mapping

from bbrgym.scenario.files import with_variant
from bbrgym.scenario.model import Scenario
from bbrgym.tunables import VARIANTS


def assign(scenario: Scenario, variant: str, tunables: Mapping[str, float]) -> Scenario:
    """Return the scenario with a variant in every learner flow and the given tunables set for the whole run.

    Args:
        scenario: to change.
        variant: name of the variant.
        tunables: values in natural units by name. Names that the variant does not have are ignored, so that one mapping
            serves several variants. Default for the others: the variant's preset.

    Raises:
        ScenarioError: a value is out of the tunable's range.
    """
    own = {name: value for name, value in tunables.items() if name in VARIANTS[variant].preset}
    return with_variant(scenario, variant, own)
