# SPDX-License-Identifier: GPL-2.0-only
"""bbrgym/TuneMulti-v0: a controller for the tunables of each learner flow; needs the extra `multi`."""

from __future__ import annotations

import copy
import difflib
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from numpy.typing import NDArray

from bbrgym.envs.action import ActType
from bbrgym.envs.features import Observation
from bbrgym.envs.flow_batch import FlowBatch, FlowOptions, FlowStep
from bbrgym.envs.learners import Flags
from bbrgym.envs.options import arguments_of
from bbrgym.envs.seeding import Generators
from bbrgym.errors import ConfigError, nearest

try:
    from pettingzoo import ParallelEnv
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "bbrgym.envs.multi needs PettingZoo: pip install 'bbrgym[multi]'", name=error.name
    ) from error

Observations: TypeAlias = dict[str, Observation]
Infos: TypeAlias = dict[str, dict[str, Any]]


class TuneMultiEnv(ParallelEnv[str, Observation, ActType]):  # type: ignore[misc] # PettingZoo has no types
    """Set the tunables of each learner flow by itself, while all of them share a link.

    ## Description
    `bbrgym/TuneMulti-v0` is `bbrgym/Tune-v0` (see `TuneEnv`) with one agent for each flow of the role `learner`: each
    sees what its own sender knows, and sets its own tunables. It is made by `bbrgym.envs.multi.parallel_env(...)`.

    ## Agents
    `possible_agents` are the learner flows' names; or `learner-0`, `learner-1`, ... where scenarios are drawn, since
    each draw has flows of its own. An agent acts in the intervals in which its flow runs, be it for a part of them: it
    joins `agents` before the interval in which its flow starts, is `truncated` after the one in which it stops, and
    does not come back in that run. Intervals in which no learner flow runs are passed over.

    ## Action Space
    For each agent that of `TuneEnv`. Every agent in `agents` acts, and no other.

    ## Observation Space
    For each agent `Box(0, 1, (stack * (features + tunables),), float32)`: its own features, then its own tunables in
    force; the oldest of `stack` intervals first. What it sees first stands for the intervals before it joined.

    `state()` is what only an onlooker knows, as the critic of `TuneEnv` has it; of the space `state_space`.

    ## Rewards
    The sum of terms of `TuneEnv`. `reward_scope`:

    * `team`: each agent is paid the same: what `TuneEnv` is paid, the mean over all active learner flows (its change of
      tunables too is the mean over those that acted).
    * `own`: each agent is paid the same terms of its own flow alone; fairness is always that of all flows.

    ## Starting State
    As of `TuneEnv`; an agent that joins begins with the variant's own setting (and what the scenario sets of it).
    `reset(options={"scenario": ...})` changes the scenario for one whose learner flows are among the possible agents.
    Other options are left aside, as PettingZoo wants it.

    ## Episode End
    All agents are `truncated` at the scenario's end; the run ends earlier when the last learner flow has stopped. Never
    `terminated`.

    ## Info
    Of each agent what `TuneEnv` has, `tunables` and `reward_terms` being its own; and `flow`, its flow's name.

    ## Errors
    As of `TuneEnv`. An agent without an action, and an action without an agent, are a `ConfigError`.

    ## Arguments
    Those of `bbrgym.envs.options.Options` and `bbrgym.envs.flow_batch.FlowOptions`, by name.

    ## Version History
    * v0: first.
    """

    metadata = {  # noqa: RUF012 - as PettingZoo has it
        "name": "bbrgym/TuneMulti-v0",
        "render_modes": ["rgb_array"],
        "render_fps": 10,
        "is_parallelizable": True,
    }

    @arguments_of(FlowOptions)
    def __init__(self, options: FlowOptions) -> None:
        self._batch = FlowBatch(1, options)
        self._generators = Generators(1)
        names = self._batch.given_flow_names(0)
        self._has_flows_names = names is not None
        self._slots: dict[str, int] = {}  # of the agents of this run
        self.render_mode = options.render_mode
        self.possible_agents = list(names or (f"learner-{slot}" for slot in range(self._batch.max_learners)))
        self.agents: list[str] = []
        self.state_space = self._batch.critic.space
        views, moves = self._batch.observation.space, self._batch.action.space
        self.observation_spaces = {agent: copy.deepcopy(views) for agent in self.possible_agents}
        self.action_spaces = {agent: copy.deepcopy(moves) for agent in self.possible_agents}

    # ---- PettingZoo --------------------------------------------------------------------------------------------

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observations, Infos]:
        """Starts a run; see Starting State."""
        self.agents = []
        self._batch.take_options(_scenario_of(options or {}), [0])
        observations = self._batch.reset([0], self._generators.draw_seeds([0], [seed]))
        self._slots = self._slots_of_run()
        observations = self._pass_over(observations)
        self.agents = self._that(self._batch.will_act)
        return self._seen_by(self.agents, observations), self._infos_of(self.agents)

    def step(
        self, actions: dict[str, ActType]
    ) -> tuple[Observations, dict[str, float], dict[str, bool], dict[str, bool], Infos]:
        """Sets each agent's tunables and runs for a control interval.

        What comes back is of the agents that acted, and of those that join.
        """
        if not self.agents:
            raise ResetNeeded("call reset() first: no run has begun, or it has ended")
        acted = self.agents
        step = self._batch.step(self._table_of(actions))
        observations = self._seen_by(acted, step.observations)
        infos = self._infos_of(acted, step)
        left = self._that(step.has_left)

        now = self._pass_over(step.observations)
        self.agents = self._that(self._batch.will_act)
        joined = [agent for agent in self.agents if agent not in acted]
        observations |= self._seen_by(joined, now)
        infos |= self._infos_of(joined)
        rewards = {agent: float(step.rewards[0, self._slots[agent]]) for agent in acted} | dict.fromkeys(joined, 0.0)
        truncated = {agent: agent in left for agent in [*acted, *joined]}
        return observations, rewards, dict.fromkeys(truncated, False), truncated, infos

    def observation_space(self, agent: str) -> spaces.Box:
        """Always the same one."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """Always the same one."""
        return self.action_spaces[agent]

    def state(self) -> Observation:
        """What only an onlooker knows of the last interval, for a critic of all agents: of the space `state_space`."""
        state: Observation = self._batch.seen_by_critic()[0]
        return state

    def render(self) -> NDArray[np.uint8] | None:
        """RGB image [720, 960, 3] of the run so far; None without a render mode."""
        return self._batch.render(0)

    def close(self) -> None:
        """Ends the world."""
        self.agents = []
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
        """The columns of ``flow_stats`` in infos; known from the first reset on."""
        return self._batch.flow_fields

    @property
    def link_fields(self) -> tuple[str, ...]:
        """The entries of ``link_stats`` in infos; known from the first reset on."""
        return self._batch.link_fields

    # ---- details -----------------------------------------------------------------------------------------------

    def _slots_of_run(self) -> dict[str, int]:
        """Which slot each agent has in the run that has begun."""
        flows = self._batch.flow_names(0)
        agents = flows if self._has_flows_names else self.possible_agents[: len(flows)]
        for agent in agents:
            if agent not in self.possible_agents:
                raise ConfigError(f"scenario: learner flow {agent!r}: {nearest(agent, self.possible_agents)}")
        return {agent: slot for slot, agent in enumerate(agents)}

    def _that(self, flags: Flags) -> list[str]:
        """The agents whose flag is set: [1, L]."""
        return [agent for agent, slot in self._slots.items() if flags[0, slot]]

    def _pass_over(self, observations: Observation) -> Observation:
        """Runs to where an agent acts or the run ends."""
        while self._batch.is_waiting(0):
            observations = self._batch.step(self._table_of({})).observations
        return observations

    def _table_of(self, actions: Mapping[str, ActType]) -> ActType:
        """The actions of the agents that act, in the slots: [1, L, tunables]."""
        acting = self._that(self._batch.will_act)
        if set(actions) != set(acting):
            raise ConfigError(f"actions: of {sorted(actions)}, allowed is one of each agent there is: {acting}")
        control = self._batch.action
        table = np.stack([control.default] * self._batch.max_learners)
        for agent, action in actions.items():
            if np.shape(action) != table.shape[1:]:
                raise control.refusal(action)
            control.check(np.asarray(action))
            table[self._slots[agent]] = action
        return table[None]

    def _seen_by(self, agents: Sequence[str], observations: Observation) -> Observations:
        return {agent: observations[0, self._slots[agent]] for agent in agents}

    def _infos_of(self, agents: Sequence[str], step: FlowStep | None = None) -> Infos:
        """Of the moment; with what the step paid."""
        infos: Infos = {}
        for agent in agents:
            slot = self._slots[agent]
            infos[agent] = self._batch.info_of_flow(0, slot)
            if step is not None:
                infos[agent]["reward_terms"] = {name: float(term[0, slot]) for name, term in step.terms.items()}
        return infos


parallel_env = TuneMultiEnv


def _scenario_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that mean something here; PettingZoo's own test gives others, which are not to matter."""
    for name in options:
        if name != "scenario" and difflib.get_close_matches(name, ["scenario"]):
            raise ConfigError(f"reset options: {name!r}, did you mean scenario?")
    return {name: value for name, value in options.items() if name == "scenario"}
