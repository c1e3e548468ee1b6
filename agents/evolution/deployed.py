# SPDX-License-Identifier: GPL-2.0-only
"""Draws in which a part of the tuned flows follows the policy, as in a partial deployment."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import numpy as np
from pydantic import Field, model_validator

from bbrgym.agents.training.draws import TrainingDraw
from bbrgym.scenario.files import parse_scenario
from bbrgym.schema import FieldProblem, List, Model, Share, shown

_OTHERS = {"cc": "bbr", "role": "fixed", "tunables": {}}


class Deployed(Model):
    """Share of the tuned flows that follow the policy."""

    uniform: Annotated[List[Share], Field(min_length=2, max_length=2)]  # its smallest and its largest value

    @model_validator(mode="after")
    def _check(self) -> Deployed:
        low, high = self.uniform
        if low > high:
            raise FieldProblem("uniform", f"is {shown(list(self.uniform))}, expected numbers in ascending order")
        return self

    def of(self, draw: TrainingDraw) -> TrainingDraw:
        """Return a draw with BBR in the other tuned flows; the policy is in one at least, and all are scored."""
        resolved = draw.scenario.resolved().flows
        tuned = [flow.name for flow in resolved if flow.role == "tuned"]
        generator, (low, high) = np.random.default_rng([draw.seed, *b"deployed"]), self.uniform
        number = max(1, round(generator.uniform(low, high) * len(tuned)))
        others = {tuned[place] for place in generator.permutation(len(tuned))[number:].tolist()}
        fields = draw.scenario.model_dump()
        each = [flow for flow in fields["flows"] for _ in range(flow["count"])]
        fields["flows"] = [
            {**flow, "name": one.name, "count": 1, **(_OTHERS if one.name in others else {})}
            for flow, one in zip(each, resolved, strict=True)
        ]
        return replace(draw, scenario=parse_scenario(fields), team=draw.scenario)
