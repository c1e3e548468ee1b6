# SPDX-License-Identifier: GPL-2.0-only
"""Trainer `evolution`: CMA-ES over the parameters of a policy, scored by whole episodes.

    anchors     the best fixed settings that CMA-ES finds: for all draws, and from there for those beside other flows
    gate        the first rule: on which features the second anchor gains over the first one, by ridge regression
    evolution   CMA-ES over the gate and the corrections, the anchors held; a generation meets fresh draws, all its
                policies the same ones

A policy `network` has the first anchor alone and no gate; separable CMA-ES finds its weights.

A policy's fitness is its mean gain over the better anchor on these draws, see `guarded_mean`; of several distributions
the smallest of its gains, each over the anchor that is better there. The agent is the mean of the parameters'
distribution, averaged over the last generations. Hansen, The CMA evolution strategy: a tutorial, 2016.

Its steps are the control intervals of all simulations. An interrupted training repeats its generations from their kept
scores, so its state is the same to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn

from bbrgym.agents.base import Agent, Constant
from bbrgym.agents.evolution.corrections_network import CorrectionsNetwork
from bbrgym.agents.evolution.deployed import Deployed
from bbrgym.agents.evolution.gate import fit_gate
from bbrgym.agents.evolution.modes_network import HeldNetwork, ModesNetwork
from bbrgym.agents.evolution.population import NetworkPolicies, Parameters, Population
from bbrgym.agents.evolution.search import Evolution
from bbrgym.agents.network_agents import NetworkAgent
from bbrgym.agents.oracle import presets
from bbrgym.agents.rollout import batch_of
from bbrgym.agents.start import start_settings
from bbrgym.agents.training.checkpoints import has_state, restore_state, save_state
from bbrgym.agents.training.draw_groups import BESIDE_OTHERS, group_of, guarded_mean
from bbrgym.agents.training.draws import TrainingDraw, training_draws
from bbrgym.agents.training.folder import TrainingFolder
from bbrgym.agents.training.loop import TrainingRun
from bbrgym.agents.training.settings import TrainingSettings
from bbrgym.agents.training.trainer import Trainer
from bbrgym.envs.scaling import TunableScaling
from bbrgym.errors import ConfigError, nearest
from bbrgym.scenario.distribution import Distribution, load_distribution
from bbrgym.schema import Float, List, NotNegative, Whole
from bbrgym.worlds import Flags, Table

_ANCHOR_STEP = 0.3  # standard deviation of a setting in the first generation; tunables range from -1 to 1
_RULE_STEP = 0.05  # of a rule's parameters; features are standardised
_HYSTERESIS = 0.1  # of the first rule, in units of the score
# tried on the first rule's merits: its labels do not know what disagreement costs
_LEAST_SHIFT, _MOST_SHIFT = -0.5, 0.2
_EVERY = 3  # control intervals between two samples of features of a flow


class EvolutionTrainer(Trainer):
    """Trains and loads policies found by evolution."""

    is_shared: ClassVar[bool] = True
    is_continuable: ClassVar[bool] = False

    # `modes` (a rule that chooses between settings, `ModesNetwork`), `network` (a small network that moves tunables
    # around one, `CorrectionsNetwork`) or `fixed` (the best fixed setting)
    policy: Literal["modes", "network", "fixed"] = "modes"
    corrected: List[str] = ()  # tunables that a rule corrects by features beside its choice, or that a network moves
    # run folder, or a name as shipped/fixed, of a training that found a fixed setting or a portfolio, whose best one is
    # the first anchor. Default: search it
    start: str = ""
    # share of the steps for the search of the first anchor; half as many for the second one of a rule
    anchor_share: Annotated[Float, Field(gt=0, lt=0.6)] = 0.4
    # share of the steps for the first gate, or for the mean and the deviation of a network's features
    gate_share: Annotated[Float, Field(gt=0, lt=0.2)] = 0.05
    policies: Annotated[Whole, Field(ge=4, le=1000)] = 16  # of a generation
    draws: Annotated[Whole, Field(ge=1, le=10_000)] = 64  # of a generation
    # names or files of further distributions, each of which has as many of the draws as the training's own; the
    # validation meets none of them
    distributions: List[str] = ()
    guard: NotNegative = 1.0  # price of what is lost in a group of draws, see `guarded_mean`
    # share of the tuned flows that follow the policy in a draw, one at least; the others are BBR's, scored too.
    # Default: all
    deployed: Deployed | None = None
    by_cost: bool = True  # whether draws are sampled by cost, see `bbrgym.agents.training.draws`

    def adapted(self, settings: TrainingSettings) -> TrainingSettings:
        """Return the settings with one interval in an observation: a rule has no use for more; see `Trainer`."""
        return settings.model_copy(update={"env": {**settings.env, "frame_stack": 1}})

    def train(self, run: TrainingRun) -> None:
        """Search; see `Trainer`."""
        run.settings.check_whole_settings()
        if self.draws <= len(self.distributions):
            raise ConfigError(f"agent.draws: is {self.draws}, expected one for each distribution at least")
        with ExitStack() as worlds:
            _Search(self, run, worlds).run()

    def load(self, folder: TrainingFolder, settings: TrainingSettings, checkpoint: str) -> Agent:
        """Return the agent of a checkpoint; see `Trainer`."""
        made: list[Agent] = []
        restore_state(folder, checkpoint, lambda state: made.append(_agent_of(state["policy"], settings)))
        return made[0]


_Wanted: TypeAlias = Callable[[TrainingDraw], bool]


class _Search:
    """A training under way."""

    def __init__(self, asked: EvolutionTrainer, run: TrainingRun, worlds: ExitStack) -> None:
        self._asked = asked
        self._run = run
        self._worlds = worlds
        further = [load_distribution(name) for name in asked.distributions]
        self._sources = [run.settings.source, *further]  # of the draws, by turns
        self._options = run.settings.options(run.settings.world_name)
        if further and run.settings.is_per_flow:
            most = Distribution({"mix": self._sources})
            self._options = replace(self._options, max_tuned=most.max_tuned, flow_capacity=most.max_flows)
        self._scaling = TunableScaling(run.settings.variant, run.settings.action.get("tunables"))
        for name in asked.corrected:
            if name not in self._scaling.names:
                raise ConfigError(f"agent.corrected: {name!r}: {nearest(name, self._scaling.names)}")
        self._populations: dict[int, Population] = {}
        self._kept: list[Tensor] = []  # results of a former process, in order
        self._results: list[Tensor] = []
        self._policy: dict[str, Tensor] = {}
        self._step = 0
        if has_state(run.folder, "last"):
            run.resume(restore_state(run.folder, "last", lambda state: self._kept.extend(state["results"])))
            run.next_segment(run.state.step)

    def run(self) -> None:
        """Run the stages; what a former process has finished is not simulated again."""
        asked, total = self._asked, self._run.settings.total_steps
        if asked.policy == "fixed":
            self._anchor("all", _is_any, total)
        else:
            anchors = self._anchors(int(asked.anchor_share * total))
            self._evolve(*self._first_policy(anchors, int(asked.gate_share * total)), total)
        self._checkpoint()

    # ---- stages ------------------------------------------------------------------------------------------------

    def _anchors(self, steps: int) -> Tensor:
        """Return the settings of the modes, the best one for all draws first: [modes, tunables]."""
        anchors = [self._first_anchor(self._step + steps)]
        if self._asked.policy == "network":
            return torch.stack(anchors)
        drawn = self._drawn("groups", self._asked.draws)
        if any(map(_is_beside_others, drawn)) and not all(map(_is_beside_others, drawn)):
            anchors.append(self._anchor("beside others", _is_beside_others, self._step + steps // 2, anchors[0]))
        return torch.stack(anchors)

    def _first_anchor(self, end: int) -> Tensor:
        """Return the setting to start from, or the one that a search finds until a step."""
        if self._asked.start:
            return torch.from_numpy(start_settings(self._asked.start, self._scaling)[0])
        return self._anchor("all", _is_any, end)

    def _anchor(self, group: str, is_wanted: _Wanted, end: int, *also: Tensor) -> Tensor:
        """Return the setting with the best mean score over the draws of a group that a search finds until a step.

        It starts from the best one of the presets and ``also``.
        """
        self._run.stage = f"anchor {group}"
        first = torch.stack([*map(torch.from_numpy, presets(self._scaling)), *also])
        draws = self._drawn(f"{group} presets", self._asked.draws, is_wanted)
        scores = self._scores(HeldNetwork(first[0]), {"setting": first}, draws)
        network = HeldNetwork(first[int(_mean(scores, draws).argmax())])

        def fitness(parameters: Parameters, draws: Sequence[TrainingDraw]) -> Table:
            return _mean(self._scores(network, parameters, draws), draws)

        def keep(parameters: Parameters) -> None:
            self._policy = {"setting": parameters["setting"][0].clamp(-1.0, 1.0)}

        evolution = Evolution(dict(network.named_parameters()), *self._strategy(_ANCHOR_STEP, group))
        self._generations(evolution, group, is_wanted, end, fitness, keep)
        return self._policy["setting"]

    def _first_policy(self, anchors: Tensor, steps: int) -> tuple[ModesNetwork, ModesNetwork | CorrectionsNetwork]:
        """Return the rule that holds the anchors, and the policy to begin with, which corrects nothing yet."""
        self._run.stage = "gate"
        places = torch.eye(anchors.shape[1])[[self._scaling.names.index(name) for name in self._asked.corrected]]
        numbers = self._population(len(anchors)).features
        holding = ModesNetwork(anchors, places, torch.zeros(numbers), torch.ones(numbers))
        gate = fit_gate(*self._samples(holding, self._step + steps))
        mean, deviation = (torch.from_numpy(one).float() for one in (gate.mean, gate.deviation))
        if self._asked.policy == "network":
            seed = self._run.settings.stream("network", 0)
            return holding, CorrectionsNetwork.drawn(anchors[0], places, mean, deviation, seed)
        fitted = ModesNetwork(anchors, places, mean, deviation)
        with torch.no_grad():
            fitted.merit.copy_(torch.from_numpy(gate.weights))
            fitted.hysteresis.fill_(_HYSTERESIS)
            fitted.merit_bias.copy_(self._shifted(fitted, torch.from_numpy(gate.bias).float()))
        return holding, fitted

    def _shifted(self, network: ModesNetwork, bias: Tensor) -> Tensor:
        """Return the bias of the merits at which the rule gains most, of shifted ones: [modes - 1]."""
        shifts = torch.linspace(_LEAST_SHIFT, _MOST_SHIFT, self._asked.policies)[:, None]
        same = {name: one.detach().expand(len(shifts), *one.shape) for name, one in network.named_parameters()}
        tried = {**same, "merit_bias": bias + shifts}
        fitness = self._fitness(network, network)(tried, self._drawn("shift", self._asked.draws))
        return tried["merit_bias"][int(fitness.argmax())]

    def _samples(self, network: ModesNetwork, end: int) -> tuple[NDArray[np.float32], Table, Table]:
        """Return features of flows that hold the first mode, the other modes' gains there, and weights."""
        parameters = network.holding(range(len(network.anchors)))
        parts: list[Tensor] = []
        while not parts or self._step < end:
            draws = self._drawn(f"gate {len(parts)}", self._asked.draws)
            observe = partial(self._observed, network, parameters, draws)
            parts.append(self._result(len(network.anchors), draws, observe))
        table = torch.cat(parts).double().numpy()
        others = len(network.anchors) - 1
        return table[:, 1 + others :].astype(np.float32), table[:, 1 : 1 + others], table[:, 0]

    def _observed(self, network: ModesNetwork, parameters: Parameters, draws: Sequence[TrainingDraw]) -> Tensor:
        """Return samples: weight, gains of the other modes, features; [samples, numbers]."""
        seen: list[tuple[NDArray[np.float32], Flags]] = []
        population = self._population(len(network.anchors))
        policies = NetworkPolicies(network, parameters, population.rows, population.width)
        scores = population.scores(
            policies, draws, on_observed=lambda rows, acts: seen.append((rows[0].copy(), acts[0].copy()))
        )
        gains = (scores[1:] - scores[0]).T
        samples = []
        for rows, acts in seen[_EVERY::_EVERY]:
            flows = len(rows) // len(draws)
            of_draw = np.arange(len(rows)) // flows
            acting = acts.reshape(len(draws), flows).sum(axis=1)
            weights = np.array([draw.weight for draw in draws]) / np.maximum(acting, 1)
            columns = [weights[of_draw, None], gains[of_draw], rows[:, : population.features]]
            samples.append(np.concatenate(columns, axis=1)[acts])
        return torch.from_numpy(np.concatenate(samples)).float()

    def _evolve(self, holding: ModesNetwork, network: ModesNetwork | CorrectionsNetwork, end: int) -> None:
        """Move a policy's parameters to where whole episodes gain most over the better anchor."""
        fitness = self._fitness(holding, network)
        self._policy = {name: one.detach().clone() for name, one in network.state_dict().items()}

        def keep(parameters: Parameters) -> None:
            self._policy |= {name: one[0] for name, one in parameters.items()}

        self._run.stage = "evolution"
        start = {name: one.detach() for name, one in network.named_parameters()}
        is_separable = isinstance(network, CorrectionsNetwork)
        evolution = Evolution(start, *self._strategy(_RULE_STEP, "rule"), is_separable=is_separable)
        self._generations(evolution, "rule", _is_any, end, fitness, keep)

    def _fitness(
        self, holding: ModesNetwork, network: ModesNetwork | CorrectionsNetwork
    ) -> Callable[[Parameters, Sequence[TrainingDraw]], Table]:
        """Return the fitness of policies with some parameters on draws: [policies].

        Args:
            holding: a rule with the anchors.
            network: the policy, whose parameters are replaced.
        """
        held = holding.holding(range(len(holding.anchors)))
        totals = np.zeros((len(self._sources), len(holding.anchors)))

        def fitness(parameters: Parameters, draws: Sequence[TrainingDraw]) -> Table:
            weights, groups = np.array([draw.weight for draw in draws]), [group_of(draw) for draw in draws]
            anchors, scores = self._scores(holding, held, draws), self._scores(network, parameters, draws)
            found = []
            for number, total in enumerate(totals):
                own = slice(number, None, len(totals))
                total += anchors[:, own] @ weights[own]
                gains = scores[:, own] - anchors[total.argmax(), own]
                found.append(guarded_mean(gains, weights[own], groups[own], self._asked.guard))
            worst: Table = np.min(found, axis=0)
            return worst

        return fitness

    # ---- generations and their results -------------------------------------------------------------------------

    def _generations(
        self,
        evolution: Evolution,
        stage: str,
        is_wanted: _Wanted,
        end: int,
        fitness: Callable[[Parameters, Sequence[TrainingDraw]], Table],
        keep: Callable[[Parameters], None],
    ) -> None:
        number = 0
        keep(evolution.named(evolution.mean()[None]))
        while number == 0 or self._step < end:
            asked, draws = evolution.ask(), self._drawn(f"{stage} {number}", self._asked.draws, is_wanted)
            evolution.tell(asked, fitness(evolution.named(asked), draws))
            keep(evolution.named(evolution.mean()[None]))
            number += 1

    def _strategy(self, step: float, stage: str) -> tuple[int, float, int]:
        return self._asked.policies, step, self._run.settings.stream(f"evolution {stage}", 0)

    def _scores(self, network: nn.Module, parameters: Parameters, draws: Sequence[TrainingDraw]) -> Table:
        """Return the scores of policies on draws, [policies, draws]."""
        count = len(next(iter(parameters.values())))
        population = self._population(count)

        def simulate() -> Tensor:
            policies = NetworkPolicies(network, parameters, population.rows, population.width)
            return torch.from_numpy(population.scores(policies, draws))

        scores: Table = self._result(count, draws, simulate).numpy()
        return scores

    def _result(self, policies: int, draws: Sequence[TrainingDraw], simulate: Callable[[], Tensor]) -> Tensor:
        """Return the next result: one that is kept, or what is simulated now."""
        self._step += policies * sum(self._intervals(draw) for draw in draws)
        if len(self._results) < len(self._kept):
            self._results.append(self._kept[len(self._results)])
            return self._results[-1]
        self._results.append(simulate())
        self._run.stepped(self._step, self._results[-1].numpy(), self._results[-1].numpy().ravel(), np.zeros(0))
        if self._run.row_is_due(self._step):
            self._run.record(self._step, {"search/score": float(self._results[-1].mean())})
        if self._policy and self._run.segment_is_over(self._step):
            self._checkpoint()
            self._run.next_segment(self._step)
        return self._results[-1]

    def _population(self, policies: int) -> Population:
        if policies not in self._populations:
            made = Population(policies, self._asked.draws, self._options, self._run.settings.objective)
            self._worlds.callback(made.close)
            self._populations[policies] = made
        return self._populations[policies]

    def _drawn(self, stream: str, count: int, is_wanted: _Wanted = lambda _: True) -> list[TrainingDraw]:
        asked, seed_of = self._asked, self._run.settings.stream
        by_source = [
            training_draws(source, seed_of(f"draws {stream}", number), by_cost=asked.by_cost)
            for number, source in enumerate(self._sources)
        ]
        draws = chain.from_iterable(zip(*by_source, strict=True))
        deployed = draws if asked.deployed is None else map(asked.deployed.of, draws)
        return list(islice(filter(is_wanted, deployed), count))

    def _intervals(self, draw: TrainingDraw) -> int:
        return max(1, round(draw.scenario.duration_s / self._options.control_interval_s))

    def _checkpoint(self) -> None:
        settings = self._run.settings
        state = {"policy": self._policy, "results": self._results}

        def save(name: str, about: Mapping[str, Any]) -> None:
            save_state(self._run.folder, name, about, state)

        self._run.checkpoint(self._step, _agent_of(self._policy, settings), save)


