# SPDX-License-Identifier: GPL-2.0-only
"""aioquic as flows of the twin: a client sends, a server receives.

The random numbers of aioquic are of connection IDs, keys and TLS, and change neither a datagram's size nor its time.
"""

from __future__ import annotations

import datetime
import functools
import math
import ssl
from typing import Any

from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import ConnectionTerminated, StreamDataReceived
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_SENDER = 0  # of the ends, `bbrgym.quic.SENDER`
_ADDRESS = ("192.0.2.1", 443)
_BACKLOG = bytes(65536)  # more than a burst of its pacer
_IDLE_TIMEOUT_S = 86400.0  # no scenario's silence ends a connection


class AioquicEnds:
    """A connection, see `bbrgym.quic.Ends`."""

    def __init__(self, cc: str, seed: int, datagram_bytes: int, window_bytes: int, port: Any) -> None:  # noqa: ARG002
        self._port = port
        common: dict[str, Any] = {
            "alpn_protocols": ["bbrgym"],
            "congestion_control_algorithm": cc,
            "idle_timeout": _IDLE_TIMEOUT_S,
            "max_datagram_size": datagram_bytes,
            "max_data": window_bytes,
            "max_stream_data": window_bytes,
        }
        certificate, key = _certificate()
        client = QuicConnection(configuration=QuicConfiguration(verify_mode=ssl.CERT_NONE, **common))
        server = QuicConnection(
            configuration=QuicConfiguration(is_client=False, certificate=certificate, private_key=key, **common),
            original_destination_connection_id=client.original_destination_connection_id,
        )
        self._ends = (client, server)
        self._datagrams: dict[int, bytes] = {}
        self._next_tag = 0
        self._stream = -1
        self._unwritten = 0.0
        self._recovery = client._loss
        self._note_rtt = self._recovery._cc.on_rtt_measurement
        vars(self._recovery._cc)["on_rtt_measurement"] = self._on_rtt_measurement

    def _on_rtt_measurement(self, *, now: float, rtt: float) -> None:
        self._port.rtt_sample(round(rtt * 1e9))
        self._note_rtt(now=now, rtt=rtt)

    def write(self, now_ns: int, size_bytes: int | None) -> None:
        client = self._ends[_SENDER]
        if self._stream < 0:
            client.connect(_ADDRESS, now_ns / 1e9)
            self._stream = client.get_next_available_stream_id(is_unidirectional=True)
        if size_bytes == 0 and math.isinf(self._unwritten):
            self._unwritten = 0.0
        self._unwritten += math.inf if size_bytes is None else size_bytes
        self._send(now_ns, _SENDER)

    def delivered(self, now_ns: int, end: int, tag: int) -> None:
        connection = self._ends[end]
        connection.receive_datagram(self._datagrams.pop(tag), _ADDRESS, now_ns / 1e9)
        while (event := connection.next_event()) is not None:
            if isinstance(event, StreamDataReceived) and event.data:
                self._port.readable(len(event.data))
            elif isinstance(event, ConnectionTerminated):
                raise RuntimeError(f"aioquic ended the connection: {event.reason_phrase} ({event.error_code:#x})")
        self._send(now_ns, end)

    def dropped(self, now_ns: int, tag: int) -> None:  # noqa: ARG002
        del self._datagrams[tag]

    def due(self, now_ns: int, end: int) -> None:
        self._ends[end].handle_timer(now_ns / 1e9)
        self._send(now_ns, end)

    def state(self) -> tuple[float, float, float, float, float]:
        recovery, pacer = self._recovery, self._recovery._pacer
        pacing_Bps = pacer._max_datagram_size / pacer.packet_time if pacer.packet_time else math.nan
        us = 1e6 if recovery._rtt_initialized else math.nan
        rtts_us = recovery._rtt_smoothed * us, recovery._rtt_min * us
        return recovery.congestion_window, recovery.bytes_in_flight, pacing_Bps, *rtts_us

    def _send(self, now_ns: int, end: int) -> None:
        """Send what an end may send, and set its timer."""
        connection = self._ends[end]
        if end == _SENDER and self._stream >= 0 and self._unwritten:
            self._fill_buffer(connection)
        for data, _ in connection.datagrams_to_send(now_ns / 1e9):
            self._datagrams[self._next_tag] = data
            self._port.send(end, len(data), self._next_tag)
            self._next_tag += 1
        timer_s = connection.get_timer()
        self._port.set_timer(end, None if timer_s is None else math.ceil(timer_s * 1e9))

    def _fill_buffer(self, connection: QuicConnection) -> None:
        """Write so much that more is there than a burst takes, of data without an end not all at once."""
        stream = connection._streams.get(self._stream)
        waiting = 0 if stream is None else stream.sender._buffer_stop - stream.sender.highest_offset
        if waiting < len(_BACKLOG):
            size = int(min(len(_BACKLOG), self._unwritten))
            connection.send_stream_data(self._stream, _BACKLOG[:size])
            self._unwritten -= size


@functools.cache
def _certificate() -> tuple[x509.Certificate, Ed25519PrivateKey]:
    """Return a certificate, which always has the same size, and its key."""
    key, name = Ed25519PrivateKey.generate(), x509.Name([])
    builder = x509.CertificateBuilder(name, name, key.public_key(), serial_number=1)
    builder = builder.not_valid_before(datetime.datetime(2024, 1, 1)).not_valid_after(datetime.datetime(2034, 1, 1))
    return builder.sign(key, None), key
