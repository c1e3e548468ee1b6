# SPDX-License-Identifier: GPL-2.0-only
"""An algorithm of your own, derived from one of Stable-Baselines3: PPO whose advantages are cut at some deviations.

conf/agent/clipped_value.yaml names it by `_target_`:

    export PYTHONPATH=examples/own_algorithm
    bbrgym train --config-dir examples/own_algorithm/conf agent=clipped_value scenario=wan_mix output_dir=runs/mine
"""

from typing import Any

import numpy as np
from stable_baselines3 import PPO


class ClippedValuePpo(PPO):
    """PPO that cuts large advantages before each update.

    Args:
        *arguments, **others: as of `PPO`.
        advantage_limit: largest advantage, in standard deviations of a rollout's.
    """

    def __init__(self, *arguments: Any, advantage_limit: float = 3.0, **others: Any) -> None:
        self.advantage_limit = advantage_limit
        super().__init__(*arguments, **others)

    def train(self) -> None:
        advantages = self.rollout_buffer.advantages
        limit = self.advantage_limit * float(advantages.std())
        self.logger.record("train/largest_advantage", float(np.abs(advantages).max()))
        np.clip(advantages, -limit, limit, out=advantages)
        super().train()
