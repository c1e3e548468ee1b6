# SPDX-License-Identifier: GPL-2.0-only
"""The draft's cases of recoveries that turn out to be spurious."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bbrgym.conformance.ack_history import LOSS, NO_RATE, PROBE_RTT, RECOVERY, REFILL, STARTUP, UP, AckHistory
from bbrgym.conformance.draft_case import Known, draft_case
from bbrgym.conformance.setup import CaseSetup, Stage, paths
from bbrgym.conformance.statements import PLATEAU_ROUNDS, Statements

_NO_BOUNDS = {"bbr": "BBR v1 has no bounds to save"}
_AGAIN = {STARTUP: (STARTUP,), UP: (REFILL, UP)}  # states through which one is returned to
SAVES = "the bounds before the episode are saved when it begins"
RESTORES = "after the episode the bounds are at least those before it"
RETURNS = "the sender returns to the state that the episode ended, UP by way of REFILL"


@dataclass(frozen=True)
class _LossEpisode:
    """A stay in Recovery or Loss."""

    before: int  # last row ahead of it
    first: int
    end: int  # first row behind it
    undone: int  # last row at which the transport may still find it spurious: before the next one, two rounds at most
    is_spurious: bool  # whether it did


def _episodes(history: AckHistory) -> list[_LossEpisode]:
    inside = history["ca_state"] >= RECOVERY
    found, row = [], 1
    while (first := history.first(inside, row)) is not None:
        end = history.first(~inside, first)
        if end is None:
            break
        late = history.first(history["round_count"] > history["round_count"][end] + 1, end)
        again = history.first(inside, end)
        undone = min(len(history) if one is None else one for one in (late, again)) - 1
        is_one = _bounds(history, end, "undo_") == _bounds(history, first, "undo_")  # not two, without a row between
        is_spurious = is_one and bool(history["undo_count"][undone] > history["undo_count"][first - 1])
        found.append(_LossEpisode(first - 1, first, end, undone, is_spurious))
        row = end
    return found


_BOUNDS = ("bw_lo_Bps", "inflight_lo_pkts", "inflight_hi_pkts")


def _bounds(history: AckHistory, row: int, prefix: str = "") -> list[float]:
    """Return the bounds in a row, infinity where there is none."""
    values = [int(history[prefix + name][row]) for name in _BOUNDS]
    return [float("inf") if value < 0 or value == NO_RATE else float(value) for value in values]


def _shown(bounds: list[float]) -> str:
    return ", ".join("none" if one == float("inf") else f"{one:.6g}" for one in bounds)


def _ended_state(history: AckHistory, episode: _LossEpisode) -> int | None:
    """Return the state among STARTUP and UP that the episode's losses ended; None if they ended neither."""
    phase = int(history["phase"][episode.before])
    if phase not in (STARTUP, UP):
        return None
    during = history["phase"][episode.first : episode.end]
    left = np.flatnonzero((during != phase) & (during != PROBE_RTT))
    if not len(left):
        return None
    row = episode.first + int(left[0])  # an undo forgets the plateau later
    by_plateau = int(history["full_bw_now"][row]) == 1 or int(history["full_bw_count"][row]) >= PLATEAU_ROUNDS
    return None if by_plateau else phase


def _check_episodes(run: Statements, episodes: list[_LossEpisode]) -> None:
    history = run.history
    run.states("spurious recoveries take place and end", len(episodes) > 0, f"{len(episodes)} recoveries")
    if not episodes:
        return
    unsaved = [one for one in episodes if _bounds(history, one.first, "undo_") != _bounds(history, one.before)]
    shown = (unsaved or episodes)[0]
    before, saved = _shown(_bounds(history, shown.before)), _shown(_bounds(history, shown.first, "undo_"))
    measured = f"bw, inflight_shortterm, inflight_longterm: {before} before, {saved} saved"
    run.states(SAVES, not unsaved, measured, shown.first)
    lower = [one for one in episodes if not _is_restored(history, one)]
    shown = (lower or episodes)[0]
    before, after = _shown(_bounds(history, shown.before)), _shown(_bounds(history, shown.undone))
    run.states(RESTORES, not lower, f"{before} before, {after} after", shown.undone)
    ended = [(one, state) for one in episodes if (state := _ended_state(history, one)) is not None]
    gone = next(
        (one for one, state in ended if not history.is_in(*_AGAIN[state])[one.end : one.undone + 1].any()), None
    )
    measured = f"{len(ended)} recoveries ended STARTUP or UP"
    run.states(RETURNS, gone is None, measured, -1 if gone is None else gone.end)


