# SPDX-License-Identifier: GPL-2.0-only
"""bbrgym/Tune-v0: one controller for the tunables of all learner flows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded
from numpy.typing import NDArray

from bbrgym.envs.action import Action, TunablesAction
from bbrgym.envs.observation import Observation, SenderObservation
from bbrgym.envs.render import History
from bbrgym.envs.reward import Interval, Reward
from bbrgym.errors import ConfigError
from bbrgym.scenario import Scenario
from bbrgym.scenario_files import load_scenario, with_variant
from bbrgym.worlds import Isolation, World, WorldError, make_world

_SEEDS = 2**31


class TuneEnv(gymnasium.Env[Observation, Action]):
    """Set the tunables of a BBR variant while its flows run.

    ## Description
    Flows share a bottleneck; those with the role `learner` run the chosen variant. Each step sets their tunables, all
    to the same values, lets the network run for a control interval, and pays for how well they did in it.

    ## Action Space
    `Box(-1, 1, (tunables,), float32)`: each coordinate runs through its tunable's range, linear or logarithmic as the
    table of tunables says (`bbrgym.envs.action`). 0 is not the default: `env.unwrapped.default_action` is the variant's
    own setting. `env.unwrapped.tunables` names the coordinates.

    ## Observation Space
    `Box(0, 1, (stack * (flows * features + tunables),), float32)`: of each learner flow what its sender knows, then the
    tunables in force; the oldest of `stack` intervals first. `bbrgym.envs.observation.FEATURES` is the features' table.

    ## Rewards
    The sum of the terms of `bbrgym.envs.reward.TERMS` times `reward_weights`, by default the score by which runs are
    compared: mean log2(goodput / fair share) - 0.5 mean log2(RTT / base RTT). `info["reward_terms"]` has every term.

    ## Starting State
    Time 0 of the scenario, the variant's own setting (and what the scenario sets of it), nothing sent. The first
    `reset(seed=s)` runs the network with seed s; a reset without seed draws the next one from it.
    `reset(options={"scenario": ...})` changes the scenario, for one with as many learner flows.

    ## Episode End
    `truncated` at the scenario's end. Never `terminated`.

    ## Info
    What only an onlooker knows: `flow_stats` [flows, fields] and `link_stats` [fields] of the interval (columns
    `env.unwrapped.flow_fields` and `link_fields`), `now_s`, `scenario`, `seed`, `tunables` by name, `reward_terms`.

    ## Errors
    An action outside the space is a `ConfigError`. If the world breaks, `step` and `reset` raise `WorldError`; `reset`
    then starts afresh.

    ## Arguments
    * `world`: name of the world, `ns3`.
    * `scenario`: a name, a path, a mapping or a Scenario.
    * `variant`: what the learner flows run.
    * `tunables`: names of those to set; all of the variant without.
    * `control_interval_s`: simulated seconds of a step.
    * `features`, `stack`: of the observation; all features of the last interval without.
    * `reward_weights`: by term, 0 for those left out.
    * `isolation`, `timeout_s`: see `bbrgym.make_world`.
    * `render_mode`: `rgb_array` draws the run so far.

    ## Version History
    * v0: first.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 - as Gymnasium has it

    def __init__(
        self,
        world: str = "ns3",
        scenario: str | Mapping[str, Any] | Scenario = "steady",
        variant: str = "bbq",
        tunables: Sequence[str] | None = None,
        control_interval_s: float = 0.1,
        features: Sequence[str] | None = None,
        stack: int = 1,
        reward_weights: Mapping[str, float] | None = None,
        isolation: Isolation = "process",
        timeout_s: float = 60.0,
        render_mode: str | None = None,
    ) -> None:
        if not 0.0 < control_interval_s < math.inf:
            raise ConfigError(f"control_interval_s: {control_interval_s}, allowed is a finite number above 0")
        if render_mode not in (None, "rgb_array"):
            raise ConfigError(f"render_mode: {render_mode!r}, allowed are None and 'rgb_array'")
        self.render_mode = render_mode
        self._world_name = world
        self._isolation: Isolation = isolation
        self._timeout_s = timeout_s
        self._variant = variant
        self._control_interval_s = control_interval_s
        self._world: World | None = None
        self._is_running = False
        self._history: History | None = None
        self._action = TunablesAction(variant, tunables)
        self._take(load_scenario(scenario))
        self._observation = SenderObservation(len(self._learners), len(self._action.names), features, stack)
        self._reward = Reward(reward_weights)
        self.action_space = self._action.space
        self.observation_space = self._observation.space

    # ---- Gymnasium ---------------------------------------------------------------------------------------------

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Starts a run; see Starting State."""
        super().reset(seed=seed)
        self._take_options(options or {})
        world_seed = int(self.np_random.integers(_SEEDS)) if seed is None else seed
        self._is_running = False
        if self._world is None:
            self._world = make_world(
                self._world_name,
                self._scenario,
                world_seed,
                isolation=self._isolation,
                timeout_s=self._timeout_s,
            )
        else:
            self._world.reset(self._scenario, world_seed)
        self._is_running = True
        self._setting = self._action.from_values(self._values_in_force(self._world))
        if self.render_mode == "rgb_array":
            title = f"{self._scenario.name}, {self._variant}, seed {world_seed}"
            names = [flow.name for flow in self._flows]
            self._history = History(title, self._scenario.duration_s, names, self.tunables)
        stats = self._world.flow_stats()[self._learners]
        return self._observation.reset(self._world.flow_fields, stats, self._setting), self._info(self._world)

    def step(self, action: Action) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Sets the tunables and runs for a control interval."""
        if self._world is None or not self._is_running:
            raise ResetNeeded("call reset() first: no run has begun, or it has ended")
        values = self._action.to_values(action)
        try:
            for learner in self._learners:
                self._world.set_tunables(learner, values)
            self._world.advance(self._control_interval_s)
        except WorldError:
            self._is_running = False
            raise
        self._is_running = not self._world.done

        previous, self._setting = self._setting, self._action.from_values(values)
        flows = dict(zip(self._world.flow_fields, self._world.flow_stats().T, strict=True))
        link = dict(zip(self._world.link_fields, self._world.link_stats().tolist(), strict=True))
        terms = self._reward.terms(
            Interval(
                flows=flows,
                learners=self._learners[flows["active"][self._learners] > 0],
                base_rtt_ms=self._base_rtt_ms,
                moved=np.abs(self._setting - previous),
            )
        )
        if self._history is not None:
            self._history.add(self._world.now_s, flows, link, (self._setting + 1.0) / 2.0)
        observation = self._observation.step(self._world.flow_stats()[self._learners], self._setting)
        info = {**self._info(self._world), "reward_terms": terms}
        return observation, self._reward.total(terms), False, self._world.done, info

    def render(self) -> NDArray[np.uint8] | None:
        """RGB image [720, 960, 3] of the run so far; None without a render mode."""
        if self.render_mode is None:
            return None
        if self._history is None:
            raise ResetNeeded("call reset() first: no run has begun")
        return self._history.draw()

    def close(self) -> None:
        """Ends the world."""
        if self._world is not None:
            self._world.close()
            self._world = None
        self._is_running = False

    # ---- what it is made of ------------------------------------------------------------------------------------

    @property
    def tunables(self) -> tuple[str, ...]:
        """The coordinates of an action."""
        return self._action.names

    @property
    def default_action(self) -> Action:
        """The action that gives the variant's own setting."""
        return np.array(self._action.default)

    @property
    def flow_fields(self) -> tuple[str, ...]:
        """The columns of ``info["flow_stats"]``; known from the first reset on."""
        return () if self._world is None else self._world.flow_fields

    @property
    def link_fields(self) -> tuple[str, ...]:
        """The entries of ``info["link_stats"]``; known from the first reset on."""
        return () if self._world is None else self._world.link_fields

    # ---- details -----------------------------------------------------------------------------------------------

    def _take(self, scenario: Scenario) -> None:
        self._scenario = with_variant(scenario, self._variant)
        self._flows = self._scenario.resolved().flows
        self._learners = _learners_of(self._scenario)
        if not len(self._learners):
            raise ConfigError(f"scenario {scenario.name!r} has no flow with role learner: nothing would be controlled")
        self._base_rtt_ms = np.array([flow.rtt_ms for flow in self._flows])

    def _take_options(self, options: dict[str, Any]) -> None:
        unknown = set(options) - {"scenario"}
        if unknown:
            raise ConfigError(f"reset options: {sorted(unknown)}, allowed is scenario")
        if "scenario" in options:
            scenario = load_scenario(options["scenario"])
            learners = len(_learners_of(scenario))
            if learners != len(self._learners):
                raise ConfigError(
                    f"reset options: scenario {scenario.name!r} has {learners} flows with role learner, this "
                    f"environment was made for {len(self._learners)}: make another one for it"
                )
            self._take(scenario)

    def _values_in_force(self, world: World) -> dict[str, float]:
        """Of the first learner flow; a scenario can give each its own."""
        return dict(zip(world.tunable_names, world.tunables()[self._learners[0]].tolist(), strict=True))

    def _info(self, world: World) -> dict[str, Any]:
        return {
            "now_s": world.now_s,
            "scenario": self._scenario.name,
            "seed": world.seed,
            "tunables": {name: value for name, value in self._values_in_force(world).items() if name in self.tunables},
            "flow_stats": world.flow_stats().copy(),
            "link_stats": world.link_stats().copy(),
        }


def _learners_of(scenario: Scenario) -> NDArray[np.intp]:
    flows = scenario.resolved().flows
    return np.array([i for i, flow in enumerate(flows) if flow.role == "learner"], np.intp)
