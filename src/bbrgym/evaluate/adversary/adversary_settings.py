# SPDX-License-Identifier: GPL-2.0-only
"""Settings of a search for bad networks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from bbrgym.schema import FieldProblem, Float, Model, PathText, Share, Whole, shown, validated
from bbrgym.worlds import FAST_WORLD, registered_worlds


class Steps(Model):
    """Capacity in steps, which replaces the changes of the distribution."""

    count: Annotated[Whole, Field(ge=1, le=100)] = 6  # number of steps after the beginning, evenly in time
    # largest factor between a step's rate and the link's, or its inverse
    ratio: Annotated[Float, Field(gt=1, le=100)] = 4.0


class Adversary(Model):
    """Settings of a search, beside its scenario."""

    variant: str = "bbq"  # the entrant, unless there is an agent
    agent: PathText | None = None  # run folder of the entrant. Default: none, the variant with its own tunables
    # to find: the networks where the entrant's score is furthest below the reference's, or where it does most harm to
    # the other flows, against their own control in its place
    goal: Literal["score", "harm"] = "score"
    reference: PathText = "bbr"  # of goal score: a variant, a run folder, or a reference such as ``library-best:RUN``
    budget: Annotated[Whole, Field(ge=1, le=1_000_000)] = 600  # networks to try
    # networks that are tried side by side; the next ones are proposed by the scores of all before
    batch: Annotated[Whole, Field(ge=1, le=1000)] = 20
    random_share: Share = 0.3  # share of the budget that is drawn at random first
    seeds: Annotated[Whole, Field(ge=1, le=1000)] = 2  # runs of each network in the search (seeds A)
    # other runs of the best networks, by which they are ranked and told (seeds B)
    check_seeds: Annotated[Whole, Field(ge=1, le=1000)] = 5
    keep: Annotated[Whole, Field(ge=1, le=1000)] = 5  # networks to keep at most
    steps: Steps | None = None  # capacity in steps. Default: as the distribution says
    replay: str | None = "ns3"  # world in which the kept networks run again with seeds B; null: none
    replay_seeds: Annotated[Whole, Field(ge=1, le=1000)] = 2  # number of these seeds
    score_delta: Annotated[Float, Field(ge=0, le=100)] = 0.5  # weight of the RTT in the score
    seed: Annotated[Whole, Field(ge=0, le=2**32 - 1)] = 1  # of the search
    threads: Annotated[Whole, Field(ge=1, le=1024)] | None = None  # threads of the worlds. Default: one per core

    @model_validator(mode="after")
    def _check(self) -> Adversary:
        if self.replay is not None and self.replay not in registered_worlds():
            names = ", ".join(name for name in registered_worlds() if name != FAST_WORLD)
            raise FieldProblem("replay", f"is {shown(self.replay)}, expected a world ({names}) or null")
        if self.goal == "score" and self.reference in (self.agent, self.variant if self.agent is None else None):
            raise FieldProblem("reference", f"is {shown(self.reference)}, expected another one than the entrant")
        return self


def parse_adversary(fields: Mapping[str, Any]) -> Adversary:
    """Check the settings of a search.

    Raises:
        ConfigError: names the setting, its value and what is allowed.
    """
    return validated(Adversary, dict(fields))
