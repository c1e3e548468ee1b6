# SPDX-License-Identifier: GPL-2.0-only
"""What a world raises when it breaks."""

from __future__ import annotations


class WorldError(RuntimeError):
    """A world's simulation failed: it aborted, was killed, hung, or raised.

    The world needs a ``reset()``, which starts afresh. A bad argument is a ``ValueError`` instead.

    Attributes:
        scenario: name of the scenario.
        seed: seed of the run.
        now_s: simulated time in seconds at which the world was last heard of.
        reason: what happened.
    """

    def __init__(self, scenario: str, seed: int, now_s: float, reason: str) -> None:
        super().__init__(scenario, seed, now_s, reason)  # the arguments, so that it can be pickled
        self.scenario = scenario
        self.seed = seed
        self.now_s = now_s
        self.reason = reason

    def __str__(self) -> str:
        return f"scenario {self.scenario!r}, seed {self.seed}, at {self.now_s:g} s: {self.reason}"
