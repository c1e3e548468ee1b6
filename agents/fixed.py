# SPDX-License-Identifier: GPL-2.0-only
"""The baseline that every agent has to beat: a variant as its paper has it, or with tunables of one's choice."""

from __future__ import annotations

from collections.abc import Mapping

from bbrgym.scenario import Scenario
from bbrgym.scenario_files import parse_scenario
from bbrgym.tunables import VARIANTS

#: What records call it.
NAME = "fixed"


def assign(scenario: Scenario, variant: str, tunables: Mapping[str, float]) -> Scenario:
    """The scenario with ``variant`` in every learner flow and the given tunables set for the whole run.

    Tunables that the variant does not have are left out, so that one mapping can serve several variants. A
    learner's own tunables stay where the variant is the one they were written for.

    Raises:
        ScenarioError: a tunable is out of its range.
    """
    fields = scenario.model_dump(mode="python")
    own = {name: value for name, value in tunables.items() if name in VARIANTS[variant].preset}
    for flow in fields["flows"]:
        if flow["role"] == "learner":
            kept = flow["tunables"] if flow["cc"] == variant else {}
            flow.update(cc=variant, tunables={**kept, **own})
    return parse_scenario(fields)
