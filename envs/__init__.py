# SPDX-License-Identifier: GPL-2.0-only
"""Gymnasium environments; importing this package registers them.

PettingZoo has no register: `bbrgym/TuneMulti-v2` is made by `bbrgym.envs.multi.parallel_env(...)`.

Example:
    >>> import gymnasium, bbrgym
    >>> sorted(name for name in gymnasium.registry if name.startswith("bbrgym/"))
    ['bbrgym/Ns3Gym-v0', 'bbrgym/Tune-v2']
"""

from __future__ import annotations

import gymnasium

gymnasium.register(
    id="bbrgym/Tune-v2",
    entry_point="bbrgym.envs.tune_env:TuneEnv",
    vector_entry_point="bbrgym.envs.tune_vector_env:TuneVectorEnv",
)
gymnasium.register(id="bbrgym/Ns3Gym-v0", entry_point="bbrgym.envs.ns3gym_env:Ns3GymEnv")
