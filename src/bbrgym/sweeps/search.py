# SPDX-License-Identifier: GPL-2.0-only
"""Searches options with Optuna: a trial is a choice of values, and has a job for each combination of the other options.

Trials are proposed in batches, each after the one before has ended, and each trial by a sampler whose seed follows from
the search's seed and the trial's number. The proposals depend only on the scores so far, so an interrupted search makes
the same ones. The study is a database in the multirun's folder, or where hydra.sweeper.storage says.

Of a shared study each process takes trials as it gets to them, away from those that others still run; it goes on with
its own.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.types import ChoiceSweep, IntervalSweep, Override, RangeSweep
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from bbrgym.compose import job_name, override_of, parse_override
from bbrgym.errors import ConfigError, MissingExtraError, SweepError, one_line
from bbrgym.report.multirun import REQUEST, SEARCH, MultirunFolder
from bbrgym.schema import shown

if TYPE_CHECKING:
    from hydra.plugins.sweeper import Sweeper

_SETTINGS = "settings"
_MAY_CHANGE = ("n_trials", "storage", "study_name")  # in a search that goes on
_SHARED = "shared"
_WORKER = "worker"  # process, by its folder, that runs a trial of a shared study
_COUNTS = ("n_trials", "batch", "n_startup_trials")
_ATTEMPTS, _WAIT_S = 10, 0.5  # to open the database of a shared study
TRIAL = "BBRGYM_TRIAL"  # environment variable of a job: the number of its trial


def search(sweeper: Sweeper, arguments: Sequence[str]) -> list[Sequence[Any]]:
    """Search with the jobs of Hydra's launcher, and write the best trial to optimization_results.yaml.

    Args:
        sweeper: Hydra's, which has the configuration of the multirun and the launcher.
        arguments: overrides of the jobs; intervals among them are searched.

    Returns:
        What the launcher returned of each batch.

    Raises:
        ConfigError: a setting is wrong or another one than the study's, or another process searches in the folder.
        MissingExtraError: Optuna is not installed.
        SweepError: the study's database cannot be used.
    """
    config: Any = sweeper.config
    launcher: Any = sweeper.launcher
    settings, options = settings_of(config, [parse_override(text) for text in arguments])
    combinations = BasicSweeper.split_arguments(options, None)[0]
    if settings["pruner"] is not None and len(combinations) > 1:
        raise ConfigError("hydra.sweeper.pruner: is given with several jobs for each trial, expected one, or null")
    if settings[_SHARED] and settings["storage"] is None:
        raise ConfigError("hydra.sweeper.shared: is true without hydra.sweeper.storage, expected the study's address")
    names = [_name(options, one) for one in combinations]
    folder = MultirunFolder(Path(str(config.hydra.sweep.dir)))
    folder.open(resume=True)
    with closing(folder):
        OmegaConf.save(config, folder.path / REQUEST)
        returned: list[Sequence[Any]] = []
        worker = str(folder.read_json(SEARCH).get(_WORKER, uuid.uuid4().hex)) if settings[_SHARED] else None
        with closing(Study(database_of(config.hydra), settings, worker)) as study:
            kept = {name: one for name, one in settings.items() if name != "storage"}  # a secret
            folder.write_json(SEARCH, kept if worker is None else {**kept, _WORKER: worker})
            for batch in study.batches():
                jobs = [
                    [*combination, *_of_trial(trial, name)]
                    for trial in batch
                    for combination, name in zip(combinations, names, strict=True)
                ]
                sweeper.validate_batch_is_legal(jobs)
                returned.append(launcher.launch(jobs, initial_job_idx=sum(map(len, returned))))
                values = iter([one.return_value for one in returned[-1]])
                for trial in batch:
                    scores = [next(values) for _ in combinations]
                    value = None if None in scores else sum(scores) / len(scores)
                    is_pruned = folder.read_state(trial.name).get("status") == "pruned"
                    study.tell(trial, value, is_pruned=is_pruned)
            best = OmegaConf.create({"name": "optuna", "best": study.best()})
        OmegaConf.save(best, folder.path / "optimization_results.yaml")
    return returned


def settings_of(config: DictConfig, given: Sequence[Override]) -> tuple[dict[str, Any], list[Override]]:
    """Return the settings of a search, whose ``params`` are all that is searched, and the options that are not.

    Raises:
        ConfigError: a setting is wrong, or nothing is left to search.
    """
    settings: Any = OmegaConf.to_container(config.hydra.sweeper, resolve=True, enum_to_str=True)
    del settings["_target_"]
    for name in _COUNTS:
        if settings[name] < 1:
            raise ConfigError(f"hydra.sweeper.{name}: is {settings[name]}, expected a number >= 1")
    options = [one for one in given if not one.is_interval_sweep()]
    keys = {one.get_key_element() for one in options}  # the command line counts more
    params = {key: text for key, text in settings["params"].items() if key not in keys}
    params |= {one.get_key_element(): str(one.input_line).split("=", 1)[1] for one in given if one.is_interval_sweep()}
    if not params:
        raise ConfigError("hydra.sweeper: nothing is left to search, expected NAME='interval(LOW,HIGH)' for one option")
    return {**settings, "params": params}, options


def database_of(hydra: DictConfig) -> str:
    """Return the address of the study's database."""
    return str(hydra.sweeper.storage or f"sqlite:///{hydra.sweep.dir}/study.db")


