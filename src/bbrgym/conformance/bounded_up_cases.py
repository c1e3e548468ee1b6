# SPDX-License-Identifier: GPL-2.0-only
"""The draft's case of a loss in UP where losses have set a bound before."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from bbrgym.conformance.ack_history import PROBE_RTT, STARTUP, UP, AckHistory
from bbrgym.conformance.draft_case import DraftCase, DraftStatement, Known, statement
from bbrgym.conformance.moments import INTERRUPTS, goes_down, is_uninterrupted, moment_is_there
from bbrgym.conformance.paths import MANY_PKTS, is_long
from bbrgym.conformance.reasons import INTERRUPTED, V1_CYCLES
from bbrgym.conformance.setup import CaseSetup, Stage


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
    yield is_uninterrupted(history, end)
    if int(history["phase"][end]) == PROBE_RTT:
        return
    at_s = history.time_s(end)
    marked = np.flatnonzero(history["lost_pkts"][row : end + 1])
    yield statement("packets are lost in UP", len(marked) > 0, f"{len(marked)} ACKs told of losses", at_s)
    yield goes_down(history, end, "DOWN follows at once")
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
    conditions=MANY_PKTS,
    begin=lose_in_startup,
    stages=(
        Stage("STARTUP ends", startup_ends, stop_losing),
        Stage("UP begins", _bounded_up_begins, _lose_a_tenth),
    ),
    end=_bounded_up_is_over,
    check=_check_bounded_loss,
    not_for={"bbr": V1_CYCLES},
    known=(Known(INTERRUPTS, INTERRUPTED, applies=is_long),),
)
