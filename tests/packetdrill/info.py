# SPDX-License-Identifier: GPL-2.0-only
"""The values of struct tcp_info that a connection on tcp/ knows, by their names in scripts."""

from connection import Connection
from verdicts import NotRunError, OutOfScopeError

#: Beginnings of names that are read from the connection.
PREFIXES = ("tcpi_", "bbr_", "dctcp_", "tcpv_", "SK_MEMINFO_")

#: As Connection has them, in the order of Linux's.
_STATES = (
    *("established", "syn_sent", "syn_recv", "fin_wait1", "fin_wait2", "time_wait", "closed", "close_wait"),
    *("last_ack", "listen", "closing"),
)
_OPTIONS = ("TIMESTAMPS", "SACK", "WSCALE", "ECN", "ECN_SEEN", "SYN_DATA")
NAMES = {
    **{f"TCP_{name.upper()}".replace("CLOSED", "CLOSE"): number for number, name in enumerate(_STATES, start=1)},
    **{f"TCP_CA_{name}": number for number, name in enumerate(("Open", "Disorder", "CWR", "Recovery", "Loss"))},
    **{f"TCPI_OPT_{name}": 1 << bit for bit, name in enumerate(_OPTIONS)},
}
_INFINITE_SSTHRESH = 0x7FFFFFFF


def value(connection: Connection, name: str) -> int:
    """Return a value of tcp_info now."""
    if name.startswith("SK_MEMINFO"):
        raise OutOfScopeError("the memory of a socket (SK_MEMINFO)")
    known = _read(connection)
    if name not in known:
        raise NotRunError(f"tcp_info: {name} is not known")
    return known[name]


def _read(connection: Connection) -> dict[str, int]:
    states = {"tcpi_state": 1 + _STATES.index(connection.state)}
    if not connection.stands:
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
        **{f"tcpi_{name}": value for name, value in state.items()},
        "tcpi_snd_ssthresh": min(state["snd_ssthresh"], _INFINITE_SSTHRESH),
        "tcpi_fackets": 0,
        "tcpi_retransmits": state["backoff"],
        "tcpi_delivered": state["delivered"] + 1,  # the SYN counts
        "tcpi_probes": connection.probes_out,
        "tcpi_data_segs_in": connection.data_in,
        "tcpi_segs_out": connection.segments_out,
        "tcpi_segs_in": connection.segments_in,
        "tcpi_bytes_sent": connection.bytes_sent,
        "tcpi_bytes_retrans": connection.bytes_retransmitted,
        "tcpi_bytes_acked": connection.una,
        "tcpi_bytes_received": connection.received_end - 1,
        "tcpi_notsent_bytes": connection.write_end - connection.next,
        "tcpi_snd_mss": connection.mss,
        "tcpi_rcv_mss": connection.receive_mss,
        "tcpi_advmss": connection.settings.mtu - 40,
        "tcpi_pmtu": connection.settings.mtu,
        "tcpi_snd_wnd": connection.window,
        "tcpi_snd_wscale": connection.peer_scale,
        "tcpi_options": connection.has_timestamps
        + 2 * connection.has_sack
        + 4 * connection.has_scale
        + 8 * connection.has_ecn,
    }
