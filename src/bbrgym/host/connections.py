# SPDX-License-Identifier: GPL-2.0-only
"""Connections of loaded controls, as rows of what people and logs ask for."""

from __future__ import annotations

import ipaddress
import socket
import time
from collections.abc import Iterator, Mapping
from typing import Any

from bbrgym.host.controls import LoadedControl
from bbrgym.tunables import VARIANTS
from bbrgym.worlds.phases import phase_of

_UNKNOWN_US = 2**63  # and more: no RTT was measured yet


def connection_rows(control: LoadedControl) -> Iterator[dict[str, Any]]:
    """Yield a row for each connection of a control.

    The counters are of the connection's whole life. The kernel goes on meanwhile: values of a row may be an ACK apart.
    """
    variant, time_s = VARIANTS[control.variant], time.time()
    for row in control.connections():
        yield {
            "time_s": time_s,
            "control": control.name,
            "connection": row["cookie"],
            "local": _endpoint(row, "local"),
            "peer": _endpoint(row, "remote"),
            "age_s": row["age_us"] / 1e6,
            "phase": phase_of(row["phase"], variant.algorithm).name,
            "bw_mbps": row["bw_Bps"] * 8 / 1e6,
            "min_rtt_ms": None if row["min_rtt_us"] >= _UNKNOWN_US else row["min_rtt_us"] / 1e3,
            "srtt_ms": row["srtt_us"] / 1e3,
            **{name: row[name] for name in ("cwnd_pkts", "in_flight_pkts", "retransmitted_pkts", "lost_pkts")},
            "delivered_bytes": row["acked_bytes"] + row["sacked_pkts"] * row["mss_bytes"],
            **{name: row[name] for name in ("mss_bytes", "policy")},
            "app_limited": row["is_app_limited"],
            **{name: row["tunables"][name] for name in variant.preset},
        }


def address_of(row: Mapping[str, Any], side: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Return the address of a side, ``local`` or ``remote``, of a row from the kernel; mapped ones as IPv4."""
    is_v4 = row["family"] == socket.AF_INET
    address = ipaddress.ip_address(row[side][:4] if is_v4 else row[side])
    return getattr(address, "ipv4_mapped", None) or address


def _endpoint(row: dict[str, Any], side: str) -> str:
    address, port = address_of(row, side), row[f"{side}_port"]
    return f"{address}:{port}" if address.version == 4 else f"[{address}]:{port}"
