# SPDX-License-Identifier: GPL-2.0-only
"""A training of the portfolio of some seconds."""

from pathlib import Path
from typing import Any

from tiny import asked, weights

SMALL: dict[str, Any] = {
    "name": "portfolio",
    "library_size": 3,
    "search_share": 0.15,
    "cross_share": 0.2,
    "refine_share": 0.15,
    "refine_turns": 2,
    "search_trials": 6,
    "search_runs": 1,
    "identification_s": 1.0,
    "fit": {"networks": 2, "folds": 2},
}


def small(changed: Any = None, **others: Any) -> dict[str, Any]:
    return asked({**SMALL, **(changed or {})}, total_steps=4000, **others)


def files(folder: Path) -> dict[str, bytes]:
    """Everything that a training leaves, but for the times that it took."""
    names = [path for path in folder.rglob("*") if path.suffix == ".parquet" or path.name == "library.yaml"]
    found = {str(path.relative_to(folder)): path.read_bytes() for path in names}
    return found | weights(folder, "last") | {f"best{name}": value for name, value in weights(folder, "best").items()}
