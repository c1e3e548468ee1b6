# SPDX-License-Identifier: GPL-2.0-only
"""Weights & Biases logger; needs the extra `wandb`.

It never prompts: without a login the run is kept offline, in the run folder, and `wandb sync
RUN_DIR/wandb/offline-run-*` uploads it later. An active run, begun by `wandb.init()`
as in functions of `wandb.agent`, is logged into and left open; its configuration gets one key, `bbrgym`.
"""

from __future__ import annotations

import logging
import netrc
import os
import uuid
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from types import ModuleType
from typing import Any, Literal
from urllib.parse import urlsplit

import polars as pl

from bbrgym.errors import ConfigError, MissingExtraError
from bbrgym.loggers.logger import LoggedRun, Logger, LoggerSettings
from bbrgym.runs.run_folder import RunFolder
from bbrgym.schema import List

_INIT_TIMEOUT_S = 30.0  # if the server has not answered by then, the run is kept offline
_ID_FILE = "wandb-run-id"
_MAX_ID_BYTES = 1024
_PROJECT = "bbrgym"
_OURS = "bbrgym"  # key of the settings in the configuration of an active run
_CODE = (".py", ".yaml", ".h")


class WandbSettings(LoggerSettings):
    """Settings of the W&B logger. Where one is not given, W&B's environment variable counts, such as WANDB_PROJECT."""

    project: str | None = None  # of the run. Default: bbrgym
    entity: str | None = None  # owner of the project. Default: W&B's
    group: str | None = None  # name that repetitions of the run share. Default: the run's own
    run_name: str | None = None  # Default: the run's own
    job_type: str | None = None  # Default: the command's name
    tags: List[str] = ()
    notes: str | None = None
    # Default: the value of WANDB_MODE, else online if there is a login, else offline
    mode: Literal["online", "offline", "disabled"] | None = None
    git: bool = True  # whether the run has the commit and the changes of the checkout
    code: bool = True  # whether the run has the Python files of bbrgym, as an artifact of type code
    console: bool = True  # whether the run has what the process prints

    def is_for(self, active: Any) -> bool:
        """Return whether an active run of W&B is the one that the settings ask for."""
        asked = {name: getattr(self, name) for name in ("project", "entity", "group", "job_type")}
        return all(value in (None, getattr(active, name)) for name, value in asked.items())

    def start(self, run: LoggedRun) -> WandbLogger:
        try:
            import wandb
        except ModuleNotFoundError as error:
            raise MissingExtraError("logger=wandb", "wandb", error) from error
        if wandb.__name__ != "wandb" or not hasattr(wandb, "errors"):
            tracker = str(getattr(getattr(wandb, "init", None), "__module__", wandb.__name__)).partition(".")[0]
            raise ConfigError(
                f"logger: is wandb, whose place {tracker} has taken, expected W&B itself; examples/trackers.py logs to "
                f"other trackers"
            )
        return WandbLogger(wandb, self, run)


