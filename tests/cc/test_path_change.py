# SPDX-License-Identifier: GPL-2.0-only
"""PATH_CHANGE: what it takes for a new path, and what not."""

from typing import Any

import pytest
from driver import LOSS, MSS_BYTES, Path

MIXES = ("bbr-mix", "bbr3-mix")
LONG_US = 200_000
UP = 8
ACKS_IN_FLIGHT = 17  # of two packets each


def path_of(variant: str, **tunables: float) -> Path:
    """A path of 40 ms whose pipe is full."""
    path = Path(variant)
    for name, value in {"use_path_change": 1, **tunables}.items():
        path.controller.set_tunable(name, value)
    while not path.state["full_bw_reached"]:
        path.ack()
    path.ack()
    return path


def longer(
    path: Path,
    acks: int = 120,
    pause_us: int = LONG_US - 40_000,
    pauses: int = 120,
    rtt_us: int = LONG_US,
    **changes: Any,
) -> int:
    """Pause, then ACK what was in flight, again and again, without a pause after so many; return min_rtt."""
    for number in range(acks):
        if number % ACKS_IN_FLIGHT == 0 and number < pauses * ACKS_IN_FLIGHT:
            path.now_us += pause_us
        state = path.ack(rtt_us=rtt_us, **changes)
    return int(state["min_rtt_us"])


@pytest.mark.parametrize("variant", MIXES)
def test_a_longer_path_is_believed_after_its_rounds(variant: str) -> None:
    assert longer(path_of(variant)) == LONG_US
    rounds = [longer(path_of(variant, path_rounds=count), acks=60) for count in (1, 2, 3, 4, 5)]
    assert rounds == sorted(rounds, reverse=True)
    assert {rounds[0], rounds[-1]} == {LONG_US, 40_000}


@pytest.mark.parametrize("variant", MIXES)
@pytest.mark.parametrize(("number", "least_us"), [(5, LONG_US), (40, LONG_US - 9_000)])
def test_the_least_rtt_since_the_first_round_is_the_paths(variant: str, number: int, least_us: int) -> None:
    path = path_of(variant)
    longer(path, number)
    longer(path, 1, pauses=0, rtt_us=LONG_US - 9_000)
    assert longer(path) == least_us


@pytest.mark.parametrize("variant", MIXES)
@pytest.mark.parametrize(
    ("what", "changes"),
    [
        ("no pause: others queue, or the rate fell", {"pause_us": 0}),
        ("one pause: the rate fell in a gap, and its own queue is delivered", {"pauses": 1}),
        ("what was delivered meanwhile explains it", {"sample_pkts": 160}),
        ("the application limits", {"is_app_limited": True}),
        ("a timer held the ACK back", {"is_ack_delayed": True}),
        ("after a timeout", {"ca_state": LOSS}),
    ],
)
def test_what_is_not_a_longer_path(variant: str, what: str, changes: dict[str, Any]) -> None:
    assert longer(path_of(variant), **changes) == 40_000, what


@pytest.mark.parametrize("variant", MIXES)
def test_an_outage_is_none(variant: str) -> None:
    path = path_of(variant)
    assert longer(path, acks=10) == 40_000
    path.ack()
    assert longer(path, pause_us=0) == 40_000


@pytest.mark.parametrize("variant", MIXES)
def test_a_rise_below_the_tunables_is_none(variant: str) -> None:
    assert longer(path_of(variant, path_rise_us=170_000)) == 40_000
    assert longer(path_of(variant), pause_us=30_000) == 40_000


def test_it_is_off_by_default() -> None:
    for variant in MIXES:
        assert longer(path_of(variant, use_path_change=0)) == 40_000


def test_bbr3_raises_what_losses_said_of_the_old_path_by_what_the_new_one_is_longer() -> None:
    path = path_of("bbr3-mix")
    path.until(UP)
    path.lose(5)
    hi_pkts = path.state["inflight_hi_pkts"]
    assert hi_pkts < 100
    longer(path)
    assert path.state["inflight_hi_pkts"] == pytest.approx(hi_pkts + 160e-3 * path.bw_Bps / MSS_BYTES, abs=3)
