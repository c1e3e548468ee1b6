# SPDX-License-Identifier: GPL-2.0-only
"""The draft's cases of DOWN."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from bbrgym.conformance.ack_history import CRUISE, DOWN, REFILL, UP, AckHistory
from bbrgym.conformance.draft_case import DraftCase, DraftStatement, Known, statement
from bbrgym.conformance.moments import INTERRUPTS, Stay, of_stay, whole_stay
from bbrgym.conformance.paths import PATHS, is_long, varied
from bbrgym.conformance.reasons import INTERRUPTED, SHORT_PATH, V1_CYCLES
from bbrgym.conformance.setup import MSS_BYTES, CaseSetup, Stage
from bbrgym.conformance.tolerances import FLOOR_PKTS, GAIN_TOLERANCE, MARGIN


def _downs(history: AckHistory) -> list[int]:
    """Return the rows with which UP goes over to DOWN."""
    return [row for row in history.entries(DOWN) if int(history["phase"][row - 1]) == UP]


def down_begins(history: AckHistory, _: CaseSetup) -> int | None:
    """Return the row with which the first UP goes over to DOWN."""
    return next(iter(_downs(history)), None)


def _down_is_over(history: AckHistory, setup: CaseSetup) -> int | None:
    found = _down(history, setup)
    return None if found is None else found[1]


def _down(history: AckHistory, setup: CaseSetup) -> Stay | None:
    """Return begin and end of the DOWN that is judged: of a staged one the first, as PROBE_RTT ends it or not."""
    rows = _downs(history)
    if setup.moments_s:
        end = history.end_of(rows[0]) if rows else None
        return None if end is None else (rows[0], end)
    return whole_stay(history, rows)


def _headroom_pkts(setup: CaseSetup, hi_pkts: int) -> float:
    if hi_pkts < 0:
        return math.inf
    room = max(math.floor(setup.sender.constant("headroom") * hi_pkts), 1)
    return max(hi_pkts - room, FLOOR_PKTS)


DOWN_BEGINS = "DOWN begins"
DOWN_ENDS = "DOWN follows UP and ends"
GAIN_OF_DRAFT = "the pacing gain of DOWN is 0.90"


@of_stay(DOWN_ENDS, _down)
def _check_down(history: AckHistory, setup: CaseSetup, row: int, end: int) -> Iterator[DraftStatement]:
    inside = slice(row, end)
    own = setup.sender.constant("down_gain")
    bw = np.minimum(history["bw_Bps"][inside], history["bw_lo_Bps"][inside]).astype(float)
    gains = history["pacing_Bps"][inside] / (MARGIN * bw)
    worst = int(abs(gains / own - 1).argmax())
    yield statement(
        "the pacing gain is DOWN's",
        abs(gains[worst] / own - 1) <= GAIN_TOLERANCE,
        f"gain {gains[worst]:.4f}",
        history.time_s(row + worst),
    )
    yield statement(GAIN_OF_DRAFT, abs(own - 0.9) < 1e-9, f"its own is {own:.4f}", history.time_s(row))
    out = history["prior_in_flight_pkts"].astype(float)
    if not setup.sender.is_draft:
        out = history.departing_pkts("prior_in_flight_pkts", MSS_BYTES)
    level = [
        min(_headroom_pkts(setup, int(hi)), int(target))
        for hi, target in zip(history["inflight_hi_pkts"], history["target_pkts"], strict=True)
    ]
    early = next((at for at in range(row + 1, end) if out[at] <= level[at]), None)
    yield statement(
        "DOWN ends at the first ACK with no more in flight than headroom and Inflight(1.0) allow",
        early is None and out[end] <= level[end],
        f"{out[end]:.0f} in flight, {level[end]:.0f} allowed, after {history.time_s(end) - history.time_s(row):.3g} s",
        history.time_s(end if early is None else early),
    )
    phase = int(history["phase"][end])
    yield statement("CRUISE follows", phase == CRUISE, f"phase {phase}", history.time_s(end))


DOWN_INFLIGHT = DraftCase(
    number=8,
    name="down-inflight",
    title="Exiting PROBE_DOWN on Inflight",
    how="A bulk flow and a queue of four BDP, until the DOWN after the first UP is over.",
    conditions=PATHS,
    end=_down_is_over,
    check=_check_down,
    not_for={"bbr": V1_CYCLES},
    known=(
        Known(GAIN_OF_DRAFT, "google/bbr's gain is 232/256, BBRv2's 192/256.", ("code",)),
        Known(INTERRUPTS, INTERRUPTED, applies=is_long),
        Known(DOWN_ENDS, INTERRUPTED, applies=is_long),
    ),
)


def _slow_down(setup: CaseSetup, history: AckHistory, row: int) -> None:
    part = 1 + setup.condition.amount / 100
    setup.change(history.time_s(row), rate_mbps=part * setup.condition.rate_mbps)


REFILLS = "DOWN goes over to REFILL, past CRUISE"


@of_stay(DOWN_ENDS, _down)
def _check_down_time(history: AckHistory, setup: CaseSetup, row: int, end: int) -> Iterator[DraftStatement]:
    phase = int(history["phase"][end])
    stay_s = history.time_s(end) - history.time_s(row)
    wait_s = float(history["probe_wait_us"][row]) / 1e6
    rounds = int(history["round_count"][end] - history["round_count"][row])
    most = min(setup.sender.constant("max_probe_rounds"), int(history["target_pkts"][end]))
    yield statement(
        REFILLS, phase == REFILL, f"phase {phase} after {stay_s:.3g} s and {rounds} rounds", history.time_s(end)
    )
    if phase != REFILL:
        return
    yield statement(
        "bw_probe_wait has passed, or the rounds after which a Reno flow would have probed",
        stay_s > wait_s or rounds >= most - 2,
        f"{stay_s:.3g} s of {wait_s:.3g}, {rounds} rounds of {most:.0f}",
        history.time_s(end),
    )


_DRAINS_ANYWAY = (
    "Paced at 0.9 of the old rate, less pacing's margin of 1 %, the sender sends less than the new rate carries, so "
    "the queue drains; where UP left little of it, what is in flight falls to the target before the wait is over."
)

_TWO_WAITS = (
    "From CRUISE to the end of a DOWN that lasts to its maximum bw_probe_wait passes twice, four to six seconds, and "
    "UP between. Where 63 rounds take longer, PROBE_RTT, due five seconds after a smaller RTT, mostly comes first."
)

DOWN_TIME = DraftCase(
    number=9,
    name="down-time",
    title="Exiting PROBE_DOWN After Max Time",
    how="As down-inflight; the rate falls by a tenth, as the draft says, or by 20 % when DOWN begins.",
    conditions=varied(PATHS, ("-10 %", -10.0), ("-20 %", -20.0)),
    stages=(Stage(DOWN_BEGINS, down_begins, _slow_down),),
    end=_down_is_over,
    check=_check_down_time,
    queue_bdp=8.0,
    not_for={"bbr": V1_CYCLES},
    known=(
        Known(REFILLS, _DRAINS_ANYWAY, applies=lambda one: one.amount == -10.0 and one.bdp_pkts >= 20),
        Known(REFILLS, SHORT_PATH, applies=lambda one: one.bdp_pkts < 20),
        Known(
            REFILLS,
            "BBRv2 paces with 0.75 in DOWN, less than 0.8 of the rate, so that the queue drains.",
            applies=lambda one: one.amount == -20.0,
            controls=("bbr2",),
        ),
        Known(INTERRUPTS, _TWO_WAITS, applies=lambda one: one.turn_s >= 0.1),
        Known(DOWN_BEGINS, INTERRUPTED, applies=is_long),
    ),
)
