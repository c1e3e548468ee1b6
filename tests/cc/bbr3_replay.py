# SPDX-License-Identifier: GPL-2.0-only
"""Replay of a kernel's BBRv3 trace through cc/: which rows are equal.

A trace has every ACK, lost packet and change of the loss state that a sender with google/bbr's tcp_bbr.c saw, and what
the algorithm decided on each: phase, window, pacing rate, bounds. Its draws are splitmix64 from state 1. Equal means
the same phase, window and bounds, and rates within one byte per second.
"""

import csv
import gzip
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bbrgym import _cc

MSS_BYTES = 1448
UNIT_BPS = 1
RECOVERY, LOSS = 3, 4
UNSET_PKTS, UNSET_BPS = 2**32 - 1, 2**64 - 1
PHASES = {0: "STARTUP", 1: "DRAIN", 2: "PROBE_RTT", 8: "UP", 9: "DOWN", 10: "CRUISE", 11: "REFILL"}
RATES = ("pacing_Bps", "max_bw_Bps", "bw_lo_Bps")
EXACT = ("cwnd", "inflight_hi", "inflight_lo", "probe_wait_us")
#: Where the rows of other events have their values, ``name=value``.
EVENT_COLUMNS = ("prior_delivered", "rs_delivered", "interval_us", "rtt_us", "losses")


@dataclass
class Replay:
    """A controller that is told what a trace's sender saw.

    Attributes:
        compared: Rows held against the trace, by kind.
        equal: Those without a difference.
        differing: ``(line, text)`` of each difference.
    """

    compared: Counter[str] = field(default_factory=Counter)
    equal: Counter[str] = field(default_factory=Counter)
    differing: list[tuple[int, str]] = field(default_factory=list)
    controller: Any = None
    total_lost_pkts: int = 0
    in_flight_pkts: int = 0
    ca_state: int = 0

    def run(self, path: Path) -> None:
        with gzip.open(path, "rt", newline="") as file:
            rows = list(csv.DictReader(file))
        rtts_us = [int(row["rtt_us"]) for row in rows if row["kind"] == "ack"]
        self._start(min(rtt_us for rtt_us in rtts_us if rtt_us >= 0))
        for line, row in enumerate(rows, start=2):
            self._tell(row)
            self._compare(line, row)

    def _tell(self, row: dict[str, str]) -> None:
        if row["kind"] == "ack":
            self._on_ack(row)
        elif row["kind"] == "lost":
            self._on_lost(row)
        elif row["kind"] == "state":
            self._on_state(row)
        else:
            raise ValueError(f"kind = {row['kind']!r}: expected ack, lost or state")

    def _start(self, rtt_us: int) -> None:
        """Begin as the traces do: at time 0, after a handshake that took the path's RTT."""
        self.controller = _cc.Controller("bbr3", srtt_us=rtt_us, min_rtt_us=rtt_us, mss_bytes=MSS_BYTES)
        self.controller.set_phase_draws(1)
        self.srtt_us = rtt_us

    def _on_ack(self, row: dict[str, str]) -> None:
        value = {name: int(text) for name, text in row.items() if text.lstrip("-").isdigit()}
        self.in_flight_pkts = value["in_flight"]
        self.controller.on_ack(
            _cc.Sample(
                now_us=value["t_us"],
                delivered_time_us=value["t_us"],
                delivered_pkts=value["delivered"],
                prior_delivered_pkts=value["prior_delivered"],
                total_lost_pkts=self.total_lost_pkts,
                sample_pkts=value["rs_delivered"],
                interval_us=value["interval_us"],
                rtt_us=value["rtt_us"],
                srtt_us=self.srtt_us,
                min_rtt_us=self.srtt_us,
                acked_pkts=value["acked"],
                lost_pkts=value["losses"],
                prior_in_flight_pkts=value["prior_in_flight"],
                in_flight_pkts=value["in_flight"],
                ca_state=value["ca_state"],
                is_app_limited=bool(value["app_limited"]),
                tx_in_flight_pkts=value["tx_in_flight"],
                lost_since_pkts=value["rs_lost"],
                is_cwnd_limited=bool(value["is_cwnd_limited"]),
            )
        )

    def _on_lost(self, row: dict[str, str]) -> None:
        value = _values(row)
        self.total_lost_pkts = value["total_lost"]
        self.in_flight_pkts = value["in_flight"]
        self.controller.on_packet_lost(
            now_us=int(row["t_us"]),
            delivered_pkts=int(row["delivered"]),
            total_lost_pkts=value["total_lost"],
            lost_at_send_pkts=value["lost_at_send"],
            tx_in_flight_pkts=value["tx_in_flight"],
            is_app_limited=bool(value["app_limited"]),
        )

    def _on_state(self, row: dict[str, str]) -> None:
        value = _values(row)
        in_flight_pkts = value.get("in_flight", self.in_flight_pkts)
        if value["ca_state"] == LOSS:
            # The kernel asks for ssthresh, which saves the window, unless a recovery is under way (tcp_enter_loss).
            is_new_episode = self.ca_state < RECOVERY
            self.controller.on_rto(in_flight_pkts, in_flight_pkts, self.total_lost_pkts, is_new_episode)
        else:
            self.controller.on_loss_state(value["ca_state"], in_flight_pkts)
        self.ca_state = value["ca_state"]

    def _compare(self, line: int, row: dict[str, str]) -> None:
        kind = row["kind"]
        ours = _decided(self.controller.state)
        differences = [
            f"{name} {ours[name]} instead of {row[name]}"
            for name in ("phase", *EXACT, *RATES)
            if row[name] and not _is_equal(name, ours[name], row[name])
        ]
        self.compared[kind] += 1
        if not differences:
            self.equal[kind] += 1
        else:
            self.differing.append((line, f"{kind} {row['ack']} at {row['t_us']} us: {', '.join(differences)}"))


def _values(row: dict[str, str]) -> dict[str, int]:
    pairs = [row[column].split("=") for column in EVENT_COLUMNS if "=" in row[column]]
    return {name: int(text) for name, text in pairs}


def _decided(state: dict[str, Any]) -> dict[str, Any]:
    """Return what the controller decided, in the trace's columns."""
    return {
        "phase": PHASES[state["phase"]],
        "cwnd": state["cwnd_pkts"],
        "pacing_Bps": state["pacing_Bps"],
        "max_bw_Bps": state["max_bw_Bps"],
        "bw_lo_Bps": -1 if state["bw_lo_Bps"] == UNSET_BPS else state["bw_lo_Bps"],
        "inflight_hi": -1 if state["inflight_hi_pkts"] == UNSET_PKTS else state["inflight_hi_pkts"],
        "inflight_lo": -1 if state["inflight_lo_pkts"] == UNSET_PKTS else state["inflight_lo_pkts"],
        "probe_wait_us": state["probe_wait_us"],
    }


def _is_equal(name: str, ours: Any, theirs: str) -> bool:
    if name in RATES and ours >= 0 and int(theirs) >= 0:
        return bool(abs(ours - int(theirs)) <= UNIT_BPS)
    return str(ours) == theirs
