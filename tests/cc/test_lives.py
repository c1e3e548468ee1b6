# SPDX-License-Identifier: GPL-2.0-only
"""Golden lives: what each variant decides over random lives, with tunables and facts of its stack at any value.

They hold every value that an event leaves; the other tests here say what is right.
Record them again after a change of an algorithm that is meant: ``python tests/cc/test_lives.py``.
"""

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
    facts = changed_facts(draw) if number else {}
    path = Path(variant, draw.choice([1e5, 1e6, 1e7]), rtt_us, number, ecn_ok=number % 2 == 1, facts=facts)
    for name in VARIANTS[variant]["tunables"] if number else ():
        row = TUNABLES[name]
        if draw.random() < 0.3:
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
    "bbr": "aabf2f88f71be552",
    "bbr-plus": "bc6ab7e44e9b6efd",
    "bbr-acd": "b8f340c18a05b657",
    "bbq": "5f0de22743c7c6af",
    "bbq-first-cut": "eb69a48046334211",
    "bbr-pg": "dd31bdf773c13706",
    "bbr-pg-inv": "5637966979a2c4de",
    "bbr-mix": "45cafe1feacf0d04",
    "bbr3": "9342c71862f18a04",
    "bbr2": "5f715a980e9ff1f8",
    "bbr3-mix": "49afc46360086fb9",
    "cubic": "5eb1c4b33a5c829b",
    "cubic-rfc9438": "1bd00cdb2d66a2a7",
    "reno": "4c88fa0daa395c92",
    "bic": "ac1211fd7fa93da9",
    "vegas": "b8947341e62dc052",
    "westwood": "ece3326c7279736e",
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_lives_are_golden(variant: str) -> None:
    assert digest(variant) == GOLDEN[variant]


if __name__ == "__main__":
    for each in VARIANTS:
        print(f'    "{each}": "{digest(each)}",')
