# SPDX-License-Identifier: GPL-2.0-only
"""The draft's cases of what ends STARTUP."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bbrgym.conformance.ack_history import DRAIN, RECOVERY, STARTUP, AckHistory
from bbrgym.conformance.draft_case import DraftCase, DraftStatement, Known, statement
from bbrgym.conformance.moments import left_startup, moment_is_there, wanted_pkts
from bbrgym.conformance.paths import PATHS
from bbrgym.conformance.setup import MSS_BYTES, CaseSetup, Stage, limited
from bbrgym.conformance.tolerances import BANDWIDTH_TOLERANCE, PLATEAU_ROUNDS

_GROWTH = 1.25
DRAINS = "STARTUP goes over to DRAIN"
BANDWIDTH_IS_FOUND = "max_bw is within 2 % of the bottleneck's rate"


def _drains(history: AckHistory, row: int) -> DraftStatement:
    """Return the statement that DRAIN follows; the ACK that begins it may end it, if little is in flight."""
    phase = int(history["phase"][row])
    is_over = phase >= 8 and history["in_flight_pkts"][row] <= wanted_pkts(history, row)
    measured = f"phase {phase}" + (", DRAIN ended with the same ACK" if is_over else "")
    return statement(DRAINS, phase == DRAIN or bool(is_over), measured, history.time_s(row))


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
            if rounds == PLATEAU_ROUNDS:
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
        BANDWIDTH_IS_FOUND, abs(off) <= BANDWIDTH_TOLERANCE, f"max_bw {100 * off:+.2f} %", history.time_s(row)
    )
    count, reached = int(history["full_bw_count"][row]), int(history["full_bw_reached"][row])
    now = int(history["full_bw_now"][row])
    is_full = count == PLATEAU_ROUNDS and reached == 1 and (now == 1 or setup.sender.cc != "bbr3")
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
