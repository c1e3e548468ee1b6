# SPDX-License-Identifier: GPL-2.0-only
"""The draft's cases of STARTUP and DRAIN."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from bbrgym.conformance.ack_history import DRAIN, PROBE_RTT, RECOVERY, STARTUP, AckHistory
from bbrgym.conformance.draft_case import DraftCase, DraftStatement, Known, statement
from bbrgym.conformance.setup import MSS_BYTES, CaseSetup, Condition, Stage, limited

PATHS = (
    Condition(1.0, 10_000.0),
    Condition(1.0, 100.0),
    Condition(10.0, 1000.0),
    Condition(40.0, 10.0),
    Condition(100.0, 100.0),
    Condition(200.0, 1.0),
    Condition(1000.0, 10.0),
    Condition(1000.0, 0.064),
)
"""From 1 ms to 1 s and from 64 kbit/s to 10 Gbit/s."""

_GROWTH = 1.25
_PLATEAU_ROUNDS = 3
_BANDWIDTH_TOLERANCE = 0.02
_GAIN_TOLERANCE = 0.01
_MARGIN = 0.99  # of the bandwidth, which pacing keeps to
_DRAIN_ROUNDS = 3

DRAINS = "STARTUP goes over to DRAIN"
BANDWIDTH_IS_FOUND = "max_bw is within 2 % of the bottleneck's rate"


def left_startup(history: AckHistory, _: CaseSetup) -> int | None:
    """Return the row with which STARTUP ends, but for stays in PROBE_RTT between."""
    return history.first(~history.is_in(STARTUP, PROBE_RTT))


def drain_begins(history: AckHistory, setup: CaseSetup) -> int | None:
    """Return the row with which DRAIN begins; one ACK may end it as well."""
    return left_startup(history, setup)


def drain_is_over(history: AckHistory, setup: CaseSetup) -> int | None:
    """Return the row with which DRAIN ends."""
    row = left_startup(history, setup)
    return None if row is None else history.first(~history.is_in(DRAIN), row)


PROBE_RTT_BEGINS = "PROBE_RTT begins"

RENEWED = (
    "In BBRv2 an RTT equal to the smallest renews its age, so that a flow which sees no queue does not enter PROBE_RTT."
)

INTERRUPTS = "PROBE_RTT does not come between"

INTERRUPTED = (
    "PROBE_RTT is due five seconds after the last smaller RTT in every state. With a round trip of a second those are "
    "five rounds, fewer than STARTUP or a probe takes; with 0.2 s what the queue adds may suffice."
)


SHORT_PATH = (
    "On a short path the bursts that Inflight(1.0) provides for are larger than what was in flight, so that the ACK "
    "that begins the phase ends it."
)


def is_long(condition: Condition) -> bool:
    """Return whether PROBE_RTT comes between on such a path."""
    return condition.turn_s >= 0.2


def end_s(history: AckHistory) -> float:
    """Return the time of the last row, 0 without one."""
    return history.time_s(len(history) - 1) if len(history) else 0.0


def moment_is_there(text: str, row: int | None, history: AckHistory) -> DraftStatement:
    """Return the statement that a row was found."""
    if row is None:
        return DraftStatement(text, f"not within {end_s(history):.3g} s", end_s(history))
    return DraftStatement(text, f"at {history.time_s(row):.6g} s")


def wanted_pkts(history: AckHistory, row: int) -> int:
    """Return Inflight(1.0) as an ACK's decisions see it, with bursts of the pacing rate before the ACK or after it."""
    return int(history["target_pkts"][max(0, row - 1) : row + 1].max())


def _drains(history: AckHistory, row: int) -> DraftStatement:
    """Return the statement that DRAIN follows; the ACK that begins it may end it, if little is in flight."""
    phase = int(history["phase"][row])
    is_over = phase >= 8 and history["in_flight_pkts"][row] <= wanted_pkts(history, row)
    measured = f"phase {phase}" + (", DRAIN ended with the same ACK" if is_over else "")
    return statement(DRAINS, phase == DRAIN or bool(is_over), measured, history.time_s(row))


# ---- exits of STARTUP -------------------------------------------------------------------------------------


def _plateau_row(history: AckHistory, *, at_round_starts_only: bool) -> int | None:
    """Return the row at which three rounds without growth by a quarter are over, by the samples alone."""
    samples, starts = history.sample_mbps(MSS_BYTES), history.round_starts()
    full_mbps, rounds = 0.0, 0
    for row in range(len(history)):
        if history["is_app_limited"][row] or (at_round_starts_only and not starts[row]):
            continue
        if samples[row] >= _GROWTH * full_mbps:
            full_mbps, rounds = samples[row], 0
        elif starts[row]:
            rounds += 1
            if rounds == _PLATEAU_ROUNDS:
                return row
    return None


