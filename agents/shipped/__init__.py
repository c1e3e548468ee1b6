# SPDX-License-Identifier: GPL-2.0-only
"""Trained agents that come with bbrgym, a folder each, written by `python -m bbrgym.agents.shipped`.

about.json says how one was trained, and holds the setting of one with fixed tunables, which needs no PyTorch. Beside it
is what the use of a run folder needs and, of one that a flow follows by itself, its integer form: policy.npz, of which
`bbrgym.agents.deploy.policy_file` writes the C header, and the build makes exported/policy.bpf.o.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

POLICY = "policy.npz"

#: Their folders, by name.
SHIPPED: Mapping[str, Path] = {
    f"shipped/{file.parent.name}": file.parent for file in sorted(Path(__file__).parent.glob("*/about.json"))
}


def shipped_setting(folder: Path) -> tuple[str, dict[str, float]] | None:
    """Return the variant and the fixed tunables of a shipped agent; None of one that changes tunables."""
    about = json.loads((folder / "about.json").read_text(encoding="utf-8"))  # of the package
    return (about["variant"], about["tunables"]) if "tunables" in about else None
