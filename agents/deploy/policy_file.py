# SPDX-License-Identifier: GPL-2.0-only
"""A policy in integer arithmetic as a file of NumPy, and its C header from that, without PyTorch.

usage: python -m bbrgym.agents.deploy.policy_file POLICY.npz POLICY.h

The build does so for the shipped agents before there is a package to import: this module and what it imports need NumPy
alone.
"""

from __future__ import annotations

import dataclasses
import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from . import integer_policy
from .policy_header import policy_header


def policy_file(policy: integer_policy.IntegerPolicy) -> bytes:
    """Return a policy as a file: an array for each table, and `policy`, the rest in JSON with the tables' names."""
    tables: dict[str, Any] = {}

    def plain(value: Any, name: str = "table") -> Any:
        if isinstance(value, np.ndarray):
            tables[name] = value
            return {"table": name}
        if dataclasses.is_dataclass(value):
            parts = {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
            return {"class": type(value).__name__} | {key: plain(one, f"{name}_{key}") for key, one in parts.items()}
        if isinstance(value, tuple):
            return [plain(one, f"{name}_{place}") for place, one in enumerate(value)]
        return value

    described, file = json.dumps(plain(policy)), io.BytesIO()
    np.savez_compressed(file, policy=np.array(described), **tables)
    return file.getvalue()


def read_policy(path: Path) -> integer_policy.IntegerPolicy:
    """Return the policy in a file of the package."""
    with np.load(path) as tables:

        def made(value: Any) -> Any:
            if isinstance(value, list):
                return tuple(made(one) for one in value)
            if not isinstance(value, dict):
                return value
            if "table" in value:
                return tables[value["table"]]
            return getattr(integer_policy, value.pop("class"))(**{key: made(one) for key, one in value.items()})

        policy: integer_policy.IntegerPolicy = made(json.loads(str(tables["policy"])))
        return policy


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(policy_header(read_policy(Path(sys.argv[1]))), encoding="utf-8")