def _check_plateau(history: AckHistory, setup: CaseSetup) -> Iterator[DraftStatement]:
    row = left_startup(history, setup)
    yield moment_is_there("STARTUP ends", row, history)
    if row is None:
        return
    yield _drains(history, row)
    bw_mbps, rate_mbps = history.mbps("bw_Bps")[row], setup.condition.payload_mbps
    off = bw_mbps / rate_mbps - 1
    yield statement(
        BANDWIDTH_IS_FOUND, abs(off) <= _BANDWIDTH_TOLERANCE, f"max_bw {100 * off:+.2f} %", history.time_s(row)
    )
    count, reached = int(history["full_bw_count"][row]), int(history["full_bw_reached"][row])
    now = int(history["full_bw_now"][row])
    is_full = count == _PLATEAU_ROUNDS and reached == 1 and (now == 1 or setup.sender.cc != "bbr3")
    is_early = bool((history["full_bw_reached"][:row] == 1).any())
    yield statement(
        "full_bw_count is 3 when full_bw_now and full_bw_reached become true",
        is_full and not is_early,
        f"count {count}",
        history.time_s(row),
    )
    if setup.sender.cc != "bbr3":
        return
    found = _plateau_row(history.ending_at(row), at_round_starts_only=setup.sender.is_draft)
    yield statement(
        "the samples have grown by less than a quarter in three rounds at this ACK",
        found == row,
        f"STARTUP took {int(history['round_count'][row])} rounds",
        history.time_s(row if found is None else found),
    )


STARTUP_PLATEAU = DraftCase(
    number=1,
    name="startup-plateau",
    title="Exiting STARTUP on Bandwidth Plateau",
    how="A bulk flow and a queue of four BDP. The plateau is judged anew from the delivery-rate samples.",
    conditions=PATHS,
    end=left_startup,
    check=_check_plateau,
    known=(
        Known(
            BANDWIDTH_IS_FOUND,
            "A packet takes 186 ms here, and Linux doubles the delay of an ACK each time it is over before a second "
            "packet came: 43, 81 and 163 ms. A sample that begins with such an ACK and ends with one in time is too "
            "short by that: 20 packets in 3.639 s in place of 3.72 s.",
            applies=lambda one: one.rate_mbps == 0.064,
        ),
    ),
)

# ---- loss -------------------------------------------------------------------------------------------------

_LIMITED_ROUNDS = 4  # of an application that limits STARTUP, before the loss
_LOSSY_ROUNDS = 20  # that the loss may take to end STARTUP


def _is_limited(history: AckHistory, setup: CaseSetup) -> int | None:
    """Return the row from which on the application has limited STARTUP for long enough."""
    limits = (history["is_app_limited"] == 1) & history.is_in(STARTUP)
    begun_us = np.maximum.accumulate(np.where(limits, 0, history["time_us"]))
    return history.first(limits & (history["time_us"] > begun_us + _LIMITED_ROUNDS * 1e6 * setup.condition.turn_s))


def _lose_packets(setup: CaseSetup, history: AckHistory, row: int) -> None:
    """Lose enough for twelve gaps in a round, a tenth of the packets at least."""
    round_pkts = setup.condition.bdp_pkts / 3
    setup.change(history.time_s(row), loss_rate=min(0.3, max(0.1, 12 / round_pkts)))


def _lossy_end(history: AckHistory, setup: CaseSetup) -> int | None:
    if not setup.moments_s:
        return None
    begun = history.first(history["time_us"] > setup.moments_s[-1] * 1e6)
    ended = left_startup(history, setup)
    if ended is not None or begun is None:
        return ended
    return history.first(history["round_count"] > history["round_count"][begun] + _LOSSY_ROUNDS)


SETS_NOW = "the loss sets full_bw_now and full_bw_reached"


