# SPDX-License-Identifier: GPL-2.0-only
"""The pruning of a search: a job whose validation scores so far are hopeless is ended."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from bbrgym.sweeps.multirun import MultirunFolder
from bbrgym.sweeps.search import TRIAL, database_of
from bbrgym.sweeps.study import database_errors, where

Watch: TypeAlias = Callable[[], bool]
"""Tells whether a job's trial is hopeless; a `SweepError` if the study's database cannot be used."""


@contextmanager
def watched(hydra: DictConfig, folder: Path) -> Iterator[Watch]:
    """Return a context in which the study of a job's search is open for its pruner; without one no trial is hopeless.

    Raises:
        SweepError: the study's database cannot be used.
    """
    if os.environ.get(TRIAL) is None or OmegaConf.select(hydra, "sweeper.pruner") is None:
        yield lambda: False
        return
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    address = database_of(hydra)
    study_name = where(hydra.sweeper.study_name, address)
    with database_errors(study_name):
        storage = optuna.storages.RDBStorage(address)
    try:
        with database_errors(study_name):
            study = optuna.load_study(
                study_name=hydra.sweeper.study_name, storage=storage, pruner=instantiate(hydra.sweeper.pruner)
            )
            known = study.get_trials(deepcopy=False)[int(os.environ[TRIAL])]
            trial = optuna.trial.Trial(study, known._trial_id)
        yield _watch(trial, MultirunFolder(folder), study_name)
    finally:
        storage.remove_session()
        storage.engine.dispose()


def _watch(trial: Any, job: MultirunFolder, study_name: str) -> Watch:
    reported: set[int] = set()

    def is_hopeless() -> bool:
        summary = job.read_json("summary.json")
        step, score = summary.get("step"), summary.get("score")
        if step is None or score is None or step in reported or not math.isfinite(score):
            return False
        reported.add(step)
        with database_errors(study_name):
            trial.report(score, step)
            return bool(trial.should_prune())

    return is_hopeless
