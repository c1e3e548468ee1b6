# SPDX-License-Identifier: GPL-2.0-only
"""Make the shipped synthetic cellular trace: ``python -m bbrgym.scenario.synthetic_trace FILE``."""

from __future__ import annotations

import random
import sys
from pathlib import Path

from bbrgym.runs.atomic_files import write_text
from bbrgym.scenario.traces import OPPORTUNITY_BYTES

_SEED = 20170613
_DURATION_MS = 60_000
_STEP_MS = 20  # the rate is constant for so long
_LOWEST_MBPS = 0.5
_LEVEL_RATIO = 1.2  # between neighbouring rates: 0.5 to 40 Mbit/s in 25 levels
_LEVELS = 25
_USUAL_LEVEL = 13  # 5.3 Mbit/s
_MOVE_PROBABILITY = 0.5
_PULL = 0.03  # towards the usual level, per level away from it
_OUTAGE_PROBABILITY = 0.002  # per step; about one in 10 s
_OUTAGE_STEPS = 25  # half a second


def synthetic_trace() -> list[int]:
    """Return the times in ms of a made-up cellular link: a rate that wanders about 6 Mbit/s, with outages.

    The level walks at random with a pull to the middle. Only :meth:`random.Random.random`, sums, products and
    comparisons are used, so the result is the same on any machine.
    """
    chance = random.Random(_SEED)
    rates_mbps = [_LOWEST_MBPS]
    while len(rates_mbps) < _LEVELS:
        rates_mbps.append(rates_mbps[-1] * _LEVEL_RATIO)
    times_ms: list[int] = []
    level, outage_steps, credit_bytes = _USUAL_LEVEL, 0, 0.0
    for step in range(_DURATION_MS // _STEP_MS):
        if chance.random() < _MOVE_PROBABILITY:
            up = 0.5 + _PULL * (_USUAL_LEVEL - level)
            level += 1 if chance.random() < up else -1
            level = min(max(level, 0), _LEVELS - 1)
        if chance.random() < _OUTAGE_PROBABILITY:
            outage_steps = _OUTAGE_STEPS
        if outage_steps > 0:
            outage_steps -= 1
            continue
        for ms in range(step * _STEP_MS + 1, (step + 1) * _STEP_MS + 1):
            credit_bytes += rates_mbps[level] * 125.0  # bytes in a ms
            while credit_bytes >= OPPORTUNITY_BYTES:
                credit_bytes -= OPPORTUNITY_BYTES
                times_ms.append(ms)
    times_ms.append(_DURATION_MS)  # the last time is the period
    return times_ms


def _main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m bbrgym.scenario.synthetic_trace FILE\n")
        return 2
    text = "".join(f"{time_ms}\n" for time_ms in synthetic_trace())
    write_text(Path(arguments[0]), text)
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
