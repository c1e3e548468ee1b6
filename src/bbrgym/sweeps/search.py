# SPDX-License-Identifier: GPL-2.0-only
"""Searches options with Optuna: a trial is a choice of values, and has a job for each combination of the other options.

The study is a database in the multirun's folder, or where hydra.sweeper.storage says: `bbrgym.sweeps.study`.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.core.override_parser.types import Override
from omegaconf import DictConfig, OmegaConf

from bbrgym.config.overrides import DIRNAME, job_name, override_of, parse_override
from bbrgym.errors import ConfigError
from bbrgym.sweeps.multirun import REQUEST, SEARCH, MultirunFolder
from bbrgym.sweeps.study import SHARED, Study, Trial, without_password

if TYPE_CHECKING:
    from hydra.plugins.sweeper import Sweeper

DATABASE = "study.db"  # in the folder of the multirun, unless storage is given
_WORKER = "worker"  # in the folder of a shared search: its name there
_COUNTS = ("n_trials", "batch", "n_startup_trials")
TRIAL = "BBRGYM_TRIAL"  # environment variable of a job: the number of its trial


def search(sweeper: Sweeper, arguments: Sequence[str]) -> list[Sequence[Any]]:
    """Search the intervals among the jobs' overrides, and write the best trial to optimization_results.yaml.

    Returns:
        What Hydra's launcher returned of each batch.

    Raises:
        ConfigError: a setting is wrong or another one than the study's, or another process searches in the folder.
        MissingExtraError: Optuna is not installed.
        SweepError: the study's database cannot be used.
    """
    config: Any = sweeper.config
    launcher: Any = sweeper.launcher
    settings, options = settings_of(config, [parse_override(text) for text in arguments])
    combinations = _combinations(options)
    if settings["pruner"] is not None and len(combinations) > 1:
        raise ConfigError("hydra.sweeper.pruner: is given with several jobs for each trial, expected one, or null")
    if settings[SHARED] and settings["storage"] is None:
        raise ConfigError("hydra.sweeper.shared: is true without hydra.sweeper.storage, expected the study's address")
    names = [_name(options, one) for one in combinations]
    folder = MultirunFolder(Path(str(config.hydra.sweep.dir)))
    folder.open(resume=True)
    with closing(folder):
        folder.write_text(REQUEST, without_password(OmegaConf.to_yaml(config)))
        returned: list[Sequence[Any]] = []
        worker = str(folder.read_json(SEARCH).get(_WORKER, uuid.uuid4().hex)) if settings[SHARED] else None
        folder.check_regular_file(DATABASE)
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
                values = [one.return_value for one in returned[-1]]
                size = len(combinations)
                for first, trial in zip(range(0, len(values), size), batch, strict=True):
                    scores = values[first : first + size]
                    value = None if None in scores else sum(scores) / size
                    job = Path(returned[-1][first].hydra_cfg.hydra.runtime.output_dir)
                    state = MultirunFolder(job.parent).read_state(job.name)
                    study.tell(trial, value, is_pruned=state.get("status") == "pruned")
            best = OmegaConf.create({"name": "optuna", "best": study.best()})
        folder.write_text("optimization_results.yaml", OmegaConf.to_yaml(best))
    return returned


def _combinations(options: Sequence[Override]) -> list[list[str]]:
    """Return the overrides of each combination of the options' values."""
    choices = [
        [f"{one.get_key_element()}={value}" for value in one.sweep_string_iterator()]
        if one.is_sweep_override()
        else [f"{one.get_key_element()}={one.get_value_element_as_str()}"]
        for one in options
    ]
    return [list(one) for one in product(*choices)]


def settings_of(config: DictConfig, given: Sequence[Override]) -> tuple[dict[str, Any], list[Override]]:
    """Return the settings of a search, whose ``params`` are all that is searched, and the options that are not."""
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
    return str(hydra.sweeper.storage or f"sqlite:///{hydra.sweep.dir}/{DATABASE}")


def _name(options: Sequence[Override], combination: Sequence[str]) -> str:
    """Return the name of a combination, of the options that have several values."""
    values = (text.split("=", 1) for text in combination)
    several = zip(options, values, strict=True)
    return job_name({key: value for option, (key, value) in several if option.is_sweep_override()})


def _of_trial(trial: Trial, name: str) -> Iterator[str]:
    """Yield the overrides of a trial's job, and Hydra's own that name the job."""
    yield from (f"{key}={value}" for key, value in trial.parameters.items())
    yield override_of(DIRNAME, "_".join(filter(None, (trial.name, name))))
    yield f"++hydra.job.env_set.{TRIAL}='{trial.number}'"