def _check_startup_loss(history: AckHistory, setup: CaseSetup) -> Iterator[DraftStatement]:
    lossy_s = setup.moments_s[-1]
    row = left_startup(history, setup)
    is_after = row is not None and history.time_s(row) > lossy_s
    yield statement(
        "STARTUP lasts until packets are lost",
        row is None or is_after,
        f"loss from {lossy_s:.3g} s",
        lossy_s if row is None else history.time_s(row),
    )
    yield moment_is_there("STARTUP ends by loss", row, history)
    if row is None or not is_after:
        return
    yield _drains(history, row)
    ahead_us = (lossy_s - _LIMITED_ROUNDS / 2 * setup.condition.turn_s) * 1e6
    ahead = (history["time_us"] > ahead_us) & (history["time_us"] <= lossy_s * 1e6)
    limited_share = float(history["is_app_limited"][ahead].mean())
    yield statement(
        "the samples before the loss are application-limited",
        limited_share > 0.9,
        f"{100 * limited_share:.0f} % of the ACKs",
        lossy_s,
    )
    lost, out = int(history["lost_since_pkts"][row]), int(history["tx_in_flight_pkts"][row])
    yield statement(
        "the loss of a round trip exceeds LossThresh, in recovery",
        lost > setup.sender.constant("loss_thresh") * out and int(history["ca_state"][row]) == RECOVERY,
        f"{lost} of {out} packets lost",
        history.time_s(row),
    )
    flags = int(history["full_bw_now"][row]), int(history["full_bw_reached"][row])
    yield statement(
        SETS_NOW, flags == (1, 1), f"full_bw_now {flags[0]}, full_bw_reached {flags[1]}", history.time_s(row)
    )


STARTUP_LOSS = DraftCase(
    number=2,
    name="startup-loss-limited",
    title="Exiting STARTUP on Loss When Application-Limited",
    how=(
        "An application writes 0.3 of what the bottleneck carries; four round trips later packets are lost at "
        "random, a tenth or enough for twelve gaps in a round."
    ),
    conditions=tuple(one for one in PATHS if one.bdp_pkts >= 80),
    begin=limited,
    stages=(Stage("the application limits STARTUP", _is_limited, _lose_packets),),
    end=_lossy_end,
    check=_check_startup_loss,
    not_for={"bbr": "BBR v1 leaves STARTUP by a plateau only"},
    known=(
        Known(
            SETS_NOW,
            "The draft's section on leaving Startup by loss sets full_bw_reached only, as google/bbr does; full_bw_now "
            "belongs to the plateau's detector, and nothing reads it before the next UP resets it.",
        ),
    ),
)

# ---- DRAIN ------------------------------------------------------------------------------------------------

GAIN_OF_DRAFT = "the pacing gain of DRAIN is 0.5"
BY_INFLIGHT = "DRAIN ends at the first ACK with no more than Inflight(1.0) in flight"


def _in_flight(history: AckHistory, setup: CaseSetup, column: str) -> list[float]:
    """Return what is in flight as the sender's rules count it: now, or when the next packet departs."""
    if setup.sender.is_draft:
        return [float(pkts) for pkts in history[column]]
    return [float(pkts) for pkts in history.departing_pkts(column, MSS_BYTES)]


def _check_drain_gain(history: AckHistory, setup: CaseSetup, row: int, end: int) -> Iterator[DraftStatement]:
    inside = slice(row, end)
    gains = history["pacing_Bps"][inside] / (_MARGIN * history["bw_Bps"][inside].astype(float))
    own = setup.sender.drain_gain
    worst = int(abs(gains / own - 1).argmax())
    yield statement(
        "the pacing gain is DRAIN's",
        abs(gains[worst] / own - 1) <= _GAIN_TOLERANCE,
        f"gain {gains[worst]:.4f}",
        history.time_s(row + worst),
    )
    yield statement(GAIN_OF_DRAFT, abs(own - 0.5) < 1e-9, f"its own is {own:.4f}", history.time_s(row))


def _drain(history: AckHistory, setup: CaseSetup) -> tuple[int, int] | None:
    """Return the rows with which DRAIN begins and ends."""
    row = left_startup(history, setup)
    end = drain_is_over(history, setup)
    return None if row is None or end is None else (row, end)


def _ends(history: AckHistory, end: int) -> Iterator[DraftStatement]:
    """Yield the statements on the state that follows DRAIN."""
    phase = int(history["phase"][end])
    yield statement(INTERRUPTS, phase != PROBE_RTT, "", history.time_s(end))
    if phase != PROBE_RTT:
        yield statement("PROBE_BW follows", phase >= 8, f"phase {phase}", history.time_s(end))


