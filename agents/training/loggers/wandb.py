# SPDX-License-Identifier: GPL-2.0-only
"""Weights & Biases; needs the extra `wandb`. It neither asks nor waits: without a login the run is kept offline, in the
run folder, and `wandb sync RUN_DIR/wandb/offline-run-*` uploads it later.
"""

from __future__ import annotations

import io
import logging
import netrc
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Literal
from urllib.parse import urlsplit

import polars as pl
from matplotlib.figure import Figure
from PIL import Image

from bbrgym.agents.training.loggers.logger import Job, Logger
from bbrgym.errors import MissingExtraError
from bbrgym.schema import List, Model

_INIT_TIMEOUT_S = 30.0  # without an answer of the server until then the run is kept offline
_FIGURE_DPI = 120
_ID_FILE = "wandb-run-id"


class Settings(Model):
    """What can be set.

    Attributes:
        project, entity: whose the run is.
        group: of the runs that are repetitions; the job's own without.
        run_name: for people; the job's own without.
        job_type: the job's kind without.
        tags, notes: as W&B has them.
        mode: online, offline or disabled; without, what WANDB_MODE says, or else online with a login, offline without.
    """

    project: str = "bbrgym"
    entity: str | None = None
    group: str | None = None
    run_name: str | None = None
    job_type: str | None = None
    tags: List[str] = ()
    notes: str | None = None
    mode: Literal["online", "offline", "disabled"] | None = None


def start(settings: Settings, job: Job) -> Logger:
    """A logger for a job.

    Raises:
        MissingExtraError: W&B is not installed.
    """
    try:
        import wandb
    except ModuleNotFoundError as error:
        raise MissingExtraError("logger=wandb", "wandb", error) from error
    return WandbLogger(wandb, settings, job)


class WandbLogger:
    """A run of W&B."""

    def __init__(self, wandb: ModuleType, settings: Settings, job: Job) -> None:
        self._wandb = wandb
        mode = settings.mode or os.environ.get("WANDB_MODE") or ("online" if has_login() else "offline")
        try:
            self._run = self._started(settings, job, mode)
        except wandb.errors.Error as error:
            if mode != "online":
                raise
            logging.getLogger(__name__).warning("W&B cannot be reached, the run is kept offline: %s", error)
            self._run = self._started(settings, job, "offline")
        self._run.define_metric("*", step_metric="step")  # a job that goes on repeats steps

    def _started(self, settings: Settings, job: Job, mode: str) -> Any:
        how = self._wandb.Settings(
            console="off", silent=True, disable_git=True, disable_code=True, init_timeout=_INIT_TIMEOUT_S
        )
        return self._wandb.init(
            project=settings.project,
            entity=settings.entity,
            group=settings.group or job.group,
            name=settings.run_name or job.name,
            job_type=settings.job_type or job.kind,
            tags=list(settings.tags),
            notes=settings.notes,
            config=dict(job.config),
            id=_run_id(job),
            resume="allow" if mode == "online" else None,
            dir=str(job.folder),
            mode=mode,
            reinit="create_new",
            settings=how,
        )

    def metrics(self, step: int, values: Mapping[str, float]) -> None:
        """See `Logger`."""
        self._run.log({"step": step, **values})

    def figure(self, step: int, name: str, figure: Figure) -> None:
        """See `Logger`."""
        drawn = io.BytesIO()
        figure.savefig(drawn, format="png", dpi=_FIGURE_DPI)
        self._run.log({"step": step, name: self._wandb.Image(Image.open(drawn))})

    def table(self, step: int, name: str, table: pl.DataFrame) -> None:
        """See `Logger`."""
        rows = [list(row) for row in table.iter_rows()]
        self._run.log({"step": step, name: self._wandb.Table(columns=table.columns, data=rows)})

    def checkpoint(self, name: str, path: Path, about: Mapping[str, Any]) -> None:
        """See `Logger`: an artifact of type model, whose file stays where it is until it is uploaded."""
        artifact = self._wandb.Artifact(f"{name}-{self._run.id}", type="model", metadata=dict(about))
        artifact.add_file(str(path), policy="immutable")
        self._run.log_artifact(artifact)

    def summary(self, outcome: Mapping[str, Any]) -> None:
        """See `Logger`."""
        self._run.summary.update(dict(outcome))

    def finish(self, exit_code: int) -> None:
        """See `Logger`."""
        self._run.finish(exit_code=exit_code)


def has_login() -> bool:
    """Whether W&B would find an API key, without asking for one."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    host = urlsplit(os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")).hostname or ""
    path = Path(os.environ.get("NETRC", "~/.netrc")).expanduser()
    try:
        return netrc.netrc(path).authenticators(host) is not None
    except (OSError, netrc.NetrcParseError):
        return False


def _run_id(job: Job) -> str:
    """The run folder's own: a job that goes on is the same run. An agent of `wandb sweep` says which it wants."""
    path = job.folder / _ID_FILE
    if not path.exists():
        given = os.environ.get("WANDB_RUN_ID") if os.environ.get("WANDB_SWEEP_ID") else None
        path.write_text(given or uuid.uuid4().hex[:8], encoding="utf-8")
    return path.read_text(encoding="utf-8")
