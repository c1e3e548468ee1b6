# SPDX-License-Identifier: GPL-2.0-only
"""Weights & Biases logger; needs the extra `wandb`.

It never prompts: without a login the run is kept offline, in the run folder, and `wandb sync
RUN_DIR/wandb/offline-run-*` uploads it later.
"""

from __future__ import annotations

import io
import logging
import netrc
import os
import uuid
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

import polars as pl
from PIL import Image

from bbrgym.agents.training.loggers.logger import LoggedRun, Logger, LoggerSettings
from bbrgym.errors import MissingExtraError
from bbrgym.run_folder import RunFolder
from bbrgym.schema import List

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_INIT_TIMEOUT_S = 30.0  # if the server has not answered by then, the run is kept offline
_FIGURE_DPI = 120
_ID_FILE = "wandb-run-id"
_MAX_ID_BYTES = 1024
_CODE = (".py", ".yaml", ".jinja")


class WandbSettings(LoggerSettings):
    """Settings of the W&B logger.

    Attributes:
        project, entity: project of the run, and its owner. Default of the owner: W&B's.
        group: name that repetitions of the run share. Default: the run's own.
        run_name: name of the run. Default: the run's own.
        job_type: type of the run. Default: the command's name.
        tags, notes: tags and notes of the run.
        mode: online, offline or disabled. Default: the value of WANDB_MODE, else online if there is a login, else
            offline.
        git: whether the run has the commit and the changes of the checkout.
        code: whether the run has the Python files of bbrgym, as an artifact of type code.
        console: whether the run has what the process prints.
    """

    project: str = "bbrgym"
    entity: str | None = None
    group: str | None = None
    run_name: str | None = None
    job_type: str | None = None
    tags: List[str] = ()
    notes: str | None = None
    mode: Literal["online", "offline", "disabled"] | None = None
    git: bool = True
    code: bool = True
    console: bool = True

    def start(self, run: LoggedRun) -> WandbLogger:
        """Return a logger for a run.

        Raises:
            MissingExtraError: W&B is not installed.
        """
        try:
            import wandb
        except ModuleNotFoundError as error:
            raise MissingExtraError("logger=wandb", "wandb", error) from error
        return WandbLogger(wandb, self, run)


class WandbLogger(Logger):
    """Logs to a run of W&B.

    Args:
        wandb: the module.
        settings: of the logger.
        run: to log.
    """

    def __init__(self, wandb: ModuleType, settings: WandbSettings, run: LoggedRun) -> None:
        self._wandb = wandb
        mode = settings.mode or os.environ.get("WANDB_MODE") or ("online" if has_login() else "offline")
        try:
            self._run = self._started(settings, run, mode)
        except wandb.errors.Error as error:
            if mode != "online":
                raise
            logging.getLogger(__name__).warning("W&B cannot be reached, the run is kept offline: %s", error)
            self._run = self._started(settings, run, "offline")
        self._run.define_metric("*", step_metric="step")  # a resumed run repeats steps
        if settings.code and mode != "disabled":
            self._log_code()

    def _started(self, settings: WandbSettings, run: LoggedRun, mode: str) -> Any:
        how = self._wandb.Settings(
            console="wrap" if settings.console else "off",
            silent=True,
            disable_git=not settings.git,
            disable_code=True,  # the script that happened to start it; `log_code` has the package
            init_timeout=_INIT_TIMEOUT_S,
            **_git_settings(run) if settings.git else {},
        )
        return self._wandb.init(
            project=settings.project,
            entity=settings.entity,
            group=settings.group or run.group,
            name=settings.run_name or run.name,
            job_type=settings.job_type or run.command,
            tags=list(settings.tags),
            notes=settings.notes,
            config=run.about(),
            id=_run_id(run),
            resume="allow" if mode == "online" else None,
            dir=str(run.folder.resolve()),  # W&B's service may have another working directory
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
        """Log numbers by name; see `Logger`."""
        self._run.log({"step": step, **values})

    def figure(self, step: int, name: str, figure: Figure) -> None:
        """Log a figure; see `Logger`."""
        drawn = io.BytesIO()
        figure.savefig(drawn, format="png", dpi=_FIGURE_DPI)
        self._run.log({"step": step, name: self._wandb.Image(Image.open(drawn))})

    def picture(self, step: int, name: str, path: Path) -> None:
        """Log a picture; see `Logger`."""
        self._run.log({"step": step, name: self._wandb.Image(str(path))})

    def table(self, step: int, name: str, table: pl.DataFrame) -> None:
        """Log a table; see `Logger`."""
        rows = [list(row) for row in table.iter_rows()]
        self._run.log({"step": step, name: self._wandb.Table(columns=table.columns, data=rows)})

    def checkpoint(self, name: str, path: Path, about: Mapping[str, Any]) -> None:
        """Log an artifact of type model, whose file stays in place until it is uploaded; see `Logger`."""
        artifact = self._wandb.Artifact(f"{name}-{self._run.id}", type="model", metadata=dict(about))
        artifact.add_file(str(path), policy="immutable")
        self._run.log_artifact(artifact)

    def summary(self, outcome: Mapping[str, Any]) -> None:
        """Log the results of the run; see `Logger`."""
        self._run.summary.update(dict(outcome))

    def finish(self, exit_code: int) -> None:
        """End the run; see `Logger`."""
        self._run.finish(exit_code=exit_code)


def _git_settings(run: LoggedRun) -> dict[str, Any]:
    """Return what W&B shall take for the commit: that of bbrgym, wherever the command was started."""
    commit = run.provenance.get("commit", "unknown")
    return {} if commit == "unknown" else {"git_commit": commit}


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


def _run_id(run: LoggedRun) -> str:
    """Return the id kept in the run folder, so that a resumed run is the same run; `wandb sweep` gives its own."""
    folder = RunFolder(run.folder)
    if not folder.holds(_ID_FILE):
        given = os.environ.get("WANDB_RUN_ID") if os.environ.get("WANDB_SWEEP_ID") else None
        folder.write_text(_ID_FILE, given or uuid.uuid4().hex[:8])
    return folder.read_text(_ID_FILE, _MAX_ID_BYTES)
