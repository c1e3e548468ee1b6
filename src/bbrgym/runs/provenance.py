# SPDX-License-Identifier: GPL-2.0-only
"""Provenance of results: the version and commit of the package, the machine, the packages beside it, the command.

A checkout tells its commit by git. A wheel has the commit that it was built from in ``built_from.json``, written by the
build (cmake/BuiltFrom.cmake); one that was built elsewhere than in a checkout says ``unknown``.
"""

from __future__ import annotations

import functools
import json
import os
import platform
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from bbrgym.version import __version__

_PACKAGE = Path(__file__).resolve().parents[1]
_BUILT_FROM = "built_from.json"
_UNKNOWN = "unknown"
_PATIENCE_S = 10.0  # for git; a checkout on a slow disk then has an unknown commit


def provenance() -> dict[str, Any]:
    """Return where the results of this process come from.

    Returns:
        ``version`` of bbrgym; its ``commit``, or ``unknown``; ``is_dirty``, whether files differed from the commit,
        None if unknown; ``python``; ``platform``; ``cpu`` and number of ``cores``; ``packages``, the versions of all
        that are installed, by name; ``command``, as a shell takes it.
    """
    commit, is_dirty = _commit()
    return {
        "version": __version__,
        "commit": commit,
        "is_dirty": is_dirty,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "packages": _packages(),
        "command": shlex.join(sys.orig_argv),
    }


@functools.cache
def _commit() -> tuple[str, bool | None]:
    checkout = _PACKAGE.parents[1]
    if (checkout / ".git").exists() and (checkout / "pyproject.toml").exists():
        commit = _git(checkout, "rev-parse", "HEAD")
        changes = _git(checkout, "status", "--porcelain", "--untracked-files=no")
        return (commit or _UNKNOWN), (None if changes is None else bool(changes))
    try:
        built: dict[str, Any] = json.loads((_PACKAGE / _BUILT_FROM).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return _UNKNOWN, None
    return str(built.get("commit", _UNKNOWN)), built.get("is_dirty")


def _git(checkout: Path, *arguments: str) -> str | None:
    """Return what git says of a checkout, which may belong to another user; None if it says nothing."""
    command = ["git", "--no-optional-locks", "-c", "safe.directory=*", "-C", str(checkout), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_PATIENCE_S)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


@functools.cache
def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1] for line in lines if line.startswith("model name")]
    return " ".join(names[0].split()) if names else platform.processor() or _UNKNOWN


@functools.cache
def _packages() -> dict[str, str]:
    """Return the versions of all installed packages, by the names of their folders; none of them is imported."""
    found: dict[str, str] = {}
    for folder in reversed(sys.path):  # an earlier one comes first when a package is imported
        if folder and Path(folder).is_dir():
            for path in Path(folder).glob("*.dist-info"):
                name, _, version = path.stem.rpartition("-")
                found[name.replace("_", "-").lower()] = version
    return dict(sorted(found.items()))