def _without_password(address: str) -> str:
    return re.sub(r"(://[^:/@]*):[^@]*@", r"\1:***@", address)


def _name(options: Sequence[Override], combination: Sequence[str]) -> str:
    """Return the name of a combination, of the options that have several values."""
    values = (text.split("=", 1) for text in combination)
    several = zip(options, values, strict=True)
    return job_name({key: value for option, (key, value) in several if option.is_sweep_override()})


def _of_trial(trial: Trial, name: str) -> Iterator[str]:
    """Yield the overrides of a trial's job, and Hydra's own that name it."""
    yield from (f"{key}={value}" for key, value in trial.parameters.items())
    yield override_of("hydra.sweep.subdir", "_".join(filter(None, (trial.name, name))))
    yield f"++hydra.job.env_set.{TRIAL}='{trial.number}'"


# ---- the study ----------------------------------------------------------------------------------------


class Trial(NamedTuple):
    """A choice of values by option, as written on a command line, and its number from 0."""

    number: int
    parameters: Mapping[str, str]

    @property
    def name(self) -> str:
        """Return the prefix of its jobs' names."""
        return f"trial-{self.number:04d}"


class Study:
    """A search under way.

    Args:
        address: of the database, such as ``sqlite:///study.db`` or ``postgresql://..``.
        settings: of the search.
        worker: name of this process in a shared study. Default: the study is this process's alone.

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
        self._where = f"study {settings['study_name']!r} of {_without_password(address)}"
        with self._database_errors():
            self._storage = self._opened(address)
            self._study = optuna.create_study(
                storage=self._storage,
                study_name=settings["study_name"],
                direction=settings["direction"],
                load_if_exists=True,
            )
            self._refuse_another()

    def _opened(self, address: str) -> Any:
        """Open the database; of two processes that begin at once, the later one finds tables half made and waits."""
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

    def _refuse_another(self) -> None:
        """Compare the settings with those that the study was made with; it may have more trials."""
        now = {key: one for key, one in self._settings.items() if key not in _MAY_CHANGE}
        if not now[_SHARED]:
            del now[_SHARED]
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
        if not any(one.state.name == "COMPLETE" for one in self._study.get_trials(deepcopy=False)):
            return None
        trial = self._study.best_trial
        return {"number": trial.number, "value": trial.value, "params": dict(trial.params)}

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
        with self._database_errors():
            known = self._study.get_trials(deepcopy=False)
        own = [one.number for one in known if one.user_attrs.get(_WORKER) == worker and not one.state.is_finished()]
        if own:
            yield [self._trial(number) for number in own]
        while True:
            with self._database_errors():
                left = self._settings["n_trials"] - len(self._study.get_trials(deepcopy=False))
            if left <= 0:
                return
            yield [self._asked(worker) for _ in range(min(self._settings["batch"], left))]

    def _asked(self, worker: str) -> Trial:
        """Return a new trial of a shared study."""
        with self._database_errors():
            self._study.sampler = self._sampler(len(self._study.get_trials(deepcopy=False)))
            trial = self._study.ask(self._space)
            trial.set_user_attr(_WORKER, worker)
        return self._trial(trial.number)

    def tell(self, trial: Trial, value: float | None, *, is_pruned: bool = False) -> None:
        """Store the score of a trial, None if a job of it failed; a stored score stays."""
        states = self._optuna.trial.TrialState
        known = value is not None and math.isfinite(value)
        state = states.PRUNED if is_pruned else states.COMPLETE if known else states.FAIL
        with self._database_errors():
            if self._study.get_trials(deepcopy=False)[trial.number].state is states.RUNNING:
                self._study.tell(trial.number, value if known and not is_pruned else None, state=state)

    def _trial(self, number: int) -> Trial:
        with self._database_errors():
            known = self._study.get_trials(deepcopy=False)
            if number >= len(known):
                self._study.sampler = self._sampler(number)
                self._study.ask(self._space)
                known = self._study.get_trials(deepcopy=False)
        chosen = known[number].params.items()
        return Trial(number, {key: value if isinstance(value, str) else repr(value) for key, value in chosen})

    @contextmanager
    def _database_errors(self) -> Iterator[None]:
        from sqlalchemy.exc import SQLAlchemyError

        try:
            yield
        except (self._optuna.exceptions.OptunaError, SQLAlchemyError, KeyError) as error:
            reason = one_line(error.__cause__ or error).split(" [SQL: ")[0]
            raise SweepError(f"cannot use {self._where}: {reason}") from error

    def _sampler(self, number: int) -> Any:
        """Return a sampler of its own for a trial; in a shared study it keeps away from trials under way."""
        stream = int.from_bytes(hashlib.sha256(f"hparams_search{self._worker or ''}".encode()).digest()[:8], "little")
        seed = np.random.SeedSequence([self._settings["seed"], stream, number]).generate_state(1)[0]
        return self._optuna.samplers.TPESampler(
            n_startup_trials=self._settings["n_startup_trials"],
            seed=int(seed),
            constant_liar=self._worker is not None,
        )


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
            raise MissingExtraError("hydra/sweeper=optuna", "train", error) from error
        except ValueError as error:
            raise ConfigError(f"hydra.sweeper.params: {key} is {text}: {one_line(error)}") from error
        if distribution is None:
            raise ConfigError(f"hydra.sweeper.params: {key} is {shown(text)}, expected choice, range or interval")
        found[key] = distribution
    return found


def _distribution(override: Override) -> Any:
    """Return the distribution of a range, None if it is none. A range excludes its end, an interval does not."""
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


# ---- pruning ------------------------------------------------------------------------------------------


def watcher_of(hydra: DictConfig, folder: Path) -> Callable[[], bool] | None:
    """Return what tells whether a job's trial is hopeless, by its validation scores so far; None without a pruner."""
    if os.environ.get(TRIAL) is None or OmegaConf.select(hydra, "sweeper.pruner") is None:
        return None
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.load_study(
        study_name=hydra.sweeper.study_name, storage=database_of(hydra), pruner=instantiate(hydra.sweeper.pruner)
    )
    number = int(os.environ[TRIAL])
    trial = optuna.trial.Trial(study, study.get_trials(deepcopy=False)[number]._trial_id)
    job = MultirunFolder(folder)
    told: set[int] = set()

    def is_hopeless() -> bool:
        summary = job.read_json("summary.json")
        step, score = summary.get("step"), summary.get("score")
        if step is None or score is None or step in told or not math.isfinite(score):
            return False
        told.add(step)
        trial.report(score, step)
        return trial.should_prune()

    return is_hopeless
