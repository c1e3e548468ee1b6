# SPDX-License-Identifier: GPL-2.0-only
"""Launchers of a sweep's jobs: ``launcher=joblib``, ``submitit`` or ``ray``; conf/launcher/*.yaml has their settings.

They are not Hydra's plugins: Hydra's launcher for Ray and its sweeper for Optuna cannot be installed beside the present
Ray and Optuna, and a launcher of Hydra's gives up all jobs when one is lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bbrgym.sweeps.launchers.launcher import Launcher
from bbrgym.targets import build, with_shipped


def make_launcher(asked: str | Mapping[str, Any], *, is_trusted: bool = True) -> Launcher:
    """Return a launcher that is ready to run jobs.

    Args:
        asked: `_target_` and the fields of the class, or the name of a file in conf/launcher.
        is_trusted: see `bbrgym.targets.build`.

    Raises:
        ConfigError: there is no such launcher, or a setting of it is wrong.
        MissingExtraError: its library is not installed.
    """
    options = with_shipped("launcher", asked)
    launcher = build("launcher", options, Launcher, is_trusted=is_trusted)
    launcher.require_library()
    return launcher
