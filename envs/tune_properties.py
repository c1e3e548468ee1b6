# SPDX-License-Identifier: GPL-2.0-only
"""Properties that all tuning environments have, whatever their interface."""

from __future__ import annotations

from typing import NoReturn, SupportsIndex

import numpy as np

from bbrgym.envs.action import ActType
from bbrgym.envs.episodes import Episodes
from bbrgym.worlds import VectorWorld


class TuneProperties:
    """Base of the environments that hold episodes; they cannot be copied or pickled, since their worlds run.

    Attributes:
        flow_fields: columns of `flow_stats` in infos.
        link_fields: columns of `link_stats` in infos.
    """

    _batch: Episodes

    flow_fields = VectorWorld.flow_fields
    link_fields = VectorWorld.link_fields

    @property
    def tunables(self) -> tuple[str, ...]:
        """Names of the controlled tunables, the coordinates of an action."""
        return self._batch.scaling.names

    @property
    def default_action(self) -> ActType:
        """Action that gives the variant's own tunables, of discrete ones the nearest to them; if relative, to stay."""
        return np.array(self._batch.action.default)

    @property
    def max_learners(self) -> int:
        """Largest number of learner flows in an episode."""
        return self._batch.max_learners

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError(
            f"{type(self).__name__} cannot be copied or pickled, since its worlds run: make another one where it is "
            "needed"
        )
