# SPDX-License-Identifier: GPL-2.0-only
"""bbrgym/Tune-v0: one controller for the tunables of all learner flows."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from bbrgym.envs.action import ActType
from bbrgym.envs.features import ObsType, observation_at
from bbrgym.envs.options import Options, arguments_of
from bbrgym.envs.seeding import draw_seed
from bbrgym.envs.tune_batch import TuneBatch


class TuneEnv(gymnasium.Env[ObsType, ActType]):
    """Set the tunables of a BBR variant while its flows run.

    ## Description
    Flows share a bottleneck; those with the role `learner` run the chosen variant. Each step sets their tunables, all
    to the same values, lets the network run for a control interval, and pays for how well they did in it. How many
    there are may differ from run to run, up to `max_learners`.

    ## Action Space
    A setting has a coordinate in [-1, 1] for each tunable, which runs through its range, linear or logarithmic as the
    table of tunables says. `env.unwrapped.tunables` names the coordinates.

    * `Box(-1, 1, (tunables,), float32)`, by default. `action_kind="absolute"`: the action is the setting. 0 is not the
      variant's own: that is `env.unwrapped.default_action`. `"relative"`: it moves the setting in force by up to
      `step_size`; 0 stays, and is the default action.
    * `MultiDiscrete` with `levels`: absolute, evenly from one end of the range to the other, and whole numbers value by
      value; relative, evenly from down to up with an odd number, so that the middle stays, and whole numbers down, stay
      or up. With `flat=True` one number stands for all, `Discrete`, as DQN wants it.
    * `max_change` limits how far a coordinate moves in a step, whatever the action.

    ## Observation Space
    `Box(0, 1, (stack * (numbers + tunables),), float32)`: what the learner flows' senders know, then the tunables in
    force; the oldest of `stack` intervals first. `bbrgym.envs.observation.FEATURES` is the features' table.

    * view `each`: `max_learners * features` numbers, one flow after the other. A run with fewer learner flows leaves
      the last blocks at 0.
    * view `pooled`: `3 * features + 1` numbers: mean, smallest and largest of each feature over the active learner
      flows, and which part of `max_learners` is active. So what an agent sees has the same form for any number of
      flows, in any order.

    `critic=True` makes it `Dict(actor=..., critic=...)`. For training the critic has what only an onlooker knows of the
    last interval: of the link, and of the learner flows, `each` or `pooled` too (`bbrgym.envs.critic`).

    ## Rewards
    The weighted sum of the terms of `bbrgym.envs.terms.TERMS`: `reward` names a preset or gives the weights. The
    default is the score by which runs are compared: mean log2(goodput / fair share) - 0.5 mean log2(RTT / base RTT).
    `info["reward_terms"]` has the terms that it names, be it with weight 0.

    ## Starting State
    Time 0 of the scenario, the variant's own setting (and what the scenario sets of it), nothing sent. The first
    `reset(seed=s)` runs the network with seed s; a reset without seed draws the next one from it.
    `reset(options={"scenario": ...})` changes the scenario, for one with at most `max_learners` learner flows.

    ## Episode End
    `truncated` at the scenario's end. Never `terminated`.

    ## Info
    What only an onlooker knows: `flow_stats` [flows, fields] and `link_stats` [fields] of the interval (columns
    `env.unwrapped.flow_fields` and `link_fields`), `now_s`, `scenario`, `seed`, `tunables` by name, `reward_terms`.

    ## Errors
    An action outside the space is a `ConfigError`. If the world breaks, `step` and `reset` raise `WorldError`; `reset`
    then starts afresh.

    ## Arguments
    Those of `bbrgym.envs.options.Options`, by name.

    ## Version History
    * v0: first.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 - as Gymnasium has it

    @arguments_of(Options)
    def __init__(self, options: Options) -> None:
        self._batch = TuneBatch(1, options)
        self.render_mode = options.render_mode
        self.action_space = self._batch.action.space
        self.observation_space = self._batch.observation_space

    # ---- Gymnasium ---------------------------------------------------------------------------------------------

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[ObsType, dict[str, Any]]:
        """Starts a run; see Starting State."""
        super().reset(seed=seed)
        self._batch.take_options(options or {}, [0])
        observations = self._batch.reset([0], [draw_seed(self.np_random) if seed is None else seed])
        return observation_at(observations, 0), self._batch.info_of(0)

    def step(self, action: ActType) -> tuple[ObsType, float, bool, bool, dict[str, Any]]:
        """Sets the tunables and runs for a control interval."""
        step = self._batch.step(np.asarray(action)[None])
        info = {**self._batch.info_of(0), "reward_terms": {name: float(term[0]) for name, term in step.terms.items()}}
        return observation_at(step.observations, 0), float(step.rewards[0]), False, bool(step.truncated[0]), info

    def render(self) -> NDArray[np.uint8] | None:
        """RGB image [720, 960, 3] of the run so far; None without a render mode."""
        return self._batch.render(0)

    def close(self) -> None:
        """Ends the world."""
        self._batch.close()

    # ---- what it is made of ------------------------------------------------------------------------------------

    @property
    def tunables(self) -> tuple[str, ...]:
        """The coordinates of an action."""
        return self._batch.scaling.names

    @property
    def default_action(self) -> ActType:
        """The variant's own setting, on a grid the nearest to it; if actions are relative, to stay."""
        return np.array(self._batch.action.default)

    @property
    def max_learners(self) -> int:
        """How many learner flows a run can have."""
        return self._batch.max_learners

    @property
    def flow_fields(self) -> tuple[str, ...]:
        """The columns of ``info["flow_stats"]``; known from the first reset on."""
        return self._batch.flow_fields

    @property
    def link_fields(self) -> tuple[str, ...]:
        """The entries of ``info["link_stats"]``; known from the first reset on."""
        return self._batch.link_fields
