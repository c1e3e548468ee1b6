# SPDX-License-Identifier: GPL-2.0-only
"""The draft's cases of PROBE_BW's phases."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from bbrgym.conformance.ack_history import CRUISE, DOWN, PROBE_RTT, REFILL, STARTUP, UP, AckHistory
from bbrgym.conformance.draft_case import DraftCase, DraftStatement, Known, statement
from bbrgym.conformance.setup import MSS_BYTES, CaseSetup, Stage, ahead, limited, outgrown, silent_from
from bbrgym.conformance.startup_cases import (
    INTERRUPTED,
    INTERRUPTS,
    PATHS,
    SHORT_PATH,
    end_s,
    is_long,
    moment_is_there,
    varied,
    wanted_pkts,
)

_V1 = "BBR v1 has no such phase: it cycles through eight gains"
_PLATEAU_ROUNDS = 3
_MARGIN = 0.99
_GAIN_TOLERANCE = 0.01
_FLOOR_PKTS = 4
_MANY_PKTS = tuple(one for one in PATHS if one.bdp_pkts >= 80)


_TRIES = 3  # stays in a phase that PROBE_RTT may end before the last one is judged


def _stay(history: AckHistory, rows: list[int]) -> tuple[int, int] | None:
    """Return begin and end of the first stay that PROBE_RTT does not end, among a few; else of the last of these."""
    for number, row in enumerate(rows[:_TRIES], 1):
        end = history.end_of(row)
        if end is not None and (int(history["phase"][end]) != PROBE_RTT or number == _TRIES):
            return row, end
    return None


def up_begins(history: AckHistory, _: CaseSetup) -> int | None:
    """Return the row with which the first UP begins."""
    return history.entry(UP)


def up_is_over(history: AckHistory, _: CaseSetup) -> int | None:
    """Return the row with which the first UP ends that PROBE_RTT does not."""
    found = _stay(history, history.entries(UP))
    return None if found is None else found[1]


def _uninterrupted(history: AckHistory, end: int) -> DraftStatement:
    """Return the statement that a stay was not ended by PROBE_RTT."""
    return statement(INTERRUPTS, int(history["phase"][end]) != PROBE_RTT, "", history.time_s(end))


# ---- UP -----------------------------------------------------------------------------------------------


def _check_up_plateau(history: AckHistory, _: CaseSetup) -> Iterator[DraftStatement]:
    found = _stay(history, history.entries(UP))
    yield moment_is_there("UP begins and ends", None if found is None else found[1], history)
    if found is None:
        return
    row, end = found
    yield _uninterrupted(history, end)
    if int(history["phase"][end]) == PROBE_RTT:
        return
    lost = int(history["lost_pkts"][row : end + 1].sum())
    yield statement("nothing is lost in UP", lost == 0, f"{lost} packets", history.time_s(end))
    count, now = int(history["full_bw_count"][end]), int(history["full_bw_now"][end])
    early = history.first(history["full_bw_now"][row:end] == 1)
    rounds = int(history["round_count"][end] - history["round_count"][row])
    yield statement(
        "UP ends when full_bw_count reaches 3 and full_bw_now becomes true",
        count == _PLATEAU_ROUNDS and now == 1 and early is None and rounds >= _PLATEAU_ROUNDS,
        f"count {count} after {rounds} rounds",
        history.time_s(end),
    )
    phase = int(history["phase"][end])
    yield statement("DOWN follows", phase == DOWN, f"phase {phase}", history.time_s(end))


UP_PLATEAU = DraftCase(
    number=5,
    name="up-plateau",
    title="Exiting PROBE_UP on Bandwidth Plateau",
    how="A bulk flow and a queue of four BDP, until the first UP is over that PROBE_RTT does not end.",
    conditions=PATHS,
    end=up_is_over,
    check=_check_up_plateau,
    not_for={"bbr": _V1, "bbr2": "BBRv2's UP ends when 1.25 BDP are in flight"},
    known=(Known(INTERRUPTS, INTERRUPTED, applies=is_long),),
)


def _up_is_limited(history: AckHistory, setup: CaseSetup) -> int | None:
    """Return the row from which on the application limits the UP in which the bottleneck outgrew it."""
    row = None if not setup.moments_s else history.first(history["time_us"] >= setup.moments_s[0] * 1e6)
    if row is None:
        return None
    return history.first((history["is_app_limited"] == 1) & history.is_in(UP), row)


def _lose_from_now(setup: CaseSetup, history: AckHistory, row: int) -> None:
    setup.change(history.time_s(row), loss_rate=min(0.3, max(0.1, 12 / setup.condition.bdp_pkts)))


UPDATES_HI = "inflight_longterm is updated, though the samples are application-limited"


def _goes_down(history: AckHistory, end: int, text: str = "DOWN follows") -> DraftStatement:
    """Return the statement that UP goes over to DOWN; the ACK that begins it may end it, if little is in flight."""
    phase = int(history["phase"][end])
    is_over = phase == CRUISE and history["prior_in_flight_pkts"][end] <= wanted_pkts(history, end)
    measured = f"phase {phase}" + (", DOWN ended with the same ACK" if is_over else "")
    return statement(text, phase == DOWN or bool(is_over), measured, history.time_s(end))


def _limited_up(history: AckHistory, setup: CaseSetup) -> tuple[int, int] | None:
    """Return begin and end of the UP that the application limited."""
    if len(setup.moments_s) < 2 or end_s(history) <= setup.moments_s[-1]:
        return None
    rows = [row for row in history.entries(UP) if history.time_s(row) <= setup.moments_s[-1]]
    end = history.end_of(rows[-1]) if rows else None
    return None if end is None else (rows[-1], end)


def _limited_up_is_over(history: AckHistory, setup: CaseSetup) -> int | None:
    found = _limited_up(history, setup)
    return None if found is None else found[1]


def _check_up_loss(history: AckHistory, setup: CaseSetup) -> Iterator[DraftStatement]:
    found = _limited_up(history, setup)
    yield moment_is_there("UP ends by loss", None if found is None else found[1], history)
    if found is None:
        return
    row, end = found
    yield _uninterrupted(history, end)
    if int(history["phase"][end]) == PROBE_RTT:
        return
    lossy_s = setup.moments_s[-1]
    at_s = history.time_s(end)
    yield statement("UP lasts until packets are lost", at_s >= lossy_s, f"loss from {lossy_s:.6g} s", at_s)
    yield _goes_down(history, end)
    marked = int(history["lost_pkts"][row : end + 1].sum())
    lossy = history.first(history["time_us"] >= lossy_s * 1e6) or row
    yield statement(
        "the sender marked packets lost, from three rounds ago on at most",
        marked > 0 and int(history["round_count"][end] - history["round_count"][lossy]) <= 3,
        f"{marked} packets, {at_s - lossy_s:.3g} s after the first could be",
        at_s,
    )
    yield statement(
        "the samples are application-limited",
        bool(history["is_app_limited"][end]),
        f"{int(history['is_app_limited'][row : end + 1].sum())} of {end + 1 - row} ACKs of UP",
        at_s,
    )
    before, after = int(history["inflight_hi_pkts"][end - 1]), int(history["inflight_hi_pkts"][end])
    yield statement(UPDATES_HI, before != after, f"{_bound(before)} before, {_bound(after)} after", at_s)


def _bound(pkts: int) -> str:
    return "none" if pkts < 0 else f"{pkts}"


UP_LOSS = DraftCase(
    number=6,
    name="up-loss-limited",
    title="Exiting PROBE_UP on Loss When Application-Limited",
    how=(
        "An application is 5 % ahead of the bottleneck, whose rate doubles when UP begins; packets are lost at random "
        "from the first application-limited sample of this UP."
    ),
    conditions=_MANY_PKTS,
    begin=ahead,
    stages=(
        Stage("UP begins", up_begins, outgrown),
        Stage("the application limits UP", _up_is_limited, _lose_from_now),
    ),
    end=_limited_up_is_over,
    check=_check_up_loss,
    not_for={"bbr": _V1},
    known=(
        Known(
            UPDATES_HI,
            "The draft's HandleInflightTooHigh() leaves inflight_longterm as it is where RS.is_app_limited holds; the "
            "case's last step contradicts it.",
        ),
        Known(INTERRUPTS, INTERRUPTED, applies=is_long),
    ),
)


def _leave(setup: CaseSetup, history: AckHistory, row: int) -> None:
    """Change nothing."""


LIMITS = "nothing is lost and most samples are application-limited"
STAYS = "the sender stays where it is"


def _long_after(history: AckHistory, setup: CaseSetup) -> int | None:
    begun_us = setup.moments_s[-1] * 1e6 if setup.moments_s else 0.0
    left = ~history.is_in(UP if setup.moments_s else STARTUP) & (history["time_us"] > begun_us)
    late = history["time_us"] > begun_us + 8e6 + 20e6 * setup.condition.turn_s
    return history.first(left | late)


def _check_stays(history: AckHistory, _: CaseSetup, phase: int, row: int) -> Iterator[DraftStatement]:
    left = history.first(history["phase"] != phase, row)
    to = None if left is None else int(history["phase"][left])
    limited_share = float(history["is_app_limited"][row:left].mean())
    yield statement(
        LIMITS,
        int(history["lost_pkts"][row:left].sum()) == 0 and limited_share > 0.5,
        f"{100 * limited_share:.0f} % of the ACKs",
        history.time_s(row),
    )
    at_s = end_s(history) if left is None else history.time_s(left)
    yield statement(
        "it leaves for PROBE_RTT at most", to in (None, PROBE_RTT), "" if to is None else f"phase {to}", at_s
    )
    yield statement(STAYS, left is None, f"for {at_s - history.time_s(row):.3g} s", at_s)


def _check_never(history: AckHistory, setup: CaseSetup) -> Iterator[DraftStatement]:
    if not setup.moments_s:
        begun = history.first(history["is_app_limited"] == 1) or 0
        yield from _check_stays(history, setup, STARTUP, begun)
        return
    row = history.entry(UP)
    yield moment_is_there("UP begins", row, history)
    if row is not None:
        limits = history.first(history["time_us"] >= setup.moments_s[-1] * 1e6) or row
        yield from _check_stays(history, setup, UP, limits)


_INDEFINITELY = (
    "PROBE_RTT is due five seconds after the last smaller RTT, in UP and STARTUP too: an application-limited flow that "
    "does not fall idle has no smaller one. After PROBE_RTT STARTUP goes on, UP does not: DOWN and CRUISE follow."
)

STARTUP_LIMITED = DraftCase(
    number=7,
    name="never-exiting-startup",
    title="Never Exiting PROBE_UP (or STARTUP) When Application-Limited With No Loss",
    how="STARTUP: an application writes 0.3 of what the bottleneck carries.",
    conditions=tuple(one for one in PATHS if one.rate_mbps <= 1000),
    begin=limited,
    end=_long_after,
    check=_check_never,
    lasts=lambda condition: 9.0 + 25 * condition.turn_s,
    known=(Known(STAYS, _INDEFINITELY), Known(LIMITS, INTERRUPTED, applies=is_long)),
)

UP_LIMITED = DraftCase(
    number=7,
    name="never-exiting-up",
    title="Never Exiting PROBE_UP (or STARTUP) When Application-Limited With No Loss",
    how="UP: an application is 5 % ahead of the bottleneck, whose rate doubles when UP begins.",
    conditions=tuple(one for one in _MANY_PKTS if one.rate_mbps <= 1000),
    begin=ahead,
    stages=(Stage("UP begins", up_begins, outgrown), Stage("the application limits UP", _up_is_limited, _leave)),
    end=_long_after,
    check=_check_never,
    not_for={"bbr": _V1},
    known=(Known(STAYS, _INDEFINITELY),),
)

# ---- DOWN -----------------------------------------------------------------------------------------------


def _downs(history: AckHistory) -> list[int]:
    """Return the rows with which UP goes over to DOWN."""
    return [row for row in history.entries(DOWN) if int(history["phase"][row - 1]) == UP]


def down_begins(history: AckHistory, _: CaseSetup) -> int | None:
    """Return the row with which the first UP goes over to DOWN."""
    return next(iter(_downs(history)), None)


def _down_is_over(history: AckHistory, setup: CaseSetup) -> int | None:
    found = _down(history, setup)
    return None if found is None else found[1]


def _down(history: AckHistory, setup: CaseSetup) -> tuple[int, int] | None:
    """Return begin and end of the DOWN that is judged: of a staged one the first, as PROBE_RTT ends it or not."""
    rows = _downs(history)
    if setup.moments_s:
        end = history.end_of(rows[0]) if rows else None
        return None if end is None else (rows[0], end)
    return _stay(history, rows)


def _headroom_pkts(setup: CaseSetup, hi_pkts: int) -> float:
    if hi_pkts < 0:
        return math.inf
    room = max(math.floor(setup.sender.constant("headroom") * hi_pkts), 1)
    return max(hi_pkts - room, _FLOOR_PKTS)


DOWN_BEGINS = "DOWN begins"
DOWN_ENDS = "DOWN follows UP and ends"
GAIN_OF_DRAFT = "the pacing gain of DOWN is 0.90"


def _check_down(history: AckHistory, setup: CaseSetup) -> Iterator[DraftStatement]:
    found = _down(history, setup)
    yield moment_is_there(DOWN_ENDS, None if found is None else found[1], history)
    if found is None:
        return
    row, end = found
    yield _uninterrupted(history, end)
    if int(history["phase"][end]) == PROBE_RTT:
        return
    inside = slice(row, end)
    own = setup.sender.constant("down_gain")
    bw = np.minimum(history["bw_Bps"][inside], history["bw_lo_Bps"][inside]).astype(float)
    gains = history["pacing_Bps"][inside] / (_MARGIN * bw)
    worst = int(abs(gains / own - 1).argmax())
    yield statement(
        "the pacing gain is DOWN's",
        abs(gains[worst] / own - 1) <= _GAIN_TOLERANCE,
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
    not_for={"bbr": _V1},
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


def _check_down_time(history: AckHistory, setup: CaseSetup) -> Iterator[DraftStatement]:
    found = _down(history, setup)
    yield moment_is_there(DOWN_ENDS, None if found is None else found[1], history)
    if found is None:
        return
    row, end = found
    yield _uninterrupted(history, end)
    if int(history["phase"][end]) == PROBE_RTT:
        return
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
    not_for={"bbr": _V1},
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

# ---- loss in UP -------------------------------------------------------------------------------------------


def lose_in_startup(setup: CaseSetup) -> None:
    """Lose packets from the beginning, so that STARTUP ends with a bound of what may be in flight."""
    rate = min(0.2, max(0.05, 12 / setup.condition.bdp_pkts))
    setup.link["loss"] = {"kind": "bernoulli", "rate": rate}


def startup_ends(history: AckHistory, _: CaseSetup) -> int | None:
    """Return the row with which STARTUP ends first."""
    return history.first(~history.is_in(STARTUP))


def stop_losing(setup: CaseSetup, history: AckHistory, row: int) -> None:
    """Lose nothing more."""
    setup.change(history.time_s(row), loss_rate=0.0)


def _bounded_up(history: AckHistory) -> int | None:
    """Return the row with which the first UP that has a bound begins."""
    return next((row for row in history.entries(UP) if history["inflight_hi_pkts"][row] >= 0), None)


def _bounded_up_begins(history: AckHistory, _: CaseSetup) -> int | None:
    return _bounded_up(history)


def _lose_a_tenth(setup: CaseSetup, history: AckHistory, row: int) -> None:
    setup.change(history.time_s(row), loss_rate=min(0.3, max(0.1, 12 / setup.condition.bdp_pkts)))


def _bounded_up_is_over(history: AckHistory, _: CaseSetup) -> int | None:
    row = _bounded_up(history)
    return None if row is None else history.end_of(row)


def _check_bounded_loss(history: AckHistory, setup: CaseSetup) -> Iterator[DraftStatement]:
    row = _bounded_up(history)
    yield moment_is_there("UP begins with inflight_longterm set", row, history)
    if row is None:
        return
    end = history.end_of(row)
    yield moment_is_there("UP ends", end, history)
    if end is None:
        return
    yield _uninterrupted(history, end)
    if int(history["phase"][end]) == PROBE_RTT:
        return
    at_s = history.time_s(end)
    marked = np.flatnonzero(history["lost_pkts"][row : end + 1])
    yield statement("packets are lost in UP", len(marked) > 0, f"{len(marked)} ACKs told of losses", at_s)
    yield _goes_down(history, end, "DOWN follows at once")
    yield statement("the plateau did not end UP", int(history["full_bw_now"][end]) == 0, "full_bw_now is false", at_s)
    before, after = int(history["inflight_hi_pkts"][end - 1]), int(history["inflight_hi_pkts"][end])
    least = (1 - setup.sender.constant("beta")) * min(
        int(history["target_pkts"][end - 1]), int(history["cwnd_pkts"][end - 1])
    )
    columns = ("tx_in_flight_pkts", "prior_in_flight_pkts")  # the first of packets that arrived only
    most = max(int(history[name][row : end + 1].max()) for name in columns)
    yield statement(
        "inflight_longterm is what was in flight when too much was lost, 0.7 of the target at least",
        after < before + 1 and math.floor(least) <= after <= max(most, math.ceil(least)),
        f"{before} before, {after} after; 0.7 of the target is {least:.1f}, in flight were up to {most}",
        at_s,
    )


UP_BOUNDED_LOSS = DraftCase(
    number=21,
    name="up-loss-bounded",
    title="Handling Loss During PROBE_UP After inflight_longterm is Set",
    how="Random loss until STARTUP is over, which sets inflight_longterm, and again from UP's begin.",
    conditions=_MANY_PKTS,
    begin=lose_in_startup,
    stages=(
        Stage("STARTUP ends", startup_ends, stop_losing),
        Stage("UP begins", _bounded_up_begins, _lose_a_tenth),
    ),
    end=_bounded_up_is_over,
    check=_check_bounded_loss,
    not_for={"bbr": _V1},
    known=(Known(INTERRUPTS, INTERRUPTED, applies=is_long),),
)

# ---- REFILL -----------------------------------------------------------------------------------------------


_PAUSED_TURNS = 3  # round trips that REFILL lasts at most, with the pause


def _refill_begins(history: AckHistory, setup: CaseSetup) -> int | None:
    """Return the begin of the first REFILL that ends before PROBE_RTT is due, among a few; else of the last."""
    for number, row in enumerate(history.entries(REFILL)[:_TRIES], 1):
        age_s = history.time_s(row) - float(history["probe_rtt_min_stamp_us"][row]) / 1e6
        is_in_time = age_s + _PAUSED_TURNS * setup.condition.turn_s < setup.sender.probe_rtt_interval_s
        if is_in_time or number == _TRIES:
            return row
    return None


def _paused_refill(history: AckHistory, setup: CaseSetup) -> int | None:
    """Return the first row of the REFILL in which the application stopped."""
    return next((row for row in history.entries(REFILL) if history.time_s(row) >= setup.moments_s[-1]), None)


def _pause_in_refill(setup: CaseSetup, history: AckHistory, row: int) -> None:
    at_s = history.time_s(row)
    silent_from(setup, history, row, at_s + 1.5 * setup.condition.turn_s)


def _probe_is_over(history: AckHistory, setup: CaseSetup) -> int | None:
    row = _paused_refill(history, setup)
    up = None if row is None else history.entry(UP, after=row)
    return None if up is None else history.end_of(up)


def _check_refill(history: AckHistory, setup: CaseSetup) -> Iterator[DraftStatement]:
    row = _paused_refill(history, setup)
    yield moment_is_there("REFILL begins", row, history)
    if row is None:
        return
    up = history.end_of(row)
    yield moment_is_there("REFILL ends", up, history)
    if up is None:
        return
    inside = slice(row, up + 1)
    limited_acks = history["is_app_limited"][inside] == 1
    yield statement(
        "samples of REFILL are application-limited",
        bool(limited_acks.any()),
        f"{int(limited_acks.sum())} of {up + 1 - row} ACKs",
        history.time_s(up),
    )
    bw = history["bw_Bps"][inside]
    changed = history.first(bw != bw[0])
    low = limited_acks & (history.sample_mbps(MSS_BYTES)[inside] < history.mbps("bw_Bps")[inside])
    changed_by_low = changed is not None and bool(low[changed])
    yield statement(
        "application-limited samples below max_bw leave it as it is",
        not changed_by_low,
        f"max_bw {float(bw[0]) * 8e-6:.4g} Mbit/s, then {float(bw[-1]) * 8e-6:.4g}",
        history.time_s(row + (changed or 0)),
    )
    phase = int(history["phase"][up])
    yield statement("UP follows", phase == UP, f"phase {phase}", history.time_s(up))
    if phase != UP:
        return
    end = history.end_of(up)
    yield moment_is_there("UP ends", end, history)
    if end is None:
        return
    yield _uninterrupted(history, end)
    if int(history["phase"][end]) != PROBE_RTT:
        yield _goes_down(history, end, "DOWN follows UP")


REFILL_LIMITED = DraftCase(
    number=22,
    name="refill-limited",
    title="Handling Application-Limited Sending During PROBE_REFILL",
    how="The application stops when REFILL begins and goes on one and a half round trips later.",
    conditions=tuple(one for one in PATHS if one.bdp_pkts >= 20),
    begin=ahead,
    stages=(Stage("REFILL begins", _refill_begins, _pause_in_refill),),
    end=_probe_is_over,
    check=_check_refill,
    not_for={"bbr": _V1},
    known=(Known(INTERRUPTS, INTERRUPTED, applies=lambda one: one.turn_s >= 0.1),),
)
