# SPDX-License-Identifier: GPL-2.0-only
"""Settings of a search for bad networks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, model_validator

from bbrgym.schema import FieldProblem, Float, Model, PathText, Share, Whole, shown, validated
from bbrgym.worlds import FAST_WORLD, registered_worlds


class Steps(Model):
    """Capacity in steps, which replaces the changes of the distribution.

    Attributes:
        count: number of steps after the beginning, evenly in time.
        ratio: largest factor between a step's rate and the link's, or its inverse.
    """

    count: Annotated[Whole, Field(ge=1, le=100)] = 6
    ratio: Annotated[Float, Field(gt=1, le=100)] = 4.0


class Adversary(Model):
    """Settings of a search, beside its scenario.

    Attributes:
        variant: the entrant, unless there is an agent.
        agent: run folder of the entrant. Default: none, the variant with its own tunables.
        reference: a variant, a run folder, or a reference such as ``library-best:RUN``.
        budget: networks to try.
        batch: networks that are tried side by side; the next ones are proposed by the scores of all before.
        random_share: share of the budget that is drawn at random first.
        seeds: runs of each network in the search (seeds A).
        check_seeds: other runs of the best networks, by which they are ranked and told (seeds B).
        keep: networks to keep at most.
        steps: capacity in steps. Default: as the distribution says.
        replay: world in which the kept networks run again with seeds B; null: none.
        replay_seeds: number of these seeds.
        score_delta: weight of the RTT in the score.
        seed: of the search.
        threads: threads of the worlds. Default: one per core.
    """

    variant: str = "bbq"
    agent: PathText | None = None
    reference: PathText = "bbr"
    budget: Annotated[Whole, Field(ge=1, le=1_000_000)] = 600
    batch: Annotated[Whole, Field(ge=1, le=1000)] = 20
    random_share: Share = 0.3
    seeds: Annotated[Whole, Field(ge=1, le=1000)] = 2
    check_seeds: Annotated[Whole, Field(ge=1, le=1000)] = 5
    keep: Annotated[Whole, Field(ge=1, le=1000)] = 5
    steps: Steps | None = None
    replay: str | None = "ns3"
    replay_seeds: Annotated[Whole, Field(ge=1, le=1000)] = 2
    score_delta: Annotated[Float, Field(ge=0, le=100)] = 0.5
    seed: Annotated[Whole, Field(ge=0, le=2**32 - 1)] = 1
    threads: Annotated[Whole, Field(ge=1, le=1024)] | None = None

    @model_validator(mode="after")
    def _check(self) -> Adversary:
        if self.replay is not None and self.replay not in registered_worlds():
            names = ", ".join(name for name in registered_worlds() if name != FAST_WORLD)
            raise FieldProblem("replay", f"is {shown(self.replay)}, expected a world ({names}) or null")
        if self.reference in (self.agent, self.variant if self.agent is None else None):
            raise FieldProblem("reference", f"is {shown(self.reference)}, expected another one than the entrant")
        return self


def parse_adversary(fields: Mapping[str, Any]) -> Adversary:
    """Check the settings of a search.

    Raises:
        ConfigError: names the setting, its value and what is allowed.
    """
    return validated(Adversary, dict(fields))
