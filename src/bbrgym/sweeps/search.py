# SPDX-License-Identifier: GPL-2.0-only
"""Searches options with Optuna: a trial is a choice of values, and its jobs are the sweep's other combinations.

Trials are proposed in batches, each after the one before has ended, and each trial by a sampler whose seed follows from
the search's seed and the trial's number. The proposals depend only on the scores so far, so an interrupted search makes
the same ones. The study is a database in the sweep's folder.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from hydra.core.override_parser.types import ChoiceSweep, IntervalSweep, RangeSweep
from hydra.plugins.launcher import Launcher
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from pydantic import Field

from bbrgym.compose import override_of, parse_override
from bbrgym.errors import ConfigError, MissingExtraError, SweepError, one_line
from bbrgym.schema import Model, Whole, shown, validated
from bbrgym.sweeps.plan import JobOptions, SweepJob, jobs_of, parse_options
from bbrgym.targets import shipped

_STUDY = "bbrgym"
_SETTINGS = "settings"
_MAY_CHANGE = ("n_trials", "storage")  # in a search that goes on
TRIAL = "BBRGYM_TRIAL"  # environment variable of a job: the number of its trial


class SearchSettings(Model):
    """Settings of a search, as in conf/hparams_search/*.yaml.

    Attributes:
        metric: a number in the jobs' summaries.
        direction: maximize or minimize the metric.
        n_trials: number of trials.
        batch: trials proposed at once, whose jobs can run side by side.
        n_startup_trials: trials drawn at random before the scores count.
        seed: of all random draws.
        options: options of the jobs, unless the command line gives them.
        storage: address of the study's database. Default: study.db in the folder.
        pruner: `_target_` and arguments of a pruner of Optuna's. Default: no trial is pruned.
        params: ranges by option, in Hydra's grammar: ``choice(..)``, ``range(..)``, ``interval(..)``,
            ``int(interval(..))``, ``tag(log, interval(..))``.
    """

    metric: str | None = "best_score"
    direction: Literal["maximize", "minimize"] = "maximize"
    n_trials: Annotated[Whole, Field(ge=1, le=100_000)] = 32
    batch: Annotated[Whole, Field(ge=1, le=10_000)] = 4
    n_startup_trials: Annotated[Whole, Field(ge=1)] = 10
    seed: Annotated[Whole, Field(ge=0, le=2**63 - 1)] = 1
    options: dict[str, Any] = Field(default_factory=dict)
    storage: str | None = None
    pruner: dict[str, Any] | None = None
    params: dict[str, str] = Field(default_factory=dict)


@dataclass(frozen=True)
class Trial:
    """A choice of values.

    Attributes:
        number: from 0.
        parameters: values by option, as written on a command line.
    """

    number: int
    parameters: Mapping[str, str]

    @property
    def name(self) -> str:
        """Return the prefix of its jobs' names."""
        return f"trial-{self.number:04d}"


def parse_search(
    asked: Mapping[str, Any], options: JobOptions, prefix: str = "hparams_search."
) -> tuple[SearchSettings, JobOptions]:
    """Check the settings of a search; options of the command line take precedence over its own.

    Returns:
        The settings, whose params are searched, and the options of all jobs, which are not.

    Raises:
        ConfigError: a setting is wrong, or nothing is left to search.
        MissingExtraError: Optuna is not installed.
    """
    settings = validated(SearchSettings, dict(asked), prefix)
    given = options.keys()
    params = {key: text for key, text in settings.params.items() if key not in given}
    params |= {
        key: override.input_line.split("=", 1)[1] for key, override in options.open.items() if override.input_line
    }
    if not params:
        raise ConfigError(
            f"{prefix[:-1]}: nothing is left to search, expected NAME='interval(LOW,HIGH)' for one option"
        )
    _distributions(params)
    own = tuple(f"{key}={value}" for key, value in settings.options.items() if key not in given)
    return settings.model_copy(update={"params": params}), JobOptions((*own, *options.fixed), options.swept, {})


class Study:
    """A search under way.

    Args:
        path: of the database, or the address of one, such as ``postgresql://..``.
        settings: of the search.

    Raises:
        SweepError: the database is damaged or cannot be written; so do the methods.
    """

    def __init__(self, path: Path | str, settings: SearchSettings) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._optuna = optuna
        self._settings = settings
        self._space = _distributions(settings.params)
        self._path = path
        with self._database_errors():
            self._storage = optuna.storages.RDBStorage(address_of(path))
            self._study = optuna.create_study(
                storage=self._storage, study_name=_STUDY, direction=settings.direction, load_if_exists=True
            )
            self._refuse_another()

    def close(self) -> None:
        """Close the database."""
        self._storage.remove_session()
        self._storage.engine.dispose()

    def _refuse_another(self) -> None:
        """Compare the settings with those that the study was made with; it may have more trials."""
        now = {key: one for key, one in self._settings.model_dump(mode="json").items() if key not in _MAY_CHANGE}
        before = self._study.user_attrs.get(_SETTINGS)
        if before is None:
            self._study.set_user_attr(_SETTINGS, now)
            return
        for name in {**before, **now}:
            if before.get(name) != now.get(name):
                raise ConfigError(
                    f"hydra.sweeper.{name}: is {shown(now.get(name))}, was {shown(before.get(name))} in "
                    f"{str(self._path)!r}; expected the same, or another folder"
                )

    def best(self) -> dict[str, Any] | None:
        """Return number, value and parameters of the best trial; None before there is one."""
        done = [one for one in self._study.get_trials(deepcopy=False) if one.state.name == "COMPLETE"]
        if not done:
            return None
        trial = self._study.best_trial
        return {"number": trial.number, "value": trial.value, "params": dict(trial.params)}

    def batches(self) -> Iterator[list[Trial]]:
        """Yield all batches, also those that have ended; the scores of each must be told before the next."""
        for first in range(0, self._settings.n_trials, self._settings.batch):
            whole = [self._trial(number) for number in range(first, first + self._settings.batch)]
            yield whole[: self._settings.n_trials - first]  # the rest is for a larger n_trials

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
        return Trial(number, {key: _text(value) for key, value in known[number].params.items()})

    @contextmanager
    def _database_errors(self) -> Iterator[None]:
        from sqlalchemy.exc import SQLAlchemyError

        try:
            yield
        except (self._optuna.exceptions.OptunaError, SQLAlchemyError, KeyError) as error:
            reason = one_line(error.__cause__ or error).split(" [SQL: ")[0]
            raise SweepError(f"cannot use {str(self._path)!r}, Optuna's study of the search: {reason}") from error

    def _sampler(self, number: int) -> Any:
        stream = int.from_bytes(hashlib.sha256(b"hparams_search").digest()[:8], "little")
        seed = np.random.SeedSequence([self._settings.seed, stream, number]).generate_state(1)[0]
        return self._optuna.samplers.TPESampler(n_startup_trials=self._settings.n_startup_trials, seed=int(seed))


def _text(value: Any) -> str:
    """Return a value as written on a command line."""
    return value if isinstance(value, str) else repr(value)


def _distributions(params: Mapping[str, str]) -> dict[str, Any]:
    try:
        from optuna.distributions import CategoricalDistribution
    except ModuleNotFoundError as error:
        raise MissingExtraError("hparams_search", "train", error) from error
    found: dict[str, Any] = {}
    for key, text in params.items():
        override = parse_override(f"{key}={text}")
        value = override.value()
        try:
            if isinstance(value, ChoiceSweep):
                found[key] = CategoricalDistribution(list(override.sweep_string_iterator()))
            elif isinstance(value, RangeSweep) and value.start is not None and value.stop is not None:
                found[key] = _stepped(value)
            elif isinstance(value, IntervalSweep) and value.start is not None and value.end is not None:
                found[key] = _between(value)
        except ValueError as error:
            raise ConfigError(f"hparams_search.params: {key} is {text}: {' '.join(str(error).split())}") from error
        if key not in found:
            raise ConfigError(f"hparams_search.params: {key} is {shown(text)}, expected choice, range or interval")
    return found


def _between(values: Any) -> Any:
    """Return the distribution of Hydra's interval: of whole numbers for int(interval(..))."""
    from optuna.distributions import FloatDistribution, IntDistribution

    is_log = "log" in values.tags
    if isinstance(values.start, int) and isinstance(values.end, int):
        return IntDistribution(values.start, values.end, log=is_log)
    return FloatDistribution(values.start, values.end, log=is_log)


def _stepped(values: Any) -> Any:
    """Return the distribution of Hydra's range, whose end is not part of it."""
    from optuna.distributions import FloatDistribution, IntDistribution

    steps = math.ceil((values.stop - values.start) / values.step) - 1
    if all(isinstance(number, int) for number in (values.start, values.stop, values.step)):
        return IntDistribution(values.start, int(values.start + steps * values.step), step=values.step)
    return FloatDistribution(values.start, values.start + steps * values.step, step=values.step)


# ---- Hydra's sweeper ----------------------------------------------------------------------------------


def address_of(path: Path | str) -> str:
    """Return the address of a database."""
    return path if isinstance(path, str) else f"sqlite:///{path}"


def search(config: DictConfig, launcher: Launcher, arguments: Sequence[str]) -> dict[str, Any] | None:
    """Search with the jobs of Hydra's launcher; a trial has a job for each combination of the other options.

    Args:
        config: of the multirun.
        launcher: of Hydra's, ready.
        arguments: overrides of the jobs; intervals among them are searched.

    Returns:
        The best trial, or None.

    Raises:
        ConfigError, MissingExtraError, SweepError: see `parse_search` and `Study`.
    """
    asked: Any = OmegaConf.to_container(config.hydra.sweeper, resolve=True)
    space, own = asked.pop("space"), {name: value for name, value in asked.items() if name != "_target_"}
    shared = shipped("hparams_search", space) if space is not None else {}
    own |= {"params": {**shared.get("params", {}), **own["params"]}, "options": shared.get("options", {})}
    settings, options = parse_search(own, parse_options(arguments), "hydra.sweeper.")
    if settings.pruner is not None and any(len(values) > 1 for values in options.swept.values()):
        raise ConfigError("hydra.sweeper.pruner: is given with several jobs for each trial, expected one, or null")
    folder = Path(str(config.hydra.sweep.dir))
    folder.mkdir(parents=True, exist_ok=True)
    OmegaConf.save(config, folder / "multirun.yaml")
    study, begun = Study(_database(config), settings), 0
    try:
        for batch in study.batches():
            jobs = [(trial, job) for trial in batch for job in jobs_of("", options, trial.parameters, trial.name)]
            returned = launcher.launch([_of_job(job, trial) for trial, job in jobs], initial_job_idx=begun)
            begun += len(jobs)
            for trial in batch:
                values = [
                    one.return_value for (of_trial, _), one in zip(jobs, returned, strict=True) if of_trial is trial
                ]
                value = None if None in values else sum(values) / len(values)
                study.tell(trial, value, is_pruned=_is_pruned(folder / trial.name))
        best = study.best()
    finally:
        study.close()
    OmegaConf.save(OmegaConf.create({"name": "optuna", "best": best}), folder / "optimization_results.yaml")
    return best


def _of_job(job: SweepJob, trial: Trial) -> list[str]:
    own = [override_of("hydra.sweep.subdir", job.name), f"++hydra.job.env_set.{TRIAL}='{trial.number}'"]
    return [*job.overrides, *own]


def _database(config: DictConfig) -> Path | str:
    return str(config.hydra.sweeper.storage or "") or Path(str(config.hydra.sweep.dir)) / "study.db"


def _is_pruned(folder: Path) -> bool:
    path = folder / "job.json"
    return path.exists() and json.loads(path.read_text(encoding="utf-8")).get("status") == "pruned"


def watcher_of(hydra: DictConfig, folder: Path) -> Callable[[], bool] | None:
    """Return what tells whether a job's trial is hopeless, by its validation scores so far; None without a pruner."""
    if os.environ.get(TRIAL) is None or OmegaConf.select(hydra, "sweeper.pruner") is None:
        return None
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    pruner = instantiate(hydra.sweeper.pruner)
    address = address_of(_database(OmegaConf.create({"hydra": hydra})))
    study = optuna.load_study(study_name=_STUDY, storage=address, pruner=pruner)
    number = int(os.environ[TRIAL])
    trial = optuna.trial.Trial(study, study.get_trials(deepcopy=False)[number]._trial_id)
    told: set[int] = set()

    def is_hopeless() -> bool:
        path = folder / "summary.json"
        summary = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        step, score = summary.get("step"), summary.get("score")
        if step is None or score is None or step in told or not math.isfinite(score):
            return False
        told.add(step)
        trial.report(score, step)
        return trial.should_prune()

    return is_hopeless
