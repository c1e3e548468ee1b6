# SPDX-License-Identifier: GPL-2.0-only
"""The values of struct tcp_info that a connection on tcp/ knows, by their names in scripts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from connection import Connection
from verdicts import NotRunError, OutOfScopeError

#: Beginnings of names that are read from the connection.
PREFIXES = ("tcpi_", "bbr_", "dctcp_", "tcpv_", "SK_MEMINFO_")

NAMES = {
    "TCP_ESTABLISHED": 1,
    "TCP_SYN_SENT": 2,
    "TCP_SYN_RECV": 3,
    "TCP_FIN_WAIT1": 4,
    "TCP_FIN_WAIT2": 5,
    "TCP_TIME_WAIT": 6,
    "TCP_CLOSE": 7,
    "TCP_CLOSE_WAIT": 8,
    "TCP_LAST_ACK": 9,
    "TCP_LISTEN": 10,
    "TCP_CLOSING": 11,
    "TCP_CA_Open": 0,
    "TCP_CA_Disorder": 1,
    "TCP_CA_CWR": 2,
    "TCP_CA_Recovery": 3,
    "TCP_CA_Loss": 4,
    "TCPI_OPT_TIMESTAMPS": 1,
    "TCPI_OPT_SACK": 2,
    "TCPI_OPT_WSCALE": 4,
    "TCPI_OPT_ECN": 8,
    "TCPI_OPT_ECN_SEEN": 16,
    "TCPI_OPT_SYN_DATA": 32,
}
_STATES = (
    "established",
    "syn_sent",
    "syn_recv",
    "fin_wait1",
    "fin_wait2",
    "time_wait",
    "closed",
    "close_wait",
    "last_ack",
    "listen",
    "closing",
)
_INFINITE_SSTHRESH = 0x7FFFFFFF


class Values(Mapping[str, int]):
    """tcp_info now, read when a value is asked for."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._known: dict[str, int] = {}

    def __getitem__(self, name: str) -> int:
        if not self._known:
            self._known = _read(self._connection)
        if name.startswith("SK_MEMINFO"):
            raise OutOfScopeError("the memory of a socket (SK_MEMINFO)")
        if name not in self._known:
            raise NotRunError(f"tcp_info: {name} is not known")
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


def _read(connection: Connection) -> dict[str, int]:
    states = {"tcpi_state": 1 + _STATES.index(connection.state)}
    if connection.state in ("closed", "listen", "syn_sent", "syn_recv"):
        return states
    state = connection.tcp_state()
    now_ns = connection.now_ns
    since_ms = {
        "tcpi_last_data_sent": connection.last_data_sent_ns,
        "tcpi_last_ack_sent": 0,
        "tcpi_last_data_recv": connection.last_data_received_ns,
        "tcpi_last_ack_recv": connection.last_ack_received_ns,
    }
    return {
        **states,
        **{name: (now_ns - at_ns) // 1_000_000 for name, at_ns in since_ms.items()},
        "tcpi_ca_state": state["ca_state"],
        "tcpi_snd_cwnd": state["cwnd"],
        "tcpi_snd_ssthresh": min(state["ssthresh"], _INFINITE_SSTHRESH),
        "tcpi_unacked": state["packets_out"],
        "tcpi_sacked": state["sacked"],
        "tcpi_lost": state["lost"],
        "tcpi_retrans": state["retrans"],
        "tcpi_fackets": 0,
        "tcpi_reordering": state["reordering"],
        "tcpi_reord_seen": state["reord_seen"],
        "tcpi_rtt": state["srtt_us"],
        "tcpi_rttvar": state["rttvar_us"],
        "tcpi_min_rtt": state["min_rtt_us"],
        "tcpi_rto": state["rto_us"],
        "tcpi_backoff": state["backoff"],
        "tcpi_retransmits": state["backoff"],
        "tcpi_probes": connection.probes_out,
        "tcpi_total_retrans": state["retransmitted_pkts"],
        "tcpi_delivered": state["delivered"] + 1,  # the SYN counts
        "tcpi_dsack_dups": state["duplicate_reports"],
        "tcpi_data_segs_out": state["sent_pkts"],
        "tcpi_data_segs_in": connection.data_in,
        "tcpi_segs_out": connection.segments_out,
        "tcpi_segs_in": connection.segments_in,
        "tcpi_bytes_sent": connection.bytes_sent,
        "tcpi_bytes_retrans": connection.bytes_again,
        "tcpi_bytes_acked": connection.una - 1 + 1,
        "tcpi_bytes_received": connection.received_in_order() - 1,
        "tcpi_notsent_bytes": connection.write_end - connection.next,
        "tcpi_snd_mss": connection.mss,
        "tcpi_rcv_mss": connection.receive_mss,
        "tcpi_advmss": connection.settings.mtu - 40,
        "tcpi_pmtu": connection.settings.mtu,
        "tcpi_snd_wnd": connection.window,
        "tcpi_snd_wscale": connection.peer_scale,
        "tcpi_delivery_rate_app_limited": state["app_limited"],
        "tcpi_busy_time": state["busy_us"],
        "tcpi_rwnd_limited": state["rwnd_limited_us"],
        "tcpi_sndbuf_limited": state["sndbuf_limited_us"],
        "tcpi_options": connection.has_timestamps
        + 2 * connection.has_sack
        + 4 * connection.has_scale
        + 8 * connection.has_ecn,
        "tcpi_total_rto": state["rto_count"],
        "tcpi_pacing_rate": state["pacing_Bps"],
    }