def _check_drain(history: AckHistory, setup: CaseSetup) -> Iterator[DraftStatement]:
    found = _drain(history, setup)
    yield moment_is_there("DRAIN begins and ends", None if found is None else found[1], history)
    if found is None:
        return
    row, end = found
    yield from _ends(history, end)
    if int(history["phase"][end]) == PROBE_RTT:
        return
    if end > row:
        yield from _check_drain_gain(history, setup, row, end)
    out, target = _in_flight(history, setup, "in_flight_pkts"), history["target_pkts"]
    early = next((at for at in range(row, end) if out[at] <= min(target[at - 1], target[at])), None)
    below = out[end] <= wanted_pkts(history, end)
    rounds = int(history["round_count"][end] - history["round_count"][row])
    yield statement(
        BY_INFLIGHT,
        below and early is None,
        f"{out[end]:.0f} in flight, {wanted_pkts(history, end)} wanted, after {rounds} rounds",
        history.time_s(end if early is None else early),
    )


DRAIN_INFLIGHT = DraftCase(
    number=3,
    name="drain-inflight",
    title="Exiting DRAIN Based on Inflight",
    how="A bulk flow and a queue of four BDP, until DRAIN is over.",
    conditions=PATHS,
    end=drain_is_over,
    check=_check_drain,
    known=(
        Known(GAIN_OF_DRAFT, "google/bbr paces with 88/256 in DRAIN, BBRv1 and v2 with 1/2.89.", ("code",)),
        Known(INTERRUPTS, INTERRUPTED, applies=is_long),
    ),
)

BY_TIME = "DRAIN ends after more than three rounds with more than Inflight(1.0) in flight"


def _slow_down(setup: CaseSetup, history: AckHistory, row: int) -> None:
    part = 1 + _amount(setup.condition) / 100
    setup.change(history.time_s(row), rate_mbps=part * setup.condition.rate_mbps)


def _amount(condition: Condition) -> float:
    return condition.amount


def _check_drain_time(history: AckHistory, setup: CaseSetup) -> Iterator[DraftStatement]:
    found = _drain(history, setup)
    yield moment_is_there("DRAIN begins and ends", None if found is None else found[1], history)
    if found is None:
        return
    row, end = found
    yield from _ends(history, end)
    if int(history["phase"][end]) == PROBE_RTT:
        return
    rounds = int(history["round_count"][end] - history["round_count"][row])
    out, target = int(history["in_flight_pkts"][end]), wanted_pkts(history, end)
    yield statement(
        "DRAIN lasts no longer than to the fourth round after its own",
        rounds <= _DRAIN_ROUNDS + 1,
        f"{rounds} rounds",
        history.time_s(end),
    )
    yield statement(
        BY_TIME,
        rounds == _DRAIN_ROUNDS + 1 and out > target,
        f"after {rounds} rounds, {out} in flight, {target} wanted",
        history.time_s(end),
    )


def varied(paths: tuple[Condition, ...], *variations: tuple[str, float]) -> tuple[Condition, ...]:
    """Return the conditions with each variation."""
    return tuple(Condition(one.rtt_ms, one.rate_mbps, text, amount) for text, amount in variations for one in paths)


DRAIN_TIME = DraftCase(
    number=4,
    name="drain-time",
    title="Exiting DRAIN Based on Time",
    how="As drain-inflight; the rate falls by a tenth, as the draft says, or by 70 % when DRAIN begins.",
    conditions=varied(PATHS, ("-10 %", -10.0), ("-70 %", -70.0)),
    stages=(Stage("DRAIN begins", drain_begins, _slow_down),),
    end=drain_is_over,
    check=_check_drain_time,
    not_for={
        "bbr": "BBR v1 leaves DRAIN by what is in flight only",
        "bbr2": "BBRv2 leaves DRAIN by what is in flight only",
        "bbr3/code": "google/bbr leaves DRAIN by what is in flight only; the draft's rule is bbr3_drain_rounds",
    },
    known=(
        Known(
            BY_TIME,
            "A fall by a tenth does not suffice: with a pacing gain of 0.5 against 0.9 of the rate what STARTUP left, "
            "a BDP beside the target, is drained within three rounds, which the queue lengthens.",
            applies=lambda condition: condition.amount == -10.0,
        ),
        Known(
            BY_TIME,
            SHORT_PATH,
            applies=lambda condition: condition.amount != -10.0 and condition.bdp_pkts < 20,
        ),
        Known(INTERRUPTS, INTERRUPTED, applies=is_long),
    ),
)

# ---- PROBE_RTT in STARTUP -----------------------------------------------------------------------------------


def _back_in_startup(history: AckHistory, _: CaseSetup) -> int | None:
    row = history.entry(PROBE_RTT)
    end = None if row is None else history.end_of(row)
    if end is None:
        return None
    return history.first(history["round_count"] > history["round_count"][end] + 5)


