# SPDX-License-Identifier: GPL-2.0-only
"""The sender's state ACK by ACK, and where in it something begins."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]

STARTUP, DRAIN, PROBE_RTT, UP, DOWN, CRUISE, REFILL = 0, 1, 2, 8, 9, 10, 11
RECOVERY, LOSS = 3, 4  # of the trace's ca_state
NO_RATE = 2**64 - 1  # a rate of the trace that is not bounded


class AckHistory:
    """An ACK trace, row by row; see `bbrgym.worlds.World.ack_trace`."""

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, column: str) -> Any:
        return self.rows[column]

    def at(self, column: str, row: int) -> int:
        """Return the value of a column in a row."""
        return int(self.rows[column][row])

    def time_s(self, row: int) -> float:
        """Return the time of a row in seconds."""
        return float(self.rows["time_us"][row]) / 1e6

    @property
    def end_s(self) -> float:
        """Time of the last row in seconds, 0 without one."""
        return self.time_s(-1) if len(self) else 0.0

    def rounds(self, row: int, end: int) -> int:
        """Return the rounds between two rows."""
        return int(self.rows["round_count"][end] - self.rows["round_count"][row])

    def ending_at(self, row: int) -> AckHistory:
        """Return the rows up to one, which is the last."""
        return AckHistory(self.rows[: row + 1])

    def is_in(self, *phases: int) -> Mask:
        """Return where the phase is one of these."""
        mask: Mask = np.isin(self.rows["phase"], phases)
        return mask

    def in_probe_bw(self) -> Mask:
        """Return where the phase is one of PROBE_BW."""
        mask: Mask = (self.rows["phase"] >= UP) & (self.rows["phase"] < UP + 8)
        return mask

    def first(self, mask: Mask, after: int = 0) -> int | None:
        """Return the first row of a mask from a row on; None if there is none."""
        found = np.flatnonzero(mask[after:])
        return after + int(found[0]) if len(found) else None

    def first_after(self, seconds: float) -> int | None:
        """Return the first row after a time; None if there is none."""
        return self.first(self.rows["time_us"] > seconds * 1e6)

    def rounds_later(self, row: int | None, rounds: int) -> int | None:
        """Return the first row more than some rounds after one; None if there is none, or no row to count from."""
        counts = self.rows["round_count"]
        return None if row is None else self.first(counts > counts[row] + rounds)

    def entries(self, *phases: int) -> list[int]:
        """Return the rows with which a stay in one of these phases begins, but for the run's first."""
        inside = self.is_in(*phases)
        rows: list[int] = (np.flatnonzero(inside[1:] & ~inside[:-1]) + 1).tolist()
        return rows

    def entry(self, *phases: int, after: int = 0) -> int | None:
        """Return the first of `entries` from a row on; None if there is none."""
        return next((row for row in self.entries(*phases) if row >= after), None)

    def end_of(self, row: int | None) -> int | None:
        """Return the first row that has another phase than this one's; None if none has, or there is no row."""
        return None if row is None else self.first(self.rows["phase"] != self.rows["phase"][row], row)

    def left_startup(self) -> int | None:
        """Return the row with which STARTUP ends, but for stays in PROBE_RTT between."""
        return self.first(~self.is_in(STARTUP, PROBE_RTT))

    def wanted_pkts(self, row: int) -> int:
        """Return Inflight(1.0) as an ACK's decisions see it, with bursts of the pacing rate before the ACK or after."""
        return int(self.rows["target_pkts"][max(0, row - 1) : row + 1].max())

    def round_starts(self) -> Mask:
        """Return the rows with which a round begins."""
        rounds = self.rows["round_count"]
        return np.concatenate(([True], rounds[1:] != rounds[:-1])) if len(rounds) else np.zeros(0, np.bool_)

    def sample_mbps(self, mss_bytes: int) -> npt.NDArray[np.float64]:
        """Return the delivery rate that each ACK samples, in Mbit/s of payload; 0: none."""
        interval_us = self.rows["interval_us"].astype(np.float64)
        is_valid = (interval_us > 0) & (self.rows["sample_pkts"] > 0)
        rate = self.rows["sample_pkts"] * mss_bytes * 8.0 / np.where(is_valid, interval_us, 1.0)
        return np.where(is_valid, rate, 0.0)

    def mbps(self, column: str) -> npt.NDArray[np.float64]:
        """Return a column of rates in Mbit/s."""
        rates: npt.NDArray[np.float64] = self.rows[column].astype(np.float64) * 8e-6
        return rates

    def departing_pkts(self, column: str, mss_bytes: int) -> npt.NDArray[np.float64]:
        """Return a column of packets in flight as they will be when pacing lets the next one depart."""
        bytes_out = self.rows["bw_Bps"].astype(np.float64) * self.rows["departure_wait_us"] * 1e-6
        pkts: npt.NDArray[np.float64] = np.maximum(self.rows[column] - np.floor(bytes_out / mss_bytes), 0.0)
        return pkts
