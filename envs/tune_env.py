# SPDX-License-Identifier: GPL-2.0-only
"""bbrgym/Tune-v1: one controller for the tunables of all tuned flows."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from bbrgym.envs.action import ActType
from bbrgym.envs.episodes import EpisodeSnapshot
from bbrgym.envs.features import ObsType, observation_at
from bbrgym.envs.options import Options, arguments_of
from bbrgym.envs.seeding import draw_seed
from bbrgym.envs.tune_batch import TuneBatch
from bbrgym.envs.tune_properties import TuneProperties
from bbrgym.worlds import check_seed


class TuneEnv(TuneProperties, gymnasium.Env[ObsType, ActType]):
    """Set the tunables of a BBR variant while its flows run.

    ## Description
    Flows share a bottleneck; those with the role `tuned` run the chosen variant. Each step sets the tunables of the
    tuned flows, all to the same values, runs the network for a control interval and rewards the performance in it.
    The number of tuned flows may differ from episode to episode, up to `max_tuned`.

    ## Action Space
    A normalised action has a number in [-1, 1] per tunable, which runs through the tunable's range on a linear or
    logarithmic scale, as the table of tunables says. `env.unwrapped.action_names` names the numbers.

    * `Box(-1, 1, (tunables,), float32)`, the default. `action_kind="absolute"`: the action sets the tunables. 0 is
      not the variant's own value: that is `env.unwrapped.default_action`. `"relative"`: the action moves the current
      tunables, normalised, by up to `step_size`; 0 stays, and is the default action.
    * `MultiDiscrete` with `levels`: absolute, evenly from one end of the range to the other, and one level for each
      value of a whole number; relative, an odd number evenly from down to up, of which the middle stays, and down, stay
      and up for a whole number. With `flat=True` one number stands for all levels: `Discrete`, as DQN needs it.
    * `Discrete(settings)` with `action_kind="library"`: the number of a setting of `library`.
    * `max_change` limits the distance that a normalised tunable moves in a step, whatever the action.
    * `hold_intervals` holds an action for several control intervals, which make a step then.

    ## Observation Space
    `Box(0, 1, (frame_stack * (numbers + tunables),), float32)`: features that the senders of the tuned flows know, then
    the current tunables; the oldest of `frame_stack` intervals first. `env.unwrapped.observation_names` names them.

    * view `each`: `max_tuned * features` numbers, one flow after the other. An episode with fewer tuned flows
      leaves the last blocks at 0.
    * view `pooled`: `3 * features + 1` numbers: mean, minimum and maximum of each feature over the active tuned
      flows, and the fraction of `max_tuned` that is active. So observations have the same form for any number of
      flows, in any order.

    `critic=True` makes the space `Dict(actor=..., critic=...)`: the critic gets privileged features of the link and of
    the tuned flows in the last interval (`bbrgym.envs.critic`), `each` or `pooled` too, for training only.

    `features="memory"` adds those with a memory of the episode to the features of the last interval (`"instant"`, the
    default): running extremes, means, totals and trends of each flow (`bbrgym.envs.memory`).

    The features; `linear` and `log` scale the range from low to high to [0, 1], `within` gives 1 there and 0 elsewhere:

    | index | feature | meaning | unit | scale | low | high |
    | --- | --- | --- | --- | --- | --- | --- |
    | 0 | active | the flow runs | bool | linear | 0 | 1 |
    | 1 | app_limited | limited by the application | bool | linear | 0 | 1 |
    | 2 | startup | in STARTUP | code | within | 0 | 0 |
    | 3 | drain | in DRAIN | code | within | 1 | 1 |
    | 4 | probe_rtt | in PROBE_RTT | code | within | 2 | 2 |
    | 5 | probe_up | in PROBE_BW, sending faster | code | within | 8 | 8 |
    | 6 | probe_down | in PROBE_BW, sending slower | code | within | 9 | 9 |
    | 7 | cruise | in PROBE_BW's other phases | code | within | 10 | 15 |
    | 8 | delivery_rate | delivery rate | Mbit/s | log | 0.01 | 10000 |
    | 9 | bw | bandwidth estimate of the model | Mbit/s | log | 0.01 | 10000 |
    | 10 | delivery_of_bw | delivery rate / bandwidth | ratio | linear | 0 | 2 |
    | 11 | pacing_of_bw | pacing rate / bandwidth | ratio | linear | 0 | 4 |
    | 12 | cwnd | congestion window | pkts | log | 1 | 100000 |
    | 13 | in_flight_of_cwnd | in flight / window | ratio | linear | 0 | 2 |
    | 14 | min_rtt | minimum RTT of the model | ms | log | 0.1 | 10000 |
    | 15 | rtt_mean | mean RTT / minimum RTT | ratio | log | 1 | 64 |
    | 16 | rtt_p95 | 95th percentile of RTT / minimum RTT | ratio | log | 1 | 64 |
    | 17 | rtt_min | smallest RTT of the interval / minimum RTT | ratio | log | 1 | 64 |
    | 18 | srtt | smoothed RTT / minimum RTT | ratio | log | 1 | 64 |
    | 19 | lost | packets marked lost / sent | ratio | linear | 0 | 1 |
    | 20 | retransmitted | retransmitted / sent | ratio | linear | 0 | 1 |
    | 21 | rto | a retransmission timeout happened | count | linear | 0 | 1 |
    | 22 | age | time for which the flow has run | s | log | 0.1 | 1000 |
    | 23 | max_delivery | largest delivery rate so far | Mbit/s | log | 0.01 | 10000 |
    | 24 | mean_delivery | mean delivery rate so far | Mbit/s | log | 0.01 | 10000 |
    | 25 | delivery_of_max | delivery rate / its largest | ratio | linear | 0 | 1 |
    | 26 | mean_of_max | mean delivery rate / its largest | ratio | linear | 0 | 1 |
    | 27 | bw_of_max | bandwidth estimate / its largest | ratio | linear | 0 | 1 |
    | 28 | bw_of_delivery | bandwidth estimate / recent delivery | ratio | log | 0.125 | 8 |
    | 29 | least_rtt | smallest minimum RTT of the model | ms | log | 0.1 | 10000 |
    | 30 | min_rtt_of_least | minimum RTT / the smallest | ratio | log | 1 | 64 |
    | 31 | max_queue | largest queueing delay / smallest RTT | ratio | log | 0.01 | 64 |
    | 32 | min_queue | smallest queueing delay / smallest RTT | ratio | log | 0.01 | 64 |
    | 33 | mean_queue | mean queueing delay / smallest RTT | ratio | log | 0.01 | 64 |
    | 34 | total_lost | all packets marked lost / all sent | ratio | log | 0.0001 | 1 |
    | 35 | total_retransmitted | all retransmitted / all sent | ratio | log | 0.0001 | 1 |
    | 36 | total_rto | all retransmission timeouts | count | log | 0.5 | 64 |
    | 37 | total_app_limited | time limited by the application / age | ratio | linear | 0 | 1 |
    | 38 | delivery_trend | delivery rate / its recent mean | ratio | log | 0.25 | 4 |
    | 39 | slow_delivery_trend | recent / mean delivery rate | ratio | log | 0.25 | 4 |
    | 40 | bw_trend | bandwidth estimate / its recent mean | ratio | log | 0.25 | 4 |
    | 41 | srtt_trend | smoothed RTT / its recent mean | ratio | log | 0.25 | 4 |
    | 42 | standing_queue | least recent queueing delay / RTT | ratio | log | 0.01 | 64 |
    | 43 | peak_queue | recent peak of the queueing delay / RTT | ratio | log | 0.01 | 64 |
    | 44 | standing_of_peak | least / peak recent queueing delay | ratio | linear | 0 | 1 |
    | 45 | delivery_of_peak | delivery rate / recent peak | ratio | linear | 0 | 1 |
    | 46 | recently_lost | recent packets lost / sent | ratio | log | 0.0001 | 1 |

    ## Rewards
    The weighted sum of the terms of `bbrgym.envs.terms.TERMS`: `reward` names a preset or gives the weights. The
    default is the score of evaluations: mean log2(goodput / fair share) - 0.5 mean log2(RTT / base RTT).
    `info["reward_terms"]` has the terms with a weight, also those of weight 0.

    ## Starting State
    Time 0 of the scenario, the variant's own tunables (or those that the scenario sets), nothing sent. The first
    `reset(seed=s)` runs the network with seed s; a reset without seed draws the next one from it.
    `reset(options={"scenario": ...})` changes the scenario, to one with at most `max_tuned` tuned flows.

    ## Episode End
    `truncated` at the end of the scenario. Never `terminated`.

    ## Info
    The privileged state: `flow_stats` [flows, fields] and `link_stats` [fields] of the interval (columns
    `env.unwrapped.flow_fields` and `link_fields`), `now_s`, `scenario`, `seed`, `tunables` by name, `reward_terms`.

    ## Errors
    `ConfigError` for an action that is outside the space, masked or complex. `WorldError` if the world breaks, in
    `step` or `reset`; the next `reset` makes another world. `gymnasium.error.ResetNeeded` for a step without an
    episode, `gymnasium.error.ClosedEnvironmentError` for a step or reset after `close`. A `ConfigError` that is a
    `TypeError` too for an unknown argument. `TypeError` for a copy or a pickle of the environment after its first
    reset; before it they are made from its arguments.

    ## Example
        >>> import gymnasium, bbrgym
        >>> env = gymnasium.make("bbrgym/Tune-v1", world="twin", scenario="rtt_fairness", variant="bbq")
        >>> observation, info = env.reset(seed=1)
        >>> observation, reward, terminated, truncated, info = env.step(env.unwrapped.default_action)
        >>> observation.shape == env.observation_space.shape, info["now_s"]
        (True, 0.5)
        >>> env.close()

    ## Arguments
    * `world="twin"`: name of the world, see `bbrgym.worlds.registered_worlds`.
    * `scenario="wan_mix"`: a name, a path, a mapping or a Scenario; or one of these of a distribution
      (`bbrgym.scenario.distribution`); or a function that draws one of these from the seed of an episode, called once
      at each reset (and with seed 0 when the environment is made, unless it has an attribute `max_tuned`); or a list of
      these, one for each environment.
    * `max_tuned=None`: largest number of tuned flows in an episode; an episode with more is a `ConfigError`. Default:
      that of the scenario; of a function its attribute `max_tuned`, or the number in its draw of seed 0.
    * `variant="bbr-mix"`: variant that the tuned flows run.
    * `tunables=None`: names of the controlled tunables. Default: all of the variant; those of the library, if there is
      one.
    * `control_interval_s=0.5`: simulated seconds between two measurements; of a step, unless actions are held.
    * `action_kind="absolute"`: `absolute` (a normalised action sets the tunables), `relative` (it moves them) or
      `library` (it chooses one of some settings).
    * `step_size=0.1`: distance by which a relative action of 1 moves a normalised tunable, which runs from -1 to 1.
    * `max_change=None`: largest distance that a normalised tunable moves in a step. Default: no limit.
    * `levels=None`: number of levels of discrete actions. Default: continuous actions.
    * `flat=False`: whether one number stands for the levels of all tunables.
    * `hold_intervals=1`: number of control intervals of a step, for which its action is held; features are of each of
      them, the reward terms of a step are means over them.
    * `library=None`: settings that actions of kind `library` choose from: a file or its contents
      (`bbrgym.envs.library`).
    * `features="instant"`: names of the features of the observation; or `instant` (all of the last interval alone) or
      `memory` (these, and all with a memory of the episode).
    * `frame_stack=3`: number of intervals in an observation.
    * `view="pooled"`: `each` (a block of numbers for each tuned flow) or `pooled` (over all of them); where each tuned
      flow has an agent, `each` (its own numbers) or `host` (these, and pooled ones of its host's tuned flows).
    * `critic=False`: whether the observation is a dictionary of `actor` and `critic`, the privileged observation.
    * `reward="proportional"`: name of a preset; or weights by term, and optionally `alpha`. A term of weight 0 is shown
      but not rewarded.
    * `reward_horizon_s=5.0`: time constant of the exponential means of goodput and RTT that are rewarded. None: the
      last interval alone.
    * `isolation=None`: `process` (a worker process for each world) or `none`, see `bbrgym.make_world`. Default: that of
      the world.
    * `timeout_s=60.0`: longest wall time of a start, a reset, and of each simulated second, in seconds.
    * `world_options=None`: the world's own options by name, see `bbrgym.make_world`. Default: none.
    * `render_mode=None`: `rgb_array` draws the episode so far.
    * `numeric_infos=False`: whether infos hold NumPy's numbers and arrays alone, always under the same names: those of
      nested ones are joined, as in `reward_terms.delay`. Rows of `flow_stats` beyond the flows are 0.
    * `flow_capacity=None`: largest number of flows expected in a drawn scenario. It only spares a new layout of the
      memory.
    * `threads=None`: number of threads in which environments run. Default: the number of cores of this process.

    ## Version History
    * v1: arguments default to those of training; `frame_stack` was `stack`, `max_tuned` was `max_tuned`.
    * v0: first version.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 - as of Gymnasium

    _batch: TuneBatch

    @arguments_of(Options)
    def __init__(self, options: Options) -> None:
        self._batch = TuneBatch(1, options)
        self.render_mode = options.render_mode
        self.action_space = self._batch.action.space
        self.observation_space = self._batch.observation_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[ObsType, dict[str, Any]]:
        """Begin an episode; see Starting State and Errors.

        Args:
            seed: seed of the world. Default: drawn from the generator of the last seed given.
            options: `scenario`, see Starting State.
        """
        seed = None if seed is None else check_seed(seed)
        super().reset(seed=seed)
        self._batch.set_options(options or {}, [0])
        observations = self._batch.reset([0], [draw_seed(self.np_random) if seed is None else seed])
        return observation_at(observations, 0), self._batch.info_of(0)

    def step(self, action: ActType) -> tuple[ObsType, float, bool, bool, dict[str, Any]]:
        """Set the tunables and run for a control interval; see Errors.

        Args:
            action: [tunables]; a number if flat.
        """
        batch = self._batch
        batch.simulate(batch.action.array(action)[None])
        observation = observation_at(batch.observe(), 0)
        terms = batch.reward_terms()
        reward = float(batch.reward(terms)[0])
        truncated = bool(batch.has_ended[0])
        info = batch.info_of(0, terms)
        return observation, reward, False, truncated, info

    def save(self) -> EpisodeSnapshot:
        """Return the episode as it is now, to come back to any number of times.

        Raises:
            ConfigError: its world cannot be saved.
            ResetNeeded, ClosedEnvironmentError: no episode has begun, or the environment is closed.
        """
        return self._batch.save(0)

    def restore(self, snapshot: EpisodeSnapshot) -> tuple[ObsType, dict[str, Any]]:
        """Continue from a snapshot of any environment with equal arguments, bit for bit.

        Returns:
            The observation and the info at that moment, without `reward_terms`.

        Raises:
            ConfigError: the snapshot is of other arguments, or the world cannot be restored; nothing has changed then.
            ResetNeeded, ClosedEnvironmentError: no episode has begun yet, or the environment is closed.
        """
        self._batch.restore(0, snapshot)
        return observation_at(self._batch.observe(), 0), self._batch.info_of(0)

    def render(self) -> NDArray[np.uint8] | None:
        """Return an RGB image [720, 960, 3] of the episode so far; None without a render mode."""
        return self._batch.render(0)

    def close(self) -> None:
        """End the world for good."""
        self._batch.close()
