# SPDX-License-Identifier: GPL-2.0-only
"""Logs of the first flow of a run, in each format that `bbrgym path` reads.

A simulation gives a capture and qlog, and what ss (every 100 ms), NDT7 (every 250 ms) and iperf3 (every second) would
print of its TCP_INFO. On the kernel, ss and dumpcap (Debian: iproute2, wireshark-common) watch the socket itself;
iperf3 does not run there: the world's emulator carries no payload, which iperf3's control connection needs.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import subprocess
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

import bbrgym
from bbrgym.scenario.model import Scenario
from bbrgym.trace.pcapng import PcapngWriter
from bbrgym.trace.qlog import QlogWriter
from bbrgym.trace.rows import Rows, TracedRun

MSS_BYTES = 1448
STEP_S = 0.05
STEPS = {"ss": 2, "ndt7": 5, "iperf3": 20}  # between two lines of a log
TRACES = {"pcapng": PcapngWriter, "qlog": QlogWriter}
PORT = 10_000  # of the first flow's receiver in the world linux
SIOCGSKNS = 0x894C  # the request for a socket's network namespace
CAPTURE_STARTS_S = 1.0


def log_simulation(scenario: Scenario, world: str, seed: int, folder: Path) -> None:
    """Log the first flow of a run."""
    run = TracedRun.of(scenario, world, seed)
    infos: list[dict[str, float]] = []
    with contextlib.ExitStack() as stack:
        made = stack.enter_context(closing(bbrgym.make_world(world, scenario, seed, isolation="none")))
        made.trace_packets()
        writers = [one(stack.enter_context((folder / f"a.{name}").open("wb")), run) for name, one in TRACES.items()]
        while not made.done:
            made.advance(STEP_S)
            rows = of_first_flow(*made.take_packets())
            for writer in writers:
                writer.write(rows)
            infos.append(dict(zip(made.flow_fields, made.flow_stats()[0].tolist(), strict=True), now_s=made.now_s))
    for name in ("sent", "delivered", "retransmitted"):
        for info, count in zip(infos, np.cumsum([one[f"{name}_pkts"] for one in infos]).tolist(), strict=True):
            info[name] = round(count)
    # A bulk flow has no handshake here. The kernel's minimum is that of one, whose packets take the link no time.
    payload_ms = MSS_BYTES * 8e-3 / scenario.link.rate_mbps
    lowest_ms = np.minimum.accumulate([one["rtt_min_ms"] or math.inf for one in infos]) - payload_ms
    for info, min_rtt_ms in zip(infos, lowest_ms.tolist(), strict=True):
        info["lowest_ms"] = min_rtt_ms
    for name, write in {"ss": as_ss, "ndt7": as_ndt7, "iperf3": as_iperf3}.items():
        kept = [one for one in infos[STEPS[name] - 1 :: STEPS[name]] if math.isfinite(one["lowest_ms"])]
        (folder / f"a.{name}").write_text(write(kept))


def of_first_flow(packets: Any, decisions: Any) -> Rows:
    """Return the rows of the first flow: its host sees no other."""
    is_own = packets["flow"] == 0
    own = decisions[decisions["flow"] == 0].copy()
    own["after"] = np.concatenate(([0], np.cumsum(is_own)))[own["after"]]
    return Rows(packets[is_own], own)


def as_ss(infos: Sequence[Any]) -> str:
    """Return what ss would print."""
    lines = (
        f"{1.7e9 + one['now_s']:.3f}\nESTAB 0 0 10.0.0.1:1 10.0.0.2:2\n\t rtt:{one['srtt_ms']:.3f}/1 mss:{MSS_BYTES} "
        f"cwnd:{one['cwnd_pkts']:.0f} bytes_sent:{one['sent'] * MSS_BYTES} bytes_acked:{one['delivered'] * MSS_BYTES} "
        f"retrans:0/{one['retransmitted']} minrtt:{one['lowest_ms']:.3f}\n"
        for one in infos
    )
    return "".join(lines)


def as_ndt7(infos: Sequence[Any]) -> str:
    """Return what NDT7's server would archive."""
    rows = [
        {"ElapsedTime": round(one["now_s"] * 1e6), "BytesAcked": one["delivered"] * MSS_BYTES, "SndMSS": MSS_BYTES}
        | {"RTT": round(one["srtt_ms"] * 1e3), "MinRTT": round(one["lowest_ms"] * 1e3), "AppLimited": 0}
        | {"TotalRetrans": one["retransmitted"], "SndCwnd": one["cwnd_pkts"], "BytesSent": one["sent"] * MSS_BYTES}
        for one in infos
    ]
    return json.dumps({"Download": {"ServerMeasurements": [{"TCPInfo": row} for row in rows]}})


def as_iperf3(infos: Sequence[Any]) -> str:
    """Return what iperf3's client would."""
    streams, before = [], dict.fromkeys(("now_s", "delivered", "retransmitted"), 0.0)
    for one in infos:
        stream = {
            "socket": 5,
            "sender": True,
            "start": before["now_s"],
            "end": one["now_s"],
            "rtt": round(one["srtt_ms"] * 1e3),
        }
        stream |= {
            "bytes": (one["delivered"] - before["delivered"]) * MSS_BYTES,
            "snd_cwnd": one["cwnd_pkts"] * MSS_BYTES,
        }
        streams.append({**stream, "retransmits": one["retransmitted"] - before["retransmitted"]})
        before = one
    start = {"tcp_mss_default": MSS_BYTES, "test_start": {"protocol": "TCP"}}
    return json.dumps({"start": start, "intervals": [{"streams": [one]} for one in streams], "end": {}})


def log_kernel(scenario: Scenario, seed: int, folder: Path) -> None:
    """Let ss and dumpcap watch the first flow of a run of the kernel."""
    options = {"max_late_share": 1.0}
    with closing(bbrgym.make_world("linux", scenario, seed, isolation="none", options=options)) as made:
        enter = ["nsenter", f"--net=/proc/{os.getpid()}/fd/{senders_namespace()}"]
        again = f"while sleep {STEP_S * STEPS['ss']}; do date +%s.%N; ss -tin dport = :{PORT}; done"
        packets = ["-i", "bbrgym", "-s", "100", "-f", f"tcp port {PORT}", "-w", str(folder / "a.pcapng")]
        with (folder / "a.ss").open("wb") as out, (folder / "errors").open("wb") as errors:
            watchers = [
                subprocess.Popen([*enter, *one], stdin=subprocess.DEVNULL, stdout=out, stderr=errors)
                for one in (["sh", "-c", again], ["dumpcap", "-q", *packets])
            ]
            try:
                time.sleep(CAPTURE_STARTS_S)
                while not made.done:
                    made.advance(1.0)
            finally:
                for one in watchers:
                    one.terminate()
                    one.wait(timeout=20)


def senders_namespace() -> int:
    """Return a descriptor of the network namespace in which the flows' sockets are, this process not."""
    own, descriptors = Path("/proc/self/ns/net").readlink(), Path("/proc/self/fd")
    for number in sorted(int(one.name) for one in descriptors.iterdir()):
        with contextlib.suppress(OSError):  # not a socket
            found = fcntl.ioctl(number, SIOCGSKNS)
            if (descriptors / str(found)).readlink() != own:
                return found
    raise RuntimeError("no socket of the run is there")
