# SPDX-License-Identifier: GPL-2.0-only
"""Golden lives: what each variant decides over random lives, with tunables and facts of its stack at any value.

They hold every value that an event leaves; the other tests here say what is right.
Record them again after a change of an algorithm that is meant: ``python tests/cc/test_lives.py``.
"""

from __future__ import annotations

import hashlib
import random

import pytest
from driver import Path, random_events

from bbrgym import _cc

VARIANTS = {row["name"]: row for row in _cc.variants()}
TUNABLES = {row["name"]: row for row in _cc.tunables()}
LIVES = 16
EVENTS = 600


def changed_facts(draw: random.Random) -> dict[str, int]:
    """Return other values of some facts of the algorithm, all of which have two or a few."""
    rows = [row for row in _cc.stack_facts() if row["layer"] == "algorithm" and draw.random() < 0.15]
    return {row["name"]: draw.randrange(max(2, len(row["choices"]))) for row in rows}


def life(variant: str, number: int) -> Path:
    """Return a path whose controller has drawn its tunables and facts; the first has the presets."""
    draw = random.Random(number)
    rtt_us = draw.choice([400, 4000, 40_000, 200_000])
    path = Path(variant, draw.choice([1e5, 1e6, 1e7]), rtt_us, number, facts=changed_facts(draw) if number else {})
    for name in VARIANTS[variant]["tunables"] if number else ():
        row = TUNABLES[name]
        if draw.random() < 0.2:
            value = draw.uniform(row["low"], row["high"])
            path.controller.set_tunable(name, value if row["unit"] == "ratio" else round(value))
    return path


def digest(variant: str) -> str:
    seen = hashlib.sha256()
    for number in range(LIVES):
        for state in random_events(life(variant, number), number, EVENTS):
            seen.update(repr(tuple(state.values())).encode())
    return seen.hexdigest()[:16]


#: Of each variant.
GOLDEN = {
    "bbr": "be6330759beac1e1",
    "bbr-plus": "c8847af786f151e3",
    "bbr-acd": "ed79b0bb6df8671f",
    "bbq": "d3df00fd77f79aee",
    "bbq-first-cut": "22737bd32345857c",
    "bbr-pg": "a55898aaa37b8b14",
    "bbr-pg-inv": "f168c302cd01f6be",
    "bbr-mix": "73fc151a6013d48c",
    "bbr3": "bf80dece5d20464d",
    "bbr2": "fbf754cae587b4b3",
    "bbr3-mix": "147646cbc6abb431",
    "cubic": "a981cc1e6cff94a6",
    "cubic-rfc9438": "cd07f7794501ca6e",
    "reno": "dcb978a07f9ae2ea",
    "bic": "cfc2daf45f87203d",
    "vegas": "1e634ece1b94f8a0",
    "westwood": "78c7a13935bdc04f",
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_lives_are_golden(variant: str) -> None:
    assert digest(variant) == GOLDEN[variant]


if __name__ == "__main__":
    for each in VARIANTS:
        print(f'    "{each}": "{digest(each)}",')