def _is_restored(history: AckHistory, episode: _LossEpisode) -> bool:
    """Return whether in any row the bounds are at least those before an episode."""
    least = _bounds(history, episode.before)
    return any(
        all(now >= before for now, before in zip(_bounds(history, row), least, strict=True))
        for row in range(episode.end, episode.undone + 1)
    )


def _spurious_episodes(history: AckHistory) -> list[_LossEpisode]:
    return [one for one in _episodes(history) if one.is_spurious]


# ---- fast recovery ------------------------------------------------------------------------------------

_LATE_OF_ROUND = 0.2  # packets: the transport learns that a recovery was spurious in the rounds after it
_RECOVERIES = 6


def _reorder(setup: CaseSetup) -> None:
    """Let packets be late by most of a round trip, now and then."""
    share = min(0.02, _LATE_OF_ROUND / max(1.0, setup.condition.bdp_pkts))
    setup.link["jitter"] = {"share": share, "delay_ms": 0.7 * setup.condition.rtt_ms, "reorder": True}


def _many_recoveries(history: AckHistory, _: CaseSetup) -> int | None:
    episodes = _spurious_episodes(history)
    return episodes[_RECOVERIES - 1].undone if len(episodes) >= _RECOVERIES else None


_CODE_SAVES = (
    "google/bbr saves the bounds when Recovery begins, after the first losses may have changed them, and restores "
    "bounds only; the draft's rule is bbr3_undo."
)
_DRAFT_SAVES_AGAIN = (
    "As the draft has it, HandleInflightTooHigh() ends UP by StartProbeBW_DOWN(), whose ResetCongestionSignals() sets "
    "is_loss_in_round to false. The next packet of the flight that is marked lost is again the first of the round, so "
    "NoteLoss() calls SaveStateUponLoss() once more: it saves the lowered inflight_longterm, sets undo_state to None, "
    "and nothing is left to return to."
)


@draft_case(
    18,
    conditions=paths(least_pkts=20, most_mbps=1000),
    begin=_reorder,
    end=_many_recoveries,
    not_for=_NO_BOUNDS,
    known=tuple(Known(text, _CODE_SAVES, ("code",)) for text in (SAVES, RETURNS)),
)
def spurious_recovery(run: Statements) -> None:
    """Handling Spurious Fast Recovery"""
    _check_episodes(run, _spurious_episodes(run.history))


# ---- timeouts -----------------------------------------------------------------------------------------


def _a_round_after_up(history: AckHistory, _: CaseSetup) -> int | None:
    """Return the row a round after UP began, of the first stay that PROBE_RTT does not cut short."""
    for began in history.entries(UP):
        row = history.first(history["round_count"] > history["round_count"][began], began)
        if row is not None and not history.is_in(PROBE_RTT)[began : row + 1].any():
            return row
    return None


def _hold_back(setup: CaseSetup, history: AckHistory, row: int) -> None:
    """Hold all packets back for longer than a timeout, and let them go in their order."""
    at_s = history.time_s(row)
    srtt_ms = float(history["srtt_us"][row]) / 1e3
    base_ms = setup.condition.rtt_ms / 4
    held_ms = min(4900.0 - base_ms, 1000.0 + 3.5 * srtt_ms)
    setup.change(at_s, delay_ms=base_ms + held_ms)
    setup.change(at_s + held_ms / 2000, delay_ms=base_ms)


def _timeouts(history: AckHistory) -> list[_LossEpisode]:
    return [one for one in _spurious_episodes(history) if (history["ca_state"][one.first : one.end] == LOSS).any()]


def _timed_out(history: AckHistory, _: CaseSetup) -> int | None:
    ended = [one.end for one in _timeouts(history) if one.end < len(history) - 1]
    return history.rounds_later(ended[0], 2) if ended else None


# Packets are held back and arrive in their order: reordering alone causes no timeout where RACK is used.
@draft_case(
    19,
    conditions=paths(least_pkts=20, most_mbps=1000),
    stages=(Stage("UP began a round ago", _a_round_after_up, _hold_back),),
    end=_timed_out,
    not_for=_NO_BOUNDS,
    known=tuple(
        Known(text, reason, (reading,))
        for reading, reason in (("code", _CODE_SAVES), ("draft", _DRAFT_SAVES_AGAIN))
        for text in (SAVES, RESTORES, RETURNS)
    ),
)
def spurious_timeout(run: Statements) -> None:
    """Handling Spurious RTO Recovery"""
    episodes = _timeouts(run.history)
    if not episodes:
        run.needs("a timeout takes place", None)
    _check_episodes(run, episodes[:1])
