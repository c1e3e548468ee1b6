# SPDX-License-Identifier: GPL-2.0-only
"""Rewards of N environments' steps: their terms, means over the intervals in which an action is held."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from bbrgym.envs.episodes import Episodes
from bbrgym.envs.options import Options
from bbrgym.envs.reward import Reward
from bbrgym.envs.scaling import NormalisedAction
from bbrgym.envs.smoothing import ExponentialMeans
from bbrgym.envs.terms import StepTerms, TermInputs, by_field
from bbrgym.worlds import Flags, Table, VectorWorld


class StepRewards:
    """Rewards of the flows that count, or of the tuned flows alone, in episodes."""

    inputs: TermInputs  # of the last interval, once there was one

    def __init__(self, options: Options, episodes: Episodes) -> None:
        self._episodes = episodes
        self._is_held = options.hold_intervals > 1
        self._reward = Reward(options.reward)
        self.total = self._reward.total
        self.weights = self._reward.weights
        shape = (episodes.max_tuned if episodes.counted is None else 0, episodes.num_envs)
        horizon_s, interval_s = options.reward_horizon_s, options.control_interval_s
        self._smoothing = (
            None if horizon_s is None else ExponentialMeans(VectorWorld.flow_fields, horizon_s, interval_s, shape)
        )
        self._step_terms = StepTerms()

    def begin(self, indices: Sequence[int]) -> None:
        """Forget the intervals of environments whose episode begins."""
        if self._smoothing is not None:
            self.reserve()
            self._smoothing.reset(indices)

    def set_interval(self, interval_s: Table) -> None:
        """Set the length of the next interval, [N]."""
        if self._smoothing is not None:
            self._smoothing.set_interval(interval_s)

    def reserve(self) -> None:
        """Make room for the flows of the worlds."""
        if self._smoothing is not None and self._episodes.counted is not None:
            self._smoothing.reserve(self._episodes.open_worlds().flow_capacity)

    def arrays(self) -> list[NDArray[Any]]:
        """Return what is kept from one interval to the next, [N, ...] each."""
        return [] if self._smoothing is None else self._smoothing.arrays()

    def rewarded(self, stats: Table, starting: Sequence[int] = ()) -> Table:
        """Return the measurements that rewards are computed from, smoothed if asked for: [fields, flows, N].

        Args:
            stats: measurements of the tuned flows in the interval, [fields, L * N].
            starting: environments whose episode starts.
        """
        episodes = self._episodes
        by_flow = (
            stats.reshape(len(stats), episodes.tuned.count, episodes.num_envs)
            if episodes.counted is None
            else episodes.counted.stats(episodes.open_worlds())
        )
        if self._smoothing is not None:
            by_flow = self._smoothing.update(by_flow)
            self._smoothing.reset(starting)
        return by_flow

    def measure(self, stats: Table, change: NormalisedAction, starting: Sequence[int] = ()) -> None:
        """Take an interval of N environments; ``change`` is [N, tunables], the others as for `rewarded`."""
        episodes, counted = self._episodes, self._episodes.counted
        self.inputs = TermInputs(
            counted=by_field(self.rewarded(stats, starting)),
            flows=by_field(episodes.open_worlds().flow_stats.T),
            base_rtt_ms=episodes.tuned.base_rtt_ms if counted is None else counted.base_rtt_ms,
            change=change,
            most_share=None if counted is None else counted.most_share,
        )

    def begin_step(self, mask: Flags) -> None:
        """Begin a step of several intervals with the last one, in which environments ran, [N]."""
        self._step_terms = StepTerms()
        self.add(mask)

    def add(self, mask: Flags) -> None:
        """Add the terms of the last interval, in which environments ran, [N], to those of the step."""
        self._step_terms.add(self._reward.terms(self.inputs), mask)

    def terms(self) -> dict[str, Table]:
        """Return the reward terms of the last step, means over the step's intervals."""
        return self._step_terms.means() if self._is_held else self._reward.terms(self.inputs)
