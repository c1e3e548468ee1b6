# SPDX-License-Identifier: GPL-2.0-only
"""The search: Optuna's tree of Parzen estimators proposes networks by the entrant's losses on those before.

A batch is proposed, then tried, then told. So the same settings and losses lead to the same proposals, and a search
that was interrupted goes on from the losses that it kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from bbrgym.errors import ConfigError, MissingExtraError
from bbrgym.evaluate.adversary.adversary_settings import Adversary
from bbrgym.evaluate.adversary.search_space import SearchSpace
from bbrgym.scenario.model import Scenario
from bbrgym.schema import shown

_BELOW_ONE = 1.0 - 2.0**-53
SCHEMA = {"trial": pl.Int64, "numbers": pl.String, **dict.fromkeys(("entrant", "reference", "loss"), pl.Float64)}


@dataclass(frozen=True)
class NetworkTrial:
    """Network that was tried."""

    number: int  # of the trial, from 0
    numbers: dict[str, float]  # by the place of each range that it uses
    network: Scenario  # made of them
    entrant: float  # mean score on seeds A
    reference: float  # mean score on seeds A

    @property
    def loss(self) -> float:
        """Return the reference's score less the entrant's; 0 where one of them measured nothing."""
        loss = self.reference - self.entrant
        return loss if np.isfinite(loss) else 0.0


Scores = Callable[[Sequence[Scenario]], list[tuple[float, float]]]
"""Function from networks to the scores of the entrant and the reference on each."""


def search_networks(
    space: SearchSpace, settings: Adversary, scores: Scores, known: Sequence[tuple[float, float]] = ()
) -> Iterator[list[NetworkTrial]]:
    """Yield the trials of each batch; ``known`` are scores of the first networks, which are not run again.

    Raises:
        MissingExtraError: Optuna is not installed.
        WorldError: a simulation failed.
    """
    try:
        import optuna
    except ModuleNotFoundError as error:
        raise MissingExtraError("bbrgym adversary", "train", error) from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    first = max(1, round(settings.random_share * settings.budget))
    sampler = optuna.samplers.TPESampler(seed=settings.seed, n_startup_trials=first, constant_liar=True)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    for done in range(0, settings.budget, settings.batch):
        size = min(settings.batch, settings.budget - done)
        asked = [study.ask() for _ in range(size)]
        networks = [space.network(f"found-{one.number}", _numbers_of(one)) for one in asked]
        found = [*known[done : done + size]]
        found += scores(networks[len(found) :]) if len(found) < size else []
        trials = []
        for one, network, (entrant, reference) in zip(asked, networks, found, strict=True):
            trials.append(NetworkTrial(one.number, dict(one.params), network, entrant, reference))
            study.tell(one, trials[-1].loss)
        yield trials


def _numbers_of(trial: Any) -> Callable[[str], float]:
    return lambda place: min(float(trial.suggest_float(place, 0.0, 1.0)), _BELOW_ONE)


# ---- tables -------------------------------------------------------------------------------------------


def table_of(trials: Sequence[NetworkTrial]) -> pl.DataFrame:
    """Return a row per trial."""
    rows = [(one.number, json.dumps(one.numbers), one.entrant, one.reference, one.loss) for one in trials]
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def scores_in(table: pl.DataFrame) -> list[tuple[float, float]]:
    """Return the scores of both in a kept table.

    Raises:
        ConfigError: it is none of a search.
    """
    if dict(table.schema) != SCHEMA:
        raise ConfigError(f"trials.parquet: has columns {shown(table.columns)}, expected {list(SCHEMA)}")
    return list(zip(table["entrant"].to_list(), table["reference"].to_list(), strict=True))
