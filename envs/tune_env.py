# SPDX-License-Identifier: GPL-2.0-only
"""bbrgym/Tune-v2: one controller for the tunables of all tuned flows."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from bbrgym.envs.action import ActType
from bbrgym.envs.documentation import documented
from bbrgym.envs.episodes import EpisodeSnapshot
from bbrgym.envs.features import ObsType, observation_at
from bbrgym.envs.options import Options, arguments_of
from bbrgym.envs.seeding import draw_seed
from bbrgym.envs.tune_batch import TuneBatch
from bbrgym.envs.tune_properties import TuneProperties
from bbrgym.worlds import check_seed


@documented(Options)
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

    `features="memory"` adds running statistics of the episode to the features of the last interval (`"instant"`, the
    default): extremes, means, totals and trends of each flow (`bbrgym.envs.memory`).

    The features; `linear` and `log` scale the range from low to high to [0, 1], `within` gives 1 there and 0 elsewhere:

    See `bbrgym.envs.observation.FEATURES`.

    ## Rewards
    The weighted sum of the terms of `bbrgym.envs.terms.TERMS`: `reward` names a preset or gives the weights. The
    default is the score of evaluations: mean log2(goodput / fair share) - 0.5 mean log2(RTT / base RTT). Means are over
    the tuned and the fixed flows, so the reward is privileged; with `score="own"` over the tuned ones.
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
        >>> env = gymnasium.make("bbrgym/Tune-v2", world="twin", scenario="rtt_fairness", variant="bbq")
        >>> observation, info = env.reset(seed=1)
        >>> observation, reward, terminated, truncated, info = env.step(env.unwrapped.default_action)
        >>> observation.shape == env.observation_space.shape, info["now_s"]
        (True, 0.5)
        >>> env.close()

    ## Arguments
    See `bbrgym.envs.options.Options`.

    ## Version History
    * v2: the default reward is of the network: it counts flows that are not tuned too.
    * v1: arguments default to those of training.
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
        self._batch.episodes.set_options({} if options is None else options, [0])
        super().reset(seed=seed)
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
        truncated = bool(batch.episodes.has_ended[0])
        info = batch.info_of(0, terms)
        return observation, reward, False, truncated, info

    def save(self) -> EpisodeSnapshot:
        """Return a snapshot of the episode, for any number of `restore` calls.

        Raises:
            ConfigError: its world cannot be saved.
            ResetNeeded, ClosedEnvironmentError: no episode has begun, or the environment is closed.
        """
        return self._batch.save(0)

    def restore(self, snapshot: EpisodeSnapshot) -> tuple[ObsType, dict[str, Any]]:
        """Continue from a snapshot of any environment with equal arguments, of another process too, bit for bit.

        The generator from which a reset without seed draws stays the environment's own. So do the states of wrappers:
        `TimeLimit` goes on counting its own steps; `gymnasium.make_vec` with `max_episode_steps` counts the snapshot's.

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
        return self._batch.episodes.render(0)

    def close(self) -> None:
        """End the world for good."""
        self._batch.episodes.close()