def _check_probe_rtt_in_startup(history: AckHistory, _: CaseSetup) -> Iterator[DraftStatement]:
    row = history.first(history.is_in(PROBE_RTT))
    yield moment_is_there(PROBE_RTT_BEGINS, row, history)
    if row is None:
        return
    before = history["phase"][:row]
    yield statement("it begins in STARTUP", bool((before == STARTUP).all()), "", history.time_s(row))
    end = history.end_of(row)
    yield moment_is_there("PROBE_RTT ends", end, history)
    if end is None:
        return
    phase, reached = int(history["phase"][end]), int(history["full_bw_reached"][end])
    yield statement(
        "STARTUP follows, full_bw_reached being false",
        phase == STARTUP and reached == 0,
        f"phase {phase}, PROBE_RTT lasted {history.time_s(end) - history.time_s(row):.3g} s",
        history.time_s(end),
    )
    left = history.first(~history.is_in(STARTUP), end)
    rounds = int(history["round_count"][-1 if left is None else left] - history["round_count"][end])
    yield statement(
        "STARTUP goes on for a round at least",
        rounds >= 1,
        "" if left is None else f"for {rounds} rounds, the application's backlog being sent",
        end_s(history) if left is None else history.time_s(left),
    )


PROBE_RTT_IN_STARTUP = DraftCase(
    number=20,
    name="probe-rtt-startup",
    title="Entering and Exiting PROBE_RTT During STARTUP",
    how="An application writes 0.3 of what the bottleneck carries, which keeps the sender in STARTUP.",
    conditions=tuple(one for one in PATHS if one.rate_mbps <= 1000),
    begin=limited,
    end=_back_in_startup,
    check=_check_probe_rtt_in_startup,
    known=(Known(PROBE_RTT_BEGINS, RENEWED, controls=("bbr2",)),),
    lasts=lambda condition: 14.0 + 40 * condition.turn_s,
)

# ---- aggregation ------------------------------------------------------------------------------------------

_DOUBLING_ROUNDS = 4  # beside the binary logarithm of the BDP


DOUBLES = "the rate doubles, so that 90 % of it are found in log2(BDP / 10) + 4 rounds"


def aggregating(setup: CaseSetup) -> None:
    """Let ACKs leave in slots of half a round trip, as a radio's schedule would."""
    setup.link["acks"] = {"kind": "slots", "every_ms": max(1e-3, setup.condition.rtt_ms / 2)}


def _check_startup_aggregation(history: AckHistory, setup: CaseSetup) -> Iterator[DraftStatement]:
    row = left_startup(history, setup)
    yield moment_is_there("STARTUP ends", row, history)
    if row is None:
        return
    extra = int(history["extra_acked_pkts"][: row + 1].max())
    yield statement("extra_acked is above 0", extra > 0, f"{extra} packets", history.time_s(row))
    cwnd = int(history["cwnd_pkts"][: row + 1].max())
    bdp = setup.condition.bdp_pkts
    yield statement(
        "cwnd exceeds 2 BDP", cwnd > 2 * bdp, f"cwnd {cwnd}, 2 BDP {2 * bdp:.1f} packets", history.time_s(row)
    )
    off = history.mbps("bw_Bps")[row] / setup.condition.payload_mbps - 1
    yield statement(
        "max_bw reaches the bottleneck's rate, less 2 %",
        off >= -_BANDWIDTH_TOLERANCE,
        f"max_bw {100 * off:+.2f} %",
        history.time_s(row),
    )
    found = history.first(history.mbps("bw_Bps") >= 0.9 * setup.condition.payload_mbps)
    rounds = int(history["round_count"][row if found is None else found])
    most = _DOUBLING_ROUNDS + math.ceil(math.log2(max(1.0, bdp / 10)))
    yield statement(
        DOUBLES,
        found is not None and rounds <= most,
        f"{rounds} rounds of {most}",
        history.time_s(row),
    )


STARTUP_AGGREGATION = DraftCase(
    number=12,
    name="startup-aggregation",
    title="Achieving Expected STARTUP Bandwidth on a Link With Aggregation",
    how="A bulk flow whose ACKs leave the receiver in slots of half a round trip.",
    conditions=tuple(one for one in PATHS if one.bdp_pkts >= 20),
    begin=aggregating,
    bursts_of_acks=True,
    end=left_startup,
    check=_check_startup_aggregation,
    known=(Known(DOUBLES, INTERRUPTED, applies=is_long),),
)
