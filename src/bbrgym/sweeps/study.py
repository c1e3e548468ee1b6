# SPDX-License-Identifier: GPL-2.0-only
"""The study of a search, in a database: proposed trials and known scores.

Trials are proposed in batches, each after the one before has ended, and each trial by a sampler whose seed follows from
the search's seed and the trial's number. The proposals depend only on the scores so far, so an interrupted search makes
the same ones.

Of a shared study each process takes trials as it gets to them, away from those that others still run; it goes on with
its own.
"""

from __future__ import annotations

import hashlib
import math
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from hydra.core.override_parser.types import ChoiceSweep, IntervalSweep, Override, RangeSweep

from bbrgym.config.overrides import parse_override
from bbrgym.errors import ConfigError, MissingExtraError, SweepError, one_line
from bbrgym.schema import shown

SHARED = "shared"
"""Setting of a search: whether other processes search in its study."""

_SETTINGS = "settings"
_MAY_CHANGE = ("n_trials", "storage", "study_name")  # in a search that goes on
_WORKER = "worker"  # process that runs a trial of a shared study
_ATTEMPTS, _WAIT_S = 10, 0.5  # to open the database of a shared study


class Trial(NamedTuple):
    """A choice of values by option, as written on a command line, and the trial's number from 0."""

    number: int
    parameters: Mapping[str, str]

    @property
    def name(self) -> str:
        """Return the prefix of the trial's job names."""
        return f"trial-{self.number:04d}"


class Study:
    """A search under way, in a database at an address such as ``sqlite:///study.db`` or ``postgresql://..``.

    ``worker`` names this process in a shared study. Default: the study is this process's alone.

    Raises:
        ConfigError: a range is wrong, or the database holds a search with other settings.
        MissingExtraError: Optuna is not installed.
        SweepError: the database is damaged or cannot be written; so do the methods.
    """

    def __init__(self, address: str, settings: Mapping[str, Any], worker: str | None = None) -> None:
        self._worker = worker
        self._space = distributions(settings["params"])
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._optuna = optuna
        self._settings = settings
        self._where = where(settings["study_name"], address)
        with database_errors(self._where):
            self._storage = self._opened(address)
            self._study = optuna.create_study(
                storage=self._storage,
                study_name=settings["study_name"],
                direction=settings["direction"],
                load_if_exists=True,
            )
            self._check_same_run()

    def _opened(self, address: str) -> Any:
        """Open the database; retry while another process creates its tables."""
        from sqlalchemy.exc import SQLAlchemyError

        for _ in range(_ATTEMPTS if self._worker is not None else 0):
            try:
                return self._optuna.storages.RDBStorage(address)
            except (self._optuna.exceptions.StorageInternalError, SQLAlchemyError):
                time.sleep(_WAIT_S)
        return self._optuna.storages.RDBStorage(address)

    def close(self) -> None:
        """Close the database."""
        self._storage.remove_session()
        self._storage.engine.dispose()

    def _check_same_run(self) -> None:
        """Compare the settings with those that the study was made with; more trials are allowed."""
        now = {key: one for key, one in self._settings.items() if key not in _MAY_CHANGE}
        if not now[SHARED]:
            del now[SHARED]
        before = self._study.user_attrs.get(_SETTINGS)
        if before is None:
            self._study.set_user_attr(_SETTINGS, now)
            return
        for name in {**before, **now}:
            if before.get(name) != now.get(name):
                raise ConfigError(
                    f"hydra.sweeper.{name}: is {shown(now.get(name))}, was {shown(before.get(name))} in "
                    f"{self._where}; expected the same, or another folder or study_name"
                )

    def best(self) -> dict[str, Any] | None:
        """Return number, value and parameters of the best trial; None before there is one."""
        if not any(one.state.name == "COMPLETE" for one in self._known):
            return None
        trial = self._study.best_trial
        return {"number": trial.number, "value": trial.value, "params": dict(trial.params)}

    @property
    def _known(self) -> list[Any]:
        """Optuna's trials of the study."""
        with database_errors(self._where):
            known: list[Any] = self._study.get_trials(deepcopy=False)
        return known

    def batches(self) -> Iterator[list[Trial]]:
        """Yield all batches, also those that have ended; the scores of each must be told before the next."""
        trials, batch = self._settings["n_trials"], self._settings["batch"]
        if self._worker is not None:
            yield from self._own_batches(self._worker)
            return
        for first in range(0, trials, batch):
            whole = [self._trial(number) for number in range(first, first + batch)]
            yield whole[: trials - first]  # the rest is for a larger n_trials

    def _own_batches(self, worker: str) -> Iterator[list[Trial]]:
        """Yield the trials of this process that have not ended, then new ones until the study has all."""
        mine = [one for one in self._known if one.user_attrs.get(_WORKER) == worker]
        own = [one.number for one in mine if not one.state.is_finished()]
        if own:
            yield [self._trial(number) for number in own]
        while (left := self._settings["n_trials"] - len(self._known)) > 0:
            yield [self._asked(worker) for _ in range(min(self._settings["batch"], left))]

    def _asked(self, worker: str) -> Trial:
        """Return a new trial of a shared study."""
        with database_errors(self._where):
            self._study.sampler = self._sampler(len(self._known))
            trial = self._study.ask(self._space)
            trial.set_user_attr(_WORKER, worker)
        return self._trial(trial.number)

    def tell(self, trial: Trial, value: float | None, *, is_pruned: bool = False) -> None:
        """Store the score of a trial, None if a job failed; a stored score stays."""
        states = self._optuna.trial.TrialState
        known = value is not None and math.isfinite(value)
        state = states.PRUNED if is_pruned else states.COMPLETE if known else states.FAIL
        with database_errors(self._where):
            if self._known[trial.number].state is states.RUNNING:
                self._study.tell(trial.number, value if known and not is_pruned else None, state=state)

    def _trial(self, number: int) -> Trial:
        if number >= len(self._known):
            with database_errors(self._where):
                self._study.sampler = self._sampler(number)
                self._study.ask(self._space)
        chosen = self._known[number].params.items()
        return Trial(number, {key: value if isinstance(value, str) else repr(value) for key, value in chosen})

    def _sampler(self, number: int) -> Any:
        """Return a new sampler for a trial; a shared study's keeps away from trials under way."""
        stream = int.from_bytes(hashlib.sha256(f"hparams_search{self._worker or ''}".encode()).digest()[:8], "little")
        seed = np.random.SeedSequence([self._settings["seed"], stream, number]).generate_state(1)[0]
        return self._optuna.samplers.TPESampler(
            n_startup_trials=self._settings["n_startup_trials"], seed=int(seed), constant_liar=self._worker is not None
        )


