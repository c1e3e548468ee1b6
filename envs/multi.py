# SPDX-License-Identifier: GPL-2.0-only
"""bbrgym/TuneMulti-v2: one controller for the tunables of each tuned flow; needs the extra `multi`."""

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
from bbrgym.envs.documentation import documented
from bbrgym.envs.episodes import RESET_FIRST
from bbrgym.envs.features import Observation
from bbrgym.envs.flow_batch import FlowBatch, MultiOptions
from bbrgym.envs.options import Options, arguments_of
from bbrgym.envs.seeding import Generators
from bbrgym.envs.tune_properties import TuneProperties
from bbrgym.errors import ConfigError, MissingExtraError, nearest
from bbrgym.schema import shown
from bbrgym.worlds import Flags, Table, check_seed

try:
    from pettingzoo import ParallelEnv
except ModuleNotFoundError as error:
    raise MissingExtraError("bbrgym.envs.multi", "multi", error) from error

Observations: TypeAlias = dict[str, Observation]
Infos: TypeAlias = dict[str, dict[str, Any]]


@documented(MultiOptions, without=Options)
class TuneMultiEnv(TuneProperties, ParallelEnv[str, Observation, ActType]):  # type: ignore[misc] # PettingZoo has no types
    """Set the tunables of each tuned flow on its own, while all of them share a link.

    ## Description
    `bbrgym/TuneMulti-v2` is `bbrgym/Tune-v2` (see `TuneEnv`) with one agent for each flow with the role `tuned`: each
    agent observes what its own sender knows, and sets its own tunables. It is made by
    `bbrgym.envs.multi.parallel_env(...)`.

    ## Agents
    `possible_agents` are the names of the tuned flows; or `tuned-0`, `tuned-1`, ... where scenarios are drawn,
    since each draw has its own flows. An agent acts in the intervals in which its flow runs, even for a part: it joins
    `agents` before the interval in which its flow starts, is `truncated` after the one in which it stops, and does not
    come back in that episode. Intervals in which no tuned flow runs are skipped.

    Many wrappers need all agents all the time. With `absent_agents="idle"` all possible agents are there from the
    beginning to the end of the scenario, none of its intervals is skipped, and infos say by `active` whether an agent's
    flow runs in the next step. Until then its observation and its reward are 0, and its action is ignored.

    ## Action Space
    For each agent that of `TuneEnv`. Every agent in `agents` acts, and no other.

    ## Observation Space
    For each agent `Box(0, 1, (frame_stack * (features + tunables),), float32)`: its own features, then its own current
    tunables; the oldest of `frame_stack` intervals first. The first observation stands for the intervals before it
    joined.

    `state()` is the privileged observation, as the critic of `TuneEnv` has it; of the space `state_space`.

    ## Rewards
    The sum of terms of `TuneEnv`. `reward_scope`:

    * `team`: all agents get the same reward, that of `TuneEnv`: the mean over all active flows that `score` counts
      (`change` is the mean over those that acted).
    * `own`: each agent gets the same terms of its own flow alone; `fairness` is always that of all flows.

    ## Starting State
    As of `TuneEnv`; an agent that joins starts with the variant's own tunables (or those that the scenario sets).
    `reset(options={"scenario": ...})` changes the scenario, to one whose tuned flows are among the possible agents.
    Other options are ignored, as PettingZoo expects.

    ## Episode End
    All agents are `truncated` at the end of the scenario; the episode ends earlier when the last tuned flow has
    stopped. Never `terminated`.

    ## Info
    For each agent that of `TuneEnv`, with its own `tunables` and `reward_terms`; and `flow`, the name of its flow.

    ## Errors
    As of `TuneEnv`. A missing action, and an action of no agent, are a `ConfigError`.

    ## Example
        >>> from bbrgym.envs.multi import parallel_env
        >>> env = parallel_env(world="twin", scenario="rtt_fairness", variant="bbq")
        >>> observations, infos = env.reset(seed=1)
        >>> actions = {agent: env.action_space(agent).sample() for agent in env.agents}
        >>> observations, rewards, terminations, truncations, infos = env.step(actions)
        >>> sorted(rewards) == sorted(env.agents)
        True
        >>> env.close()

    ## Arguments
    Those of `TuneEnv`, and:

    See `bbrgym.envs.flow_batch.MultiOptions`.

    ## Version History
    * v2: the default reward is of the network: it counts flows that are not tuned too.
    * v1: arguments default to those of training.
    * v0: first version.
    """

    metadata = {  # noqa: RUF012 - as of PettingZoo
        "name": "bbrgym/TuneMulti-v2",
        "render_modes": ["rgb_array"],
        "render_fps": 10,
        "is_parallelizable": True,
    }

    _batch: FlowBatch

    @arguments_of(MultiOptions)
    def __init__(self, options: MultiOptions) -> None:
        self._keeps_absent = options.absent_agents == "idle"
        self._batch = FlowBatch(1, options, runs_to_the_end=self._keeps_absent)
        self._generators = Generators(1)
        names = self._batch.episodes.given_flow_names(0)
        self._has_flow_names = names is not None
        self._tuned_of: dict[str, int] = {}  # index of each agent's flow among the tuned flows of this episode
        self.render_mode = options.render_mode
        self.possible_agents = list(names or (f"tuned-{index}" for index in range(self._batch.max_tuned)))
        self.agents: list[str] = []
        self.state_space = self._batch.critic.space
        observation_space, action_space = self._batch.observation.space, self._batch.action.space
        self.observation_spaces = {agent: copy.deepcopy(observation_space) for agent in self.possible_agents}
        self.action_spaces = {agent: copy.deepcopy(action_space) for agent in self.possible_agents}

    # ---- PettingZoo --------------------------------------------------------------------------------------------

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observations, Infos]:
        """Begin an episode; see Starting State and Errors.

        Args:
            seed: seed of the world. Default: drawn from the generator of the last seed given.
            options: `scenario`, see Starting State.
        """
        given = _scenario_of({} if options is None else options)
        seed = None if seed is None else check_seed(seed)
        self._batch.episodes.set_options(given, [0])
        self.agents = []
        observations = self._batch.reset([0], self._generators.draw_seeds([0], [seed]))
        self._tuned_of = self._assign_agents()
        if self._keeps_absent:
            self.agents = list(self.possible_agents)
            return self._observe_all(), self._infos(self.agents)
        observations = self._skip_idle(observations)
        self.agents = self._agents_where(self._batch.will_act)
        return self._by_agent(self.agents, observations), self._infos(self.agents)

    def step(
        self, actions: dict[str, ActType]
    ) -> tuple[Observations, dict[str, float], dict[str, bool], dict[str, bool], Infos]:
        """Set the tunables of each agent's flow and run for a control interval; see Errors.

        Args:
            actions: action of each agent, [tunables]; a number if flat.

        Returns:
            Observations, rewards, terminations, truncations and infos of the agents that acted and of those that join.
        """
        batch, acted = self._batch, self.agents
        batch.episodes.check_running()
        if not acted:  # the last reset was refused
            raise ResetNeeded(RESET_FIRST)
        batch.simulate(self._action_array(actions))
        terms = batch.reward_terms()
        if self._keeps_absent:
            return self._step_all(terms)
        observations = self._by_agent(acted, batch.observe())
        rewards = self._by_agent(acted, batch.reward(terms).tolist())
        left = self._agents_where(batch.has_left)
        infos = self._infos(acted, terms)

        newest = self._skip_idle(batch.observe())
        self.agents = self._agents_where(batch.will_act)
        joined = [agent for agent in self.agents if agent not in acted]
        observations |= self._by_agent(joined, newest)
        rewards |= dict.fromkeys(joined, 0.0)
        infos |= self._infos(joined)
        truncated = {agent: agent in left for agent in [*acted, *joined]}
        return observations, rewards, dict.fromkeys(truncated, False), truncated, infos

    def observation_space(self, agent: str) -> spaces.Box:
        """Return the observation space of an agent, always the same object."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Space[Any]:
        """Return the action space of an agent, always the same object."""
        return self.action_spaces[agent]

    def state(self) -> Observation:
        """Return the privileged observation of the last interval, of the space `state_space`."""
        state: Observation = self._batch.observe_privileged()[0]
        return state

    def render(self) -> NDArray[np.uint8] | None:
        """Return an RGB image [720, 960, 3] of the episode so far; None without a render mode."""
        return self._batch.episodes.render(0)

    def close(self) -> None:
        """End the world for good."""
        self.agents = []
        self._batch.episodes.close()

    # ---- details -----------------------------------------------------------------------------------------------

    def _assign_agents(self) -> dict[str, int]:
        """Return the index of each agent's flow among the tuned flows of the episode that has begun."""
        flows = self._batch.episodes.flow_names(0)
        agents = flows if self._has_flow_names else self.possible_agents[: len(flows)]
        for agent in agents:
            if agent not in self.possible_agents:
                raise ConfigError(
                    f"scenario: tuned flow {agent!r}: {nearest(agent, self.possible_agents, 'possible_agents')}"
                )
        return {agent: index for index, agent in enumerate(agents)}

    def _agents_where(self, flags: Flags) -> list[str]:
        """Return the agents whose flag is set, of [1, L]."""
        return [agent for agent, index in self._tuned_of.items() if flags[0, index]]

    def _skip_idle(self, observations: Observation) -> Observation:
        """Run until an agent acts or the episode ends; return the newest observations."""
        while self._batch.is_waiting(0):
            self._batch.simulate(self._action_array({}))
            observations = self._batch.observe()
        return observations

    def _step_all(
        self, terms: dict[str, Table]
    ) -> tuple[Observations, dict[str, float], dict[str, bool], dict[str, bool], Infos]:
        """Return what a step of all possible agents returns."""
        agents, has_ended = self.agents, bool(self._batch.episodes.has_ended[0])
        present = list(self._tuned_of)
        rewards = dict.fromkeys(agents, 0.0) | self._by_agent(present, self._batch.reward(terms).tolist())
        truncated = dict.fromkeys(agents, has_ended)
        self.agents = [] if has_ended else agents
        return self._observe_all(), rewards, dict.fromkeys(agents, False), truncated, self._infos(agents, terms)

    def _observe_all(self) -> Observations:
        """Return the observation of each possible agent: 0, unless it acts next or the episode ends with its step."""
        batch = self._batch
        is_shown = batch.has_acted if batch.episodes.has_ended[0] else batch.will_act
        absent = np.zeros(batch.observation.space.shape, np.float32)
        observations = {agent: absent.copy() for agent in self.possible_agents}
        return observations | self._by_agent(self._agents_where(is_shown), batch.observe())

    def _action_array(self, actions: Mapping[str, ActType]) -> ActType:
        """Put the actions of the agents at the indices of the agents' flows: [1, L, tunables]."""
        acting = self.agents if self._keeps_absent else self._agents_where(self._batch.will_act)
        if not isinstance(actions, Mapping) or set(actions) != set(acting):
            given = sorted(map(str, actions)) if isinstance(actions, Mapping) else shown(actions)
            raise ConfigError(f"actions: of {given}, allowed is one of each agent there is: {acting}")
        mapping = self._batch.action
        array = np.stack([mapping.default] * self._batch.max_tuned)
        for agent, action in actions.items():
            checked = mapping.array(action)
            mapping.check(checked)
            if agent in self._tuned_of:
                array[self._tuned_of[agent]] = checked
        return array[None]

    def _by_agent(self, agents: Sequence[str], values: Any) -> dict[str, Any]:
        """Return the value of each agent, of [1, L, ...]."""
        return {agent: values[0][self._tuned_of[agent]] for agent in agents}

    def _infos(self, agents: Sequence[str], terms: dict[str, Table] | None = None) -> Infos:
        """Return the info of each agent, with its reward terms if there are any."""
        if not self._keeps_absent:
            return {agent: self._batch.info_of_flow(0, self._tuned_of[agent], terms) for agent in agents}
        active = self._agents_where(self._batch.will_act)
        return {
            agent: {**self._batch.info_of_flow(0, self._tuned_of.get(agent), terms), "active": agent in active}
            for agent in agents
        }


parallel_env = TuneMultiEnv


def _scenario_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the known options; others are ignored, since PettingZoo's own test gives some."""
    if not isinstance(options, Mapping):
        raise ConfigError(f"reset options: {shown(options)}, allowed is a mapping with scenario")
    for name in options:
        if name != "scenario" and difflib.get_close_matches(str(name), ["scenario"]):
            raise ConfigError(f"reset options: {name!r}, did you mean scenario?")
    return {name: value for name, value in options.items() if name == "scenario"}