def _agent_of(policy: Mapping[str, Tensor], settings: TrainingSettings) -> Agent:
    """Return the agent of a policy's parameters and constants."""
    if "setting" in policy:
        return Constant(settings.agent_name, policy["setting"].numpy(), is_per_flow=settings.is_per_flow)
    constants = [policy[name] for name in ("places", "mean", "deviation")]
    if "anchor" in policy:
        moving = CorrectionsNetwork(policy["anchor"], *constants)
        moving.load_state_dict(dict(policy))
        width = batch_of(1, settings.options(settings.world_name)).observation.width
        return NetworkAgent(settings.agent_name, moving.folded(width), is_per_flow=settings.is_per_flow)
    network = ModesNetwork(policy["anchors"], *constants)
    network.load_state_dict(dict(policy))
    return NetworkAgent(settings.agent_name, network.eval(), is_per_flow=settings.is_per_flow)


def _mean(scores: Table, draws: Sequence[TrainingDraw]) -> Table:
    mean: Table = scores @ np.array([draw.weight for draw in draws]) / sum(draw.weight for draw in draws)
    return mean


def _is_any(draw: TrainingDraw) -> bool:  # noqa: ARG001 - whatever it is
    return True


def _is_beside_others(draw: TrainingDraw) -> bool:
    return group_of(draw) == BESIDE_OTHERS
