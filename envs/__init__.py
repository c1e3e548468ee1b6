# SPDX-License-Identifier: GPL-2.0-only
"""Gymnasium environments; importing this package registers them."""

from __future__ import annotations

import gymnasium

gymnasium.register(
    id="bbrgym/Tune-v0",
    entry_point="bbrgym.envs.env:TuneEnv",
    vector_entry_point="bbrgym.envs.vector:TuneVectorEnv",
)
