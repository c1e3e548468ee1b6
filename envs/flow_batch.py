# SPDX-License-Identifier: GPL-2.0-only
"""N episodes with a controller for each tuned flow: the computation of `TuneMultiEnv` (N = 1) and `FlowVecEnv`.

A flow acts in every step in which it runs, even for a part: from the one in which it starts to the one in which it
stops. Until its first action its tunables are the variant's own, or those that the scenario sets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from bbrgym.envs.action import ActType
from bbrgym.envs.batch import Batch
from bbrgym.envs.episode_spec import to_ns
from bbrgym.envs.features import Observation, View
from bbrgym.envs.observation import FrameStack
from bbrgym.envs.options import Options
from bbrgym.envs.row_sums import sum_rows
from bbrgym.envs.scaling import NormalisedAction
from bbrgym.envs.terms import TermInputs, by_field
from bbrgym.errors import ConfigError
from bbrgym.tunables import VARIANTS
from bbrgym.worlds import Flags, Table

RewardScope: TypeAlias = Literal["team", "own"]
AbsentAgents: TypeAlias = Literal["leave", "idle"]


@dataclass(frozen=True, kw_only=True)
class FlowOptions(Options):
    """Arguments of the environments with a controller for each tuned flow, beside those of all environments.

    Attributes:
        view: `each`: an agent observes its own flow.
        reward_scope: `team`: each flow gets the reward that one controller of all tuned flows would get, from the
            mean over the active flows that count. `own`: each flow gets the same terms of its own measurements.
    """

    view: View = "each"
    reward_scope: RewardScope = "team"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.fixed_interval_s("where each flow has an agent")
        if self.view != "each":
            raise ConfigError(f"view: {self.view!r}, allowed is 'each': an agent observes its own flow")
        if self.critic:
            raise ConfigError("critic: True, allowed is False: for agents of flows TuneMultiEnv.state() has it")
        if self.reward_scope not in get_args(RewardScope):
            raise ConfigError(f"reward_scope: {self.reward_scope!r}, allowed are {' and '.join(get_args(RewardScope))}")

    @property
    def rewards_network(self) -> bool:
        return self.reward_scope == "team" and super().rewards_network


@dataclass(frozen=True, kw_only=True)
class MultiOptions(FlowOptions):
    """Arguments of `TuneMultiEnv`, beside those of `FlowOptions`.

    Attributes:
        absent_agents: agents whose flow does not run: `leave` (they are not among `agents`) or `idle` (they are, with
            observations and rewards of 0; their actions are ignored).
    """

    absent_agents: AbsentAgents = "leave"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.absent_agents not in get_args(AbsentAgents):
            raise ConfigError(f"absent_agents: {self.absent_agents!r}, allowed are 'leave' and 'idle'")


class FlowBatch(Batch):
    """N episodes with a controller for each of their L tuned flows.

    A step is `simulate` (or `act`, and `hold` while it `is_holding`), then in any order `observe`, `reward_terms` and
    the attributes below. An episode ends with its scenario, or earlier when its last tuned flow has stopped.

    Args:
        num_envs: N.
        options: arguments of all environments.
        runs_to_the_end: whether episodes go on to the end of the scenario even if no tuned flow is left.

    An environment has the capacity that its own scenarios need.
    """

    def __init__(self, num_envs: int, options: FlowOptions, *, runs_to_the_end: bool = False) -> None:
        super().__init__(num_envs, options, is_per_flow=True)
        self._runs_to_the_end = runs_to_the_end
        tunables, flows = len(self.scaling.names), (num_envs, self.max_tuned)
        self._is_own = options.reward_scope == "own"
        self.observation_space = self.observation.space
        self._frames = FrameStack(num_envs * self.max_tuned, self.observation)
        self._normalised = np.zeros((*flows, tunables), np.float32)
        self._values = np.zeros((*flows, tunables))
        self._step_ns = int(to_ns([options.control_interval_s * options.hold_intervals])[0])
        self.has_acted: Flags = np.zeros(flows, np.bool_)  # flows that acted in the last step, [N, L]
        self.will_act: Flags = np.zeros(flows, np.bool_)  # flows that act in the next step, [N, L]

    def reset(self, indices: Sequence[int], seeds: Sequence[int]) -> Observation:
        """Begin episodes in some environments and return the observations of all flows: [N, L, numbers]."""
        self._begin(indices, seeds)
        self._look_ahead()
        rows = np.array(indices)[:, None] * self.max_tuned + np.arange(self.max_tuned)
        view = self._view(self.episodes.tuned.stats(self.episodes.open_worlds(), indices), indices)
        self._frames.begin(rows.ravel().tolist(), view)
        return self.observe()

    def act(self, actions: ActType) -> None:
        """Set the tunables of the flows that act and run for the first control interval of a step.

        Args:
            actions: [N, L, tunables], [N, L] if flat; those of flows that do not act are ignored.
        """
        actions = self.action.array(actions, self.will_act.shape)
        self.episodes.check_running()
        self.has_acted, former = self.will_act, self._normalised
        self._apply(actions)
        self.episodes.advance()
        self._measure(np.abs(self._normalised - former))
        self._begin_step(None)
        self._end_step()
        self.episodes.record(self._normalised)

    def hold(self) -> None:
        """Run for another control interval of the last actions, where the episode goes on."""
        super().hold()
        self._end_step()

    def observe(self) -> Observation:
        """Return the observations of all flows, [N, L, numbers]; meaningless where a flow neither acted nor will."""
        return self._frames.observations().reshape(*self.will_act.shape, -1)

    def reward_terms(self) -> dict[str, Table]:
        """Return the reward terms of the last step by name, [N, L] each; 0 of flows that did not act."""
        tuned = self.max_tuned
        by_flow = {
            name: values.reshape(tuned, self.num_envs).T if self._is_own else np.repeat(values[:, None], tuned, axis=1)
            for name, values in self.rewards.terms().items()
        }
        return {name: np.where(self.has_acted, values, 0.0) for name, values in by_flow.items()}

    def reward(self, terms: dict[str, Table]) -> Table:
        """Return the weighted sum of reward terms, [N, L]."""
        return self.rewards.total({name: values.ravel() for name, values in terms.items()}).reshape(self.will_act.shape)

    @property
    def has_left(self) -> Flags:
        """Flows that acted in the last step, and will not act again in this episode: [N, L]."""
        left: Flags = self.has_acted & ~self.will_act
        return left

    @property
    def has_joined(self) -> Flags:
        """Flows that did not act in the last step, and act in the next one: [N, L]."""
        joined: Flags = self.will_act & ~self.has_acted
        return joined

    def is_waiting(self, index: int) -> bool:
        """Return whether an environment's episode goes on, but no flow of it acts next."""
        return bool(self.episodes.is_running[index]) and not self.will_act[index].any()

    def info_of_flow(self, index: int, tuned_flow: int | None, terms: dict[str, Table] | None = None) -> dict[str, Any]:
        """Return the privileged state of an environment, with a tuned flow's name and current tunables.

        Args:
            index: which environment.
            tuned_flow: which of its tuned flows; None for one that the episode does not have.
            terms: reward terms to be added.
        """
        info = self.episodes.state_of(index)
        if tuned_flow is None:
            preset = VARIANTS[self.scaling.variant].preset
            info |= {"tunables": {name: preset[name] for name in self.scaling.names}, "flow": None}
        else:
            tunables = dict(zip(self.scaling.names, self._values[index, tuned_flow].tolist(), strict=True))
            info |= {"tunables": tunables, "flow": self.episodes.flow_names(index)[tuned_flow]}
        if terms is not None:
            rewarded = {name: 0.0 if tuned_flow is None else float(terms[name][index, tuned_flow]) for name in terms}
            info["reward_terms"] = rewarded
        return self.as_asked(info)

    # ---- details -----------------------------------------------------------------------------------------------

    def _apply(self, actions: ActType) -> None:
        """Set the tunables of the flows that act."""
        actions = actions.copy()
        actions[~self.will_act] = self.action.default
        values, normalised = self.action.apply(actions, self._normalised)
        acts = self.will_act[:, :, None]
        self._values = np.where(acts, values, self._values)
        self._normalised = np.where(acts, normalised, self._normalised)
        self.episodes.tuned.set_each(self.episodes.open_worlds(), self._values)

    def _look_ahead(self) -> None:
        """Find the flows that act in the next step, and end the episodes that have none left."""
        episodes = self.episodes
        now_ns = to_ns(episodes.open_worlds().now_s)
        is_to_stop = episodes.tuned.stop_ns > now_ns
        if not self._runs_to_the_end:
            episodes.is_running &= is_to_stop.any(axis=0)
        acts = is_to_stop & (episodes.tuned.start_ns < now_ns + self._step_ns) & episodes.is_running
        self.will_act = np.ascontiguousarray(acts.T)

    def _end_step(self) -> None:
        """Find the flows that act next, once no interval of the last action is left."""
        if self.is_holding:
            return
        self._look_ahead()
        joined = np.flatnonzero(self.has_joined)
        if len(joined):
            self._frames.begin(joined.tolist(), self._frames.array()[joined, -1])

    def _measure_held(self) -> None:
        self._measure(np.zeros_like(self._normalised))

    def _measure(self, change: NormalisedAction) -> None:
        """Take the last interval into the rewards' inputs and the observations.

        Args:
            change: distance that each normalised tunable of each flow has moved, [N, L, tunables].
        """
        stats = self.episodes.tuned.stats(self.episodes.open_worlds())
        if self._is_own:
            self.rewards.inputs = self._inputs_of_flows(stats, change)
        else:
            self.rewards.measure(stats, self._mean_change(change))
        self._memory.add(stats)
        self._frames.add(self._view(stats))

    def _mean_change(self, change: NormalisedAction) -> NormalisedAction:
        """Return the mean change of the flows that acted, [N, tunables]."""
        acted = self.has_acted.T[:, :, None]
        total = sum_rows(change.transpose(1, 0, 2) * acted)
        return (total / np.maximum(sum_rows(acted), 1.0)).astype(np.float32)

    def _inputs_of_flows(self, stats: Table, change: NormalisedAction) -> TermInputs:
        """Return inputs of L * N environments with one tuned flow each: all first flows, all second ones, ..."""
        by_flow = self.rewards.rewarded(stats)
        return TermInputs(
            counted=by_field(by_flow.reshape(len(by_flow), 1, -1)),
            flows=by_field(np.tile(self.episodes.open_worlds().flow_stats.T, (1, 1, self.max_tuned))),
            base_rtt_ms=self.episodes.tuned.base_rtt_ms.reshape(1, -1),
            change=change.transpose(1, 0, 2).reshape(-1, change.shape[2]),
        )

    def _view(self, stats: Table, indices: Sequence[int] | None = None) -> Observation:
        """Return one interval's numbers of each flow of some environments: [environments * L, width].

        Args:
            stats: measurements of the tuned flows, [fields, L * environments].
            indices: these environments. Default: all.
        """
        normalised = self._normalised if indices is None else self._normalised[indices]
        envs, tuned, tunables = normalised.shape
        flows = self._memory.extend(stats, indices)
        flows = flows.reshape(-1, tuned, envs).transpose(0, 2, 1).reshape(len(flows), -1)
        return self.observation.view(self._memory.fields, flows, normalised.reshape(-1, tunables))

    def _begin(self, indices: Sequence[int], seeds: Sequence[int]) -> None:
        """Begin episodes with these seeds in some environments."""
        for index, (values, normalised) in zip(indices, self.episodes.begin(indices, seeds), strict=True):
            self._values[index, : len(values)], self._normalised[index, : len(values)] = values, normalised
        self._forget(indices)

    def _arrays(self) -> list[NDArray[Any]]:
        stacks = self._frames.array().reshape(self.num_envs, self.max_tuned, self.observation.frame_stack, -1)
        return [*super()._arrays(), stacks, self._normalised, self._values, self.has_acted, self.will_act]
