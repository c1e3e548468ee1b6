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
        if row["mechanism"] != "PATH_CHANGE" and draw.random() < 0.3:  # which none of these lives would meet
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
    "bbr": "f0b7ba7e895254bf",
    "bbr-plus": "bb4ad29ab0191181",
    "bbr-acd": "142877e3ca2cf8af",
    "bbq": "a715f94e6f473070",
    "bbq-first-cut": "96dd6a831c0ac211",
    "bbr-pg": "72b36edf7d4d6dcb",
    "bbr-pg-inv": "64904b87e428da18",
    "bbr-mix": "f569749fc2d6653d",
    "bbr3": "0e8a2d34ac1e0ad2",
    "bbr2": "396859d2a91bd59f",
    "bbr3-mix": "11a0ff04340ce952",
    "cubic": "8b03d278d0f07dc7",
    "reno": "96c7f5955417cc1a",
    "bic": "058619e1905e9f10",
    "vegas": "157e6e440a0c5256",
    "westwood": "a610da157bc7cf9e",
    "direct": "15c84fa2d087b06a",
    "cubic-scaled": "90ab4e729d9e0f2c",
    "switch": "8b03d278d0f07dc7",  # without a network it stays CUBIC
    "bbr-scaled": "bc7d2a20d526179b",
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_lives_are_golden(variant: str) -> None:
    assert digest(variant) == GOLDEN[variant]


if __name__ == "__main__":
    for each in VARIANTS:
        print(f'    "{each}": "{digest(each)}",')
