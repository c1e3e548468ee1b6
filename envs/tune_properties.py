# SPDX-License-Identifier: GPL-2.0-only
"""Properties that all tuning environments have, whatever the interface."""

from __future__ import annotations

import numpy as np

from bbrgym.envs.action import ActType
from bbrgym.envs.batch import Batch
from bbrgym.envs.options import FromArguments
from bbrgym.worlds import VectorWorld


class TuneProperties(FromArguments):
    """Base of the environments that hold episodes.

    Until the first reset they are copied and pickled as their arguments; then they cannot be, since their worlds run.

    Attributes:
        flow_fields: columns of `flow_stats` in infos.
        link_fields: columns of `link_stats` in infos.
    """

    _batch: Batch

    flow_fields = VectorWorld.flow_fields
    link_fields = VectorWorld.link_fields

    @property
    def tunables(self) -> tuple[str, ...]:
        """Names of the controlled tunables, in the order of a normalised action."""
        return self._batch.scaling.names

    @property
    def observation_names(self) -> tuple[str, ...]:
        """Names of the numbers of an observation, all from 0 to 1; see `bbrgym.envs.features`.

        Of flow k of several a feature is ``FEATURE[k]``; the normalised current tunables have their own names. Of a
        stack those of the k-th interval before the last one end in ``@-k``. Of observations for actor and critic they
        are the actor's.

        Example:
            >>> import gymnasium, bbrgym
            >>> with gymnasium.make("bbrgym/Tune-v2", world="twin", scenario="steady", variant="bbr-plus") as env:
            ...     names = env.unwrapped.observation_names
            ...     len(names) == env.observation_space.shape[0], names[0]
            (True, 'mean active@-2')
        """
        return self._batch.observation.names(self.tunables)

    @property
    def action_names(self) -> tuple[str, ...]:
        """Names of the numbers of an action: the tunables; ``setting`` where one number chooses all tunables."""
        return self.tunables if np.shape(self._batch.action.default) else ("setting",)

    @property
    def default_action(self) -> ActType:
        """Action that gives the variant's own tunables, of discrete ones the nearest to them; if relative, to stay."""
        return np.array(self._batch.action.default)

    @property
    def max_tuned(self) -> int:
        """Largest number of tuned flows in an episode."""
        return self._batch.max_tuned

    def holds_a_run(self) -> bool:
        """Return whether the environment has been reset or closed."""
        return self._batch.episodes.has_been_used