class WandbLogger(Logger):
    """Logs to the active W&B run, or to a new one."""

    def __init__(self, wandb: ModuleType, settings: WandbSettings, run: LoggedRun) -> None:
        self._wandb, self._names = wandb, {"step"}
        self._is_own = wandb.run is None or not settings.is_for(wandb.run)
        if self._is_own:
            self._begin(settings, run)
        else:
            self._join(wandb.run, settings, run)
        if settings.code and not self._run.disabled:
            self._log_code()

    def _begin(self, settings: WandbSettings, run: LoggedRun) -> None:
        """Begin a run."""
        mode = settings.mode or _from_environment("MODE") or ("online" if has_login() else "offline")
        try:
            self._run = self._started(settings, run, mode)
        except self._wandb.errors.Error as error:
            if mode != "online":
                raise
            logging.getLogger(__name__).warning("W&B cannot be reached, the run is kept offline: %s", error)
            self._run = self._started(settings, run, "offline")

    def _join(self, active: Any, settings: WandbSettings, run: LoggedRun) -> None:
        """Log into an active run."""
        self._run = active
        active.config.update({_OURS: run.about()}, allow_val_change=True)
        if settings.run_name is not None:
            active.name = settings.run_name
        if settings.notes is not None:
            active.notes = settings.notes
        if settings.tags:
            active.tags = (*(active.tags or ()), *settings.tags)
        RunFolder(run.folder).write_text(_ID_FILE, active.id)

    def _started(self, settings: WandbSettings, run: LoggedRun, mode: str) -> Any:
        commit = run.provenance.get("commit", "unknown")
        how = self._wandb.Settings(
            console="wrap" if settings.console else "off",
            silent=True,
            disable_git=not settings.git,
            disable_code=True,  # the script that happened to start it; `log_code` has the package
            init_timeout=_INIT_TIMEOUT_S,
            # bbrgym's commit, wherever the command was started
            **{"git_commit": commit} if settings.git and commit != "unknown" else {},
        )
        given = _from_environment
        return self._wandb.init(
            # W&B itself reads the environment once in a process.
            project=settings.project or given("PROJECT") or _PROJECT,
            entity=settings.entity or given("ENTITY"),
            group=settings.group or given("RUN_GROUP") or run.group,
            name=settings.run_name or given("NAME") or run.name,
            job_type=settings.job_type or given("JOB_TYPE") or run.command,
            tags=list(settings.tags) or [tag.strip() for tag in (given("TAGS") or "").split(",") if tag.strip()],
            notes=settings.notes or given("NOTES"),
            config=run.about(),
            id=_run_id(run),
            resume=given("RESUME") or ("allow" if mode == "online" else None),
            # W&B's service may have another working directory.
            dir=given("DIR") or str(run.folder.resolve()),
            mode=mode,
            reinit="create_new",
            settings=how,
        )

    def _log_code(self) -> None:
        artifact = self._wandb.Artifact(f"code-{self._run.id}", type="code")
        package = Path(str(resources.files("bbrgym")))
        for folder, _, names in os.walk(package, followlinks=True):  # a checkout's package has links to its folders
            for path in (Path(folder, name) for name in names if name.endswith(_CODE)):
                artifact.add_file(str(path), str(path.relative_to(package.parent)), policy="immutable")
        self._run.log_artifact(artifact)

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        self._log(step, values)

    def picture(self, step: int, name: str, path: Path) -> None:
        self._log(step, {name: self._wandb.Image(str(path))})

    def table(self, step: int, name: str, table: pl.DataFrame) -> None:
        rows = [list(row) for row in table.iter_rows()]
        self._log(step, {name: self._wandb.Table(columns=table.columns, data=rows)})

    def _log(self, step: int, values: Mapping[str, Any]) -> None:
        for name in values.keys() - self._names:
            self._run.define_metric(name, step_metric="step")  # a resumed run repeats steps
        self._names.update(values)
        self._run.log({"step": step, **values})

    def checkpoint(self, name: str, path: Path, about: Mapping[str, Any]) -> None:
        """Log an artifact of type model, whose file stays in place until uploaded."""
        artifact = self._wandb.Artifact(f"{name}-{self._run.id}", type="model", metadata=dict(about))
        artifact.add_file(str(path), policy="immutable")
        self._run.log_artifact(artifact)

    def summary(self, outcome: Mapping[str, Any]) -> None:
        self._run.summary.update(dict(outcome))

    def finish(self, exit_code: int) -> None:
        """End the run, if the logger has started that run."""
        if self._is_own:
            self._run.finish(exit_code=exit_code)


def has_login() -> bool:
    """Return whether W&B finds an API key without prompting."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    host = urlsplit(os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")).hostname or ""
    path = Path(os.environ.get("NETRC", "~/.netrc")).expanduser()
    try:
        return netrc.netrc(path).authenticators(host) is not None
    except (OSError, netrc.NetrcParseError):
        return False


def _from_environment(name: str) -> str | None:
    """Return the value of a W&B variable; None if unset or empty."""
    return os.environ.get(f"WANDB_{name}") or None


def _run_id(run: LoggedRun) -> str:
    """Return the id of the environment, else that kept in the run folder, so that a resumed run is the same run."""
    folder = RunFolder(run.folder)
    if given := _from_environment("RUN_ID"):
        folder.write_text(_ID_FILE, given)
    elif not folder.holds(_ID_FILE):
        folder.write_text(_ID_FILE, uuid.uuid4().hex[:8])
    return folder.read_text(_ID_FILE, _MAX_ID_BYTES)
