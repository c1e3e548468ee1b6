#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only
#
# aioquic's CUBIC goes back to its first window with each packet that it sends where the round trip takes 2 s or more.
#
# Seen with aioquic 1.7.2, 2026-11-29: 40 s of virtual time, 0.48 Mbit/s written, a link of 1 Mbit/s without loss; the last 20 s:
#   round trip 1.5 s  reno 0.48 Mbit/s  cubic 0.47 Mbit/s
#   round trip 2.2 s  reno 0.52 Mbit/s  cubic 0.04 Mbit/s
# cubic.py resets "after 2 seconds of inactivity", which it takes from `last_ack`: the time at which the packet that was
# acknowledged last had been sent, so at least a round trip ago, also in a sender that is never idle.
#
# Needs PyPI; exits 77 without.

set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
skip() { echo "skipped: $1"; exit 77; }

python3 -m venv "$folder/venv" || skip "needs python3-venv"
"$folder/venv/bin/pip" -q install aioquic==1.7.2 || skip "needs PyPI"
"$folder/venv/bin/python" - <<'PY'
import datetime
import heapq
import ssl
from importlib.metadata import version

from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import StreamDataReceived
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

SECONDS, LAST_S, PACKET_S = 40.0, 20.0, 0.01  # a packet of 1,200 bytes each 10 ms
key, name, year = Ed25519PrivateKey.generate(), x509.Name([]), datetime.datetime(2024, 1, 1)
builder = x509.CertificateBuilder(name, name, key.public_key(), 1, year, year.replace(year=2034))
certificate = builder.sign(key, None)


def mbps(control, rtt_s):
    """Return the mean rate at which a client's data arrive, of which it writes 0.48 Mbit/s."""
    common = {"congestion_control_algorithm": control, "max_data": 2**26, "max_stream_data": 2**26, "alpn_protocols": ["x"]}
    client = QuicConnection(configuration=QuicConfiguration(verify_mode=ssl.CERT_NONE, **common))
    server = QuicConnection(
        configuration=QuicConfiguration(is_client=False, certificate=certificate, private_key=key, **common),
        original_destination_connection_id=client.original_destination_connection_id,
    )
    ends, flying, free_s, arrived, now, ready = (client, server), [], 0.0, 0, 0.0, {0}
    client.connect(("192.0.2.1", 443), now)
    write_s = 0.0
    while now < SECONDS:
        while write_s <= now:
            client.send_stream_data(0, bytes(6000))
            write_s += 0.1
        for end in ready:
            for number, (datagram, _) in enumerate(ends[end].datagrams_to_send(now)):
                free_s = max(free_s, now) + PACKET_S if end == 0 else free_s
                arrives_s = (free_s if end == 0 else now) + rtt_s / 2
                heapq.heappush(flying, (arrives_s, len(flying), number, 1 - end, datagram))
        timers = [ends[end].get_timer() or SECONDS if end in ready else SECONDS for end in (0, 1)]
        timers[0] = min(timers[0], write_s)
        if flying and flying[0][0] <= min(timers):
            now, _, _, end, datagram = heapq.heappop(flying)
            ready.add(end)
            ends[end].receive_datagram(datagram, ("192.0.2.1", 443), now)
        else:
            end = timers.index(min(timers))
            now = max(now, timers[end]) + 1e-6
            if (ends[end].get_timer() or SECONDS) <= now:
                ends[end].handle_timer(now)
        while (event := ends[end].next_event()) is not None:
            if end == 1 and isinstance(event, StreamDataReceived) and now > SECONDS - LAST_S:
                arrived += len(event.data)
    return arrived * 8e-6 / LAST_S


print("aioquic", version("aioquic"))
found = {(rtt_s, control): mbps(control, rtt_s) for rtt_s in (1.5, 2.2) for control in ("reno", "cubic")}
for (rtt_s, control), rate in found.items():
    print(f"round trip {rtt_s} s, {control}: {rate:.2f} Mbit/s")
assert found[1.5, "cubic"] > 0.4, "it is slow below 2 s, too"
assert found[2.2, "cubic"] < 0.1 < 0.4 < found[2.2, "reno"], "it keeps its window above 2 s"
print("ok")
PY
