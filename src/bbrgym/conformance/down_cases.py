# SPDX-License-Identifier: GPL-2.0-only
"""The draft's cases of DOWN."""

from __future__ import annotations

import math

import numpy as np

from bbrgym.conformance.ack_history import CRUISE, DOWN, REFILL, UP, AckHistory
from bbrgym.conformance.draft_case import SHORT_PATH, V1_CYCLES, Known, draft_case, interrupted
from bbrgym.conformance.setup import MSS_BYTES, PATHS, CaseSetup, Stage, rate_becomes, varied
from bbrgym.conformance.statements import FLOOR_PKTS, INTERRUPTS, Statements, Stay, end_of, whole_stay

DOWN_BEGINS = "DOWN begins"
DOWN_ENDS = "DOWN follows UP and ends"
GAIN_OF_DRAFT = "the pacing gain of DOWN is 0.90"


def _downs(history: AckHistory) -> list[int]:
    """Return the rows with which UP goes over to DOWN."""
    return [row for row in history.entries(DOWN) if history.at("phase", row - 1) == UP]


def _down(history: AckHistory, setup: CaseSetup) -> Stay | None:
    """Return begin and end of the DOWN that is checked: of a staged one the first, as PROBE_RTT ends it or not."""
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


@draft_case(
    8,
    conditions=PATHS,
    end=end_of(_down),
    not_for=V1_CYCLES,
    known=(
        Known(GAIN_OF_DRAFT, "google/bbr's gain is 232/256, BBRv2's 192/256.", ("code",)),
        *interrupted(INTERRUPTS, DOWN_ENDS),
    ),
)
def down_inflight(run: Statements) -> None:
    """Exiting PROBE_DOWN on Inflight"""
    history, sender = run.history, run.setup.sender
    row, end = run.needs_stay(DOWN_ENDS, _down(history, run.setup))
    own = sender.constant("down_gain")
    run.has_gain("DOWN", own, (row, end), np.minimum(history["bw_Bps"], history["bw_lo_Bps"]))
    run.states(GAIN_OF_DRAFT, abs(own - 0.9) < 1e-9, f"its own is {own:.4f}", row)
    column = "prior_in_flight_pkts"
    out = history[column].astype(float) if sender.is_draft else history.departing_pkts(column, MSS_BYTES)
    bounds = zip(history["inflight_hi_pkts"], history["target_pkts"], strict=True)
    level = [min(_headroom_pkts(run.setup, int(hi)), int(target)) for hi, target in bounds]
    early = next((at for at in range(row + 1, end) if out[at] <= level[at]), None)
    stay_s = history.time_s(end) - history.time_s(row)
    run.states(
        "DOWN ends at the first ACK with no more in flight than headroom and Inflight(1.0) allow",
        early is None and out[end] <= level[end],
        f"{out[end]:.0f} in flight, {level[end]:.0f} allowed, after {stay_s:.3g} s",
        end if early is None else early,
    )
    run.goes_to("CRUISE follows", CRUISE, end)


REFILLS = "DOWN goes over to REFILL, past CRUISE"


_DRAINS_ANYWAY = (
    "Paced at 0.9 of the old rate, less pacing's margin of 1 %, the sender sends less than the new rate carries, so "
    "the queue drains; where UP left little of it, what is in flight falls to the target before the wait is over."
)
_TWO_WAITS = (
    "From CRUISE to the end of a DOWN that lasts to its maximum bw_probe_wait passes twice, four to six seconds, and "
    "UP between. Where 63 rounds take longer, PROBE_RTT, due five seconds after a smaller RTT, mostly comes first."
)


# The rate falls by a tenth, as the draft says, or by 20 %.
@draft_case(
    9,
    conditions=varied(("-10 %", -10.0), ("-20 %", -20.0)),
    stages=(
        Stage(
            DOWN_BEGINS,
            lambda history, _: next(iter(_downs(history)), None),
            rate_becomes(lambda one: one.varied_rate_mbps),
        ),
    ),
    end=end_of(_down),
    queue_bdp=8.0,
    not_for=V1_CYCLES,
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
        *interrupted(DOWN_BEGINS),
    ),
)
def down_time(run: Statements) -> None:
    """Exiting PROBE_DOWN After Max Time"""
    history = run.history
    row, end = run.needs_stay(DOWN_ENDS, _down(history, run.setup))
    phase, rounds = history.at("phase", end), history.rounds(row, end)
    stay_s = history.time_s(end) - history.time_s(row)
    run.states(REFILLS, phase == REFILL, f"phase {phase} after {stay_s:.3g} s and {rounds} rounds", end)
    if phase != REFILL:
        return
    wait_s = float(history["probe_wait_us"][row]) / 1e6
    most = min(run.setup.sender.constant("max_probe_rounds"), history.at("target_pkts", end))
    text = "bw_probe_wait has passed, or the rounds after which a Reno flow would have probed"
    measured = f"{stay_s:.3g} s of {wait_s:.3g}, {rounds} rounds of {most:.0f}"
    run.states(text, stay_s > wait_s or rounds >= most - 2, measured, end)
