# SPDX-License-Identifier: GPL-2.0-only
"""The best single setting for a scenario or a distribution: a grid, or Optuna's tree of Parzen estimators.

Every search begins with the variant's own setting, so what it finds is never worse there.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from bbrgym.agents.trials import Trials
from bbrgym.envs.scaling import Coordinates, TunableScaling
from bbrgym.errors import ConfigError

MAX_GRID = 100_000


@dataclass(frozen=True)
class Tried:
    """One setting and what it is worth.

    Attributes:
        action: the setting, [tunables].
        score: mean over the scenarios.
    """

    action: Coordinates
    score: float


class Proposer(Protocol):
    """What says which setting is tried next; the same reports always bring the same proposals."""

    def ask(self) -> Coordinates | None:
        """The next setting, [tunables]; None if there is none left."""

    def tell(self, score: float) -> None:
        """What the last one was worth."""


def search(
    trials: Trials,
    proposer: Proposer,
    budget: int,
    *,
    known: Sequence[float] = (),
    on_tried: Callable[[Tried], None] | None = None,
) -> list[Tried]:
    """Tries settings one after the other.

    Args:
        trials: where.
        proposer: which.
        budget: how many at most.
        known: scores of the first ones from an interrupted search, which are not run again.
        on_tried: called after each.

    Returns:
        All that were tried, in order.
    """
    tried: list[Tried] = []
    while len(tried) < budget:
        action = proposer.ask()
        if action is None:
            break
        score = known[len(tried)] if len(tried) < len(known) else float(trials.scores(action).mean())
        proposer.tell(score)
        tried.append(Tried(action, score))
        if on_tried is not None:
            on_tried(tried[-1])
    return tried


def best_of(tried: Sequence[Tried]) -> Tried:
    """The one with the highest score; the first of equals."""
    return max(tried, key=lambda one: one.score)


class Grid:
    """Every combination of evenly spaced values of each tunable's coordinate; switches and modes have all of theirs.

    Args:
        action: the space.
        levels: values of a coordinate.

    Raises:
        ConfigError: levels is below 2, or there are too many combinations.
    """

    def __init__(self, action: TunableScaling, levels: int) -> None:
        if levels < 2:
            raise ConfigError(f"agent.levels: {levels}, allowed are numbers from 2")
        even = np.linspace(-1.0, 1.0, levels, dtype=np.float32)
        axes = [np.unique(_settled(action, index, even)) for index in range(len(action.names))]
        combinations = int(np.prod([float(len(axis)) for axis in axes]))
        if combinations > MAX_GRID:
            raise ConfigError(
                f"agent.levels: {levels} levels of {len(axes)} tunables are {combinations:.3g} settings, allowed are "
                f"{MAX_GRID}: choose fewer of action.tunables"
            )
        self.size = combinations + 1
        self._settings: Iterator[Coordinates] = itertools.chain(
            [action.default], (np.array(setting, np.float32) for setting in itertools.product(*axes))
        )

    def ask(self) -> Coordinates | None:
        return next(self._settings, None)

    def tell(self, score: float) -> None:
        """A grid does not mind."""


def _settled(action: TunableScaling, index: int, values: Coordinates) -> Coordinates:
    """Values of one coordinate as the space takes them: those of a whole number in the middle of their part."""
    actions = np.tile(action.default, (len(values), 1))
    actions[:, index] = values
    settled: Coordinates = action.snap(actions)[1][:, index]
    return settled


class Tpe:
    """Optuna's multivariate TPE; needs the extra `search`.

    Args:
        action: the space.
        seed: of its draws.
    """

    def __init__(self, action: TunableScaling, seed: int) -> None:
        try:
            import optuna
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "agent=optuna needs Optuna: pip install 'bbrgym[train]'", name=error.name
            ) from error
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        sampler = optuna.samplers.TPESampler(multivariate=True, seed=seed)
        self._names = action.names
        self._range = optuna.distributions.FloatDistribution(-1.0, 1.0)
        self._study = optuna.create_study(direction="maximize", sampler=sampler)
        self._study.enqueue_trial(dict(zip(action.names, action.default.tolist(), strict=True)))

    def ask(self) -> Coordinates | None:
        self._trial = self._study.ask(dict.fromkeys(self._names, self._range))
        return np.array([self._trial.params[name] for name in self._names], np.float32)

    def tell(self, score: float) -> None:
        self._study.tell(self._trial, score)
