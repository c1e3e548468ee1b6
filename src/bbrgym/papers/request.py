# SPDX-License-Identifier: GPL-2.0-only
"""The request of a reproduction: which experiments run, in which worlds, with how many seeds."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from bbrgym.evaluate.evaluation_settings import MAX_JOBS, parse_world_settings
from bbrgym.scenario.stack import SenderStack
from bbrgym.schema import List, Model, PathText, Whole, plain, validated
from bbrgym.worlds import FAST_WORLD, WorldSettings, runs_at_once, world_spec


class Reproduction(Model):
    """Request of `bbrgym reproduce`."""

    paper: str | None = None  # whose experiments are run. Default: all
    experiment: List[PathText] = ()  # names or files of experiments. Default: all
    world: Annotated[dict[str, WorldSettings], Field(min_length=1)]  # settings of each world, by its name
    # number of runs of each variant and point. Default: each experiment's own
    seeds: Annotated[Whole, Field(ge=1, le=1000)] | None = None
    # of every sender in place of the experiment's, but of ns-3's own: a preset's name, or a mapping; one without
    # ``preset`` changes facts of the experiment's. Default: each experiment's own
    stack: SenderStack | None = None
    reference: PathText | None = None  # folder of the authors' files, whose numbers are compared too. Default: none
    # folder of the authors' traces of links. Default: shipped traces take their places
    recordings: PathText | None = None
    # runs at once. Default: one a core; in real time one for two cores
    jobs: Annotated[Whole, Field(ge=1, le=MAX_JOBS)] | None = None

    @property
    def parallel_runs(self) -> int:
        """Number of runs at once."""
        return self.jobs or runs_at_once(self.world)

    @property
    def stack_text(self) -> str:
        """The stack as the option takes it; empty for each experiment's own."""
        if self.stack is None:
            return ""
        if not self.stack.overrides:
            return self.stack.preset or "{}"
        facts = self.stack.model_dump(exclude_none=True)
        return f"{{{', '.join(f'{name}: {str(value).lower()}' for name, value in facts.items())}}}"


def parse_reproduction(fields: Mapping[str, Any]) -> Reproduction:
    """Check a request; one name may stand for a list of one, a world's name for its default settings.

    Raises:
        ConfigError: names the option, its value and what is allowed.
    """
    fields = dict(plain(fields))
    names = fields.get("experiment") or ()
    fields["experiment"] = (names,) if isinstance(names, str | os.PathLike) else names
    fields["world"] = parse_world_settings(fields.get("world", FAST_WORLD))
    asked = validated(Reproduction, fields)
    for name in asked.world:
        world_spec(name)
    return asked