def where(study_name: str, address: str) -> str:
    """Return the words that name a study in errors."""
    return f"study {study_name!r} of {without_password(address)}"


@contextmanager
def database_errors(study: str) -> Iterator[None]:
    """Turn errors of a study's database within the context into a `SweepError`; ``study`` is a name from `where`."""
    import optuna
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (optuna.exceptions.OptunaError, SQLAlchemyError, KeyError) as error:
        reason = one_line(error.__cause__ or error).split(" [SQL: ")[0]
        raise SweepError(f"cannot use {study}: {reason}") from error


def distributions(params: Mapping[str, str]) -> dict[str, Any]:
    """Return Optuna's distributions of ranges in Hydra's grammar.

    Raises:
        ConfigError: names the range that is wrong.
        MissingExtraError: Optuna is not installed.
    """
    found = {}
    for key, text in params.items():
        try:
            distribution = _distribution(parse_override(f"{key}={text}"))
        except ModuleNotFoundError as error:
            raise MissingExtraError("hydra/sweeper=bbrgym_optuna", "train", error) from error
        except ValueError as error:
            raise ConfigError(f"hydra.sweeper.params: {key} is {text}: {one_line(error)}") from error
        if distribution is None:
            raise ConfigError(f"hydra.sweeper.params: {key} is {shown(text)}, expected choice, range or interval")
        found[key] = distribution
    return found


def _distribution(override: Override) -> Any:
    """Return the distribution of a range, else None. A range excludes the end, an interval does not."""
    from optuna import distributions as kinds

    values: Any = override.value()
    kind = type(values)
    if kind is ChoiceSweep:
        return kinds.CategoricalDistribution(list(override.sweep_string_iterator()))
    if kind is RangeSweep and None not in (values.start, values.stop):
        last = values.start + (math.ceil((values.stop - values.start) / values.step) - 1) * values.step
        is_whole = all(isinstance(one, int) for one in (values.start, values.stop, values.step))
        of = kinds.IntDistribution if is_whole else kinds.FloatDistribution
        return of(values.start, last, step=values.step)
    if kind is IntervalSweep and None not in (values.start, values.end):
        is_whole = isinstance(values.start, int) and isinstance(values.end, int)  # int(interval(..))
        of = kinds.IntDistribution if is_whole else kinds.FloatDistribution
        return of(values.start, values.end, log="log" in values.tags)
    return None


def without_password(text: str) -> str:
    """Return a text with the passwords in databases' addresses hidden."""
    return re.sub(r"(://[^:/@\s]*):[^@\s]*@", r"\1:***@", text)
