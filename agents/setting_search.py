# SPDX-License-Identifier: GPL-2.0-only
"""Proposers of settings to try: a grid, or Optuna's tree of Parzen estimators.

Both begin with the variant's preset, so the best setting is never worse than that on the same scenarios.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Protocol

import numpy as np

from bbrgym.envs.scaling import NormalisedAction, TunableScaling
from bbrgym.errors import ConfigError, MissingExtraError

MAX_GRID = 100_000


class Proposer(Protocol):
    """Proposes settings to try; the same scores reported lead to the same proposals."""

    def ask(self) -> NormalisedAction | None:
        """Return the next setting, [tunables], or None if there is none left."""

    def tell(self, score: float) -> None:
        """Report the score of the last setting."""


class GridProposer:
    """Proposes every combination of evenly spaced levels; switches and modes take all their values.

    Args:
        action: action space.
        levels: number of values of a tunable, at least 2.

    Attributes:
        size: number of settings.

    Raises:
        ConfigError: there are more than `MAX_GRID` combinations.
    """

    def __init__(self, action: TunableScaling, levels: int) -> None:
        even = np.linspace(-1.0, 1.0, levels, dtype=np.float32)
        axes = [np.unique(_settled(action, index, even)) for index in range(len(action.names))]
        combinations = int(np.prod([float(len(axis)) for axis in axes]))
        if combinations > MAX_GRID:
            raise ConfigError(
                f"agent.levels: {levels} levels of {len(axes)} tunables are {combinations:.3g} settings, expected at "
                f"most {MAX_GRID}: choose fewer of action.tunables"
            )
        self.size = combinations + 1
        self._settings: Iterator[NormalisedAction] = itertools.chain(
            [action.default], (np.array(setting, np.float32) for setting in itertools.product(*axes))
        )

    def ask(self) -> NormalisedAction | None:
        """Return the next setting, [tunables], or None after the last."""
        return next(self._settings, None)

    def tell(self, score: float) -> None:
        """Ignore the score: the order of a grid is fixed."""


def _settled(action: TunableScaling, index: int, values: NormalisedAction) -> NormalisedAction:
    """Return values of one normalised tunable as the action space settles them: whole numbers in the middle."""
    actions = np.tile(action.default, (len(values), 1))
    actions[:, index] = values
    settled: NormalisedAction = action.snap(actions)[1][:, index]
    return settled


class TpeProposer:
    """Proposes settings by Optuna's multivariate TPE; needs the extra `train`.

    Args:
        action: action space.
        seed: seed of the sampler.

    Raises:
        MissingExtraError: Optuna is not installed.
    """

    def __init__(self, action: TunableScaling, seed: int) -> None:
        try:
            import optuna
        except ModuleNotFoundError as error:
            raise MissingExtraError("agent=optuna", "train", error) from error
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        sampler = optuna.samplers.TPESampler(multivariate=True, seed=seed)
        self._names = action.names
        self._range = optuna.distributions.FloatDistribution(-1.0, 1.0)
        self._study = optuna.create_study(direction="maximize", sampler=sampler)
        self._study.enqueue_trial(dict(zip(action.names, action.default.tolist(), strict=True)))

    def ask(self) -> NormalisedAction | None:
        """Return the next setting, [tunables]; there is always one."""
        self._trial = self._study.ask(dict.fromkeys(self._names, self._range))
        return np.array([self._trial.params[name] for name in self._names], np.float32)

    def tell(self, score: float) -> None:
        """Report the score of the last setting."""
        self._study.tell(self._trial, score)
