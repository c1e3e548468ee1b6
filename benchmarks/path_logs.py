# SPDX-License-Identifier: GPL-2.0-only
"""Logs of the first flows of a run, in each format that `bbrgym path` reads, with what spoils logs in the field.

A simulation gives a capture and qlog, and what ss, NDT7, `bbrgym kernel watch` and iperf3 (client and server) would
write of its TCP_INFO. On the kernel, ss and dumpcap (Debian: iproute2, wireshark-common) watch the socket itself.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import math
import os
import struct
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import bbrgym
from bbrgym.scenario.model import Scenario
from bbrgym.trace.qlog import QlogWriter
from bbrgym.trace.rows import ACK_ARRIVED, ACK_SENT, ARRIVED, SENT, SYN, Rows, TracedRun

MSS_BYTES = 1448
STEP_S = 0.05
BLOCK_BYTES = 131_072  # of iperf3
PORT = 10_000  # of the first flow's receiver in the world linux
SIOCGSKNS = 0x894C  # the request for a socket's network namespace
CAPTURE_STARTS_S = 1.0
LATE_FORMATS = ("ss", "watch")  # that may begin after the connection
FORMATS = ("pcap", "qlog", "ss", "ndt7", "iperf3", "watch")


@dataclass(frozen=True)
class Watch:
    """The vantage point and settings with which a log is taken."""

    intervals: tuple[int, int, int] = (2, 5, 20)  # of ss, NDT7 and iperf3 in steps of `STEP_S`
    flows: int = 1  # number of the first flows that it shows
    tap_s: float = 0.0  # RTT in front of the tap, there and back. 0: at the sender.
    is_at_receiver: bool = False  # whether it is the receiver's
    begins_s: float = 0.0  # time at which it begins
    copies: int = 1  # records of each frame in a capture
    snaplen: int = 92  # bytes of each record
    is_paced: bool = False  # whether iperf3 was given a bit rate
    cc: str = "cubic"  # congestion control of the flows


def log_simulation(
    scenario: Scenario,
    world: str,
    seed: int,
    folder: Path,
    watch: Watch | None = None,
    formats: Sequence[str] = FORMATS,
) -> None:
    """Log the first flows of a run; by default one at the sender."""
    watch = watch or Watch()
    run = TracedRun.of(scenario, world, seed)
    infos: list[list[dict[str, float]]] = [[] for _ in range(watch.flows)]
    kept: list[Any] = []
    with contextlib.ExitStack() as stack:
        made = stack.enter_context(closing(bbrgym.make_world(world, scenario, seed, isolation="none")))
        made.trace_packets()
        at_sender = Watch(watch.intervals, watch.flows, is_paced=watch.is_paced, cc=watch.cc)
        has_qlog = "qlog" in formats and watch == at_sender
        qlog = QlogWriter(stack.enter_context((folder / "a.qlog").open("wb")), run) if has_qlog else None
        while not made.done:
            made.advance(STEP_S)
            packets, decisions = made.take_packets()
            kept.append(packets[packets["flow"] < watch.flows])
            if qlog is not None:
                qlog.write(of_first_flows(packets, decisions, watch.flows))
            for own, row in zip(infos, made.flow_stats().tolist(), strict=False):
                own.append(dict(zip(made.flow_fields, row, strict=True), now_s=made.now_s))
    (folder / "a.pcap").write_bytes(as_pcap(np.concatenate(kept), watch))
    for own in infos:
        summarise(own, scenario)
    logs: dict[str, tuple[Callable[[Any, Watch], bytes | str], int]] = {
        "ss": (as_ss, watch.intervals[0]),
        "ndt7": (as_ndt7, watch.intervals[1]),
        "iperf3": (as_iperf3, watch.intervals[2]),
        "watch": (as_watch, watch.intervals[0]),
    }
    for name in set(formats) & set(logs):
        write, step = logs[name]
        first = max(round(watch.begins_s / STEP_S) if name in LATE_FORMATS else 0, step) - 1
        looks = [flows for flows in zip(*infos, strict=True) if all(math.isfinite(one["lowest_ms"]) for one in flows)]
        rows = list(zip(*looks[first::step], strict=True))
        if rows and not (name == "watch" and watch.is_at_receiver):
            written = write(rows, watch)
            (folder / f"a.{name}").write_bytes(written.encode() if isinstance(written, str) else written)


def summarise(infos: list[dict[str, float]], scenario: Scenario) -> None:
    """Add running totals to the intervals of a flow."""
    for name in ("sent", "delivered", "retransmitted"):
        for info, count in zip(infos, np.cumsum([one[f"{name}_pkts"] for one in infos]).tolist(), strict=True):
            info[name] = round(count)
    for name in ("busy", "rwnd_limited", "sndbuf_limited"):
        totals_s = np.cumsum([one[f"{name}_share"] * STEP_S for one in infos]).tolist()
        for info, seconds in zip(infos, totals_s, strict=True):
            info[name] = seconds
    # A bulk flow has no handshake here. The kernel's minimum is that of one, whose packets take the link no time.
    payload_ms = MSS_BYTES * 8e-3 / scenario.link.rate_mbps
    lowest_ms = np.minimum.accumulate([one["rtt_min_ms"] or math.inf for one in infos]) - payload_ms
    buffer_bytes = 0.0
    for info, min_rtt_ms in zip(infos, lowest_ms.tolist(), strict=True):
        info["lowest_ms"] = min_rtt_ms
        buffer_bytes = max(buffer_bytes, 2 * info["cwnd_pkts"] * MSS_BYTES)  # as tcp_sndbuf_expand
        info["written"] = info["delivered"] * MSS_BYTES + (buffer_bytes if info["app_limited"] < 0.5 else 0.0)


def of_first_flows(packets: Any, decisions: Any, flows: int) -> Rows:
    """Return the rows of the first flows: their host sees no other."""
    is_own = packets["flow"] < flows
    own = decisions[decisions["flow"] < flows].copy()
    own["after"] = np.concatenate(([0], np.cumsum(is_own)))[own["after"]]
    return Rows(packets[is_own], own)


RECORD = np.dtype(
    [("seconds", "<u4"), ("ns", "<u4"), ("captured", "<u4"), ("length", "<u4")]  # noqa: RUF005
    + [("version", "u1"), ("tos", "u1"), ("ip_bytes", ">u2"), ("id", ">u2"), ("fragment", ">u2"), ("ttl", "u1")]
    + [("protocol", "u1"), ("sum", ">u2"), ("source", ">u4"), ("target", ">u4")]
    + [("source_port", ">u2"), ("target_port", ">u2"), ("sequence", ">u4"), ("acked", ">u4"), ("offset", "u1")]
    + [("flags", "u1"), ("window", ">u2"), ("tcp_sum", ">u2"), ("urgent", ">u2"), ("stamp_kind", ">u4")]
    + [("stamp", ">u4"), ("echo", ">u4"), ("sack_head", "u1", 4), ("sacks", ">u4", 6)]
)


def as_pcap(rows: Any, watch: Watch) -> bytes:
    """Return a capture: raw IP, an ACK's SACK blocks padded with NOPs; begun late, it has no handshake."""
    sent, came = (ARRIVED, ACK_SENT) if watch.is_at_receiver else (SENT, ACK_ARRIVED)
    rows = rows[np.isin(rows["event"], (sent, came))]
    is_data = rows["event"] == sent
    there_s = watch.tap_s / 2
    records = np.zeros(len(rows), RECORD)
    times_ns = rows["time_ns"] + np.where(is_data, round(there_s * 1e9), round(-there_s * 1e9))
    records["version"], records["ttl"], records["protocol"] = 0x45, 64, 6
    records["offset"] = (RECORD.itemsize - 36) // 4 << 4
    sender, receiver, port = 0x0A010000, 0x0A000001, 5000 + rows["flow"]
    for names, ends in ((("source", "target"), (sender, receiver)), (("source_port", "target_port"), (49153, port))):
        for name, end, other in zip(names, ends, ends[::-1], strict=True):
            records[name] = np.where(is_data, end, other)
    records["sequence"] = np.where(is_data, (rows["offset_bytes"] + 1) % 2**32, 1)
    records["acked"] = np.where(is_data, 1, (rows["acked_bytes"] + 1) % 2**32)
    records["flags"], records["id"] = 0x10, np.arange(len(rows)) % 2**16
    records["window"] = np.where(is_data, 512, np.minimum(rows["window_bytes"] >> 11, 65_535))
    records["stamp_kind"], records["stamp"] = 0x0101080A, times_ns // 1_000_000 % 2**32
    records["sack_head"][:], records["sacks"] = 1, 0x01010101
    for blocks in (1, 2, 3):
        at = (rows["block_count"] >= blocks) & ~is_data
        records["sack_head"][at] = (1, 1, 5, 2 + 8 * blocks)
        records["sacks"][at, 2 * blocks - 2 : 2 * blocks] = (rows["blocks"][at, blocks - 1] + 1) % 2**32
    is_syn = (rows["flags"] & SYN) != 0
    records["flags"][is_syn] = np.where(is_data, 0x02, 0x12)[is_syn]
    records["sequence"][is_syn], records["acked"][is_syn] = 0, np.where(is_data, 0, 1)[is_syn]
    for name, option in (("stamp_kind", 0x020405B4), ("stamp", 0x0103030B), ("echo", 0x0101080A)):
        records[name][is_syn] = option
    records["sack_head"][is_syn], records["sacks"][is_syn, :2], records["sacks"][is_syn, 2:] = 0, 0, 0x01010101
    payload = np.where(is_data, rows["payload_bytes"], 0)
    records["ip_bytes"] = RECORD.itemsize - 16 + payload
    records["length"], records["captured"] = RECORD.itemsize - 16 + payload, RECORD.itemsize - 16
    if watch.begins_s > 0:
        is_seen = times_ns >= watch.begins_s * 1e9
        records, times_ns = records[is_seen], times_ns[is_seen]
    if watch.copies > 1:
        later_ns = np.tile(np.arange(watch.copies) * 9_000, len(times_ns))
        records, times_ns = np.repeat(records, watch.copies), np.repeat(times_ns, watch.copies) + later_ns
    order = np.argsort(times_ns, kind="stable")
    records, times_ns = records[order], times_ns[order]
    records["seconds"], records["ns"] = 1_700_000_000 + times_ns // 10**9, times_ns % 10**9
    head = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, watch.snaplen, 101)
    kept = min(watch.snaplen, RECORD.itemsize - 16)
    records["captured"] = kept
    return head + np.frombuffer(records.tobytes(), np.uint8).reshape(len(records), -1)[:, : 16 + kept].tobytes()


def as_ss(rows: Sequence[Sequence[Any]], watch: Watch) -> str:
    """Return what ss would print."""
    text = []
    for flows in zip(*rows, strict=False):
        text.append(f"{1.7e9 + flows[0]['now_s']:.3f}\n")
        for index, one in enumerate(flows):
            ends = f"ESTAB 0 0 10.0.0.1:{index + 1} 10.0.0.2:{index + 1}\n"
            if watch.is_at_receiver:
                text.append(
                    f"{ends}\t cubic wscale:11,11 rtt:{one['lowest_ms']:.3f}/1 rcvmss:{MSS_BYTES} "
                    f"bytes_received:{one['delivered'] * MSS_BYTES}\n"
                )
                continue
            held = [name for name in ("busy", "rwnd_limited", "sndbuf_limited") if one[name] > 0]
            limits = "".join(f" {name}:{one[name] * 1e3:.0f}ms" for name in held)
            text.append(
                f"{ends}\t {watch.cc} wscale:11,11 rtt:{one['srtt_ms']:.3f}/1 mss:{MSS_BYTES} "
                f"cwnd:{one['cwnd_pkts']:.0f} bytes_sent:{one['sent'] * MSS_BYTES} "
                f"bytes_acked:{one['delivered'] * MSS_BYTES}"
                f"{' app_limited' if one['app_limited'] > 0.5 else ''}{limits} "
                f"retrans:0/{one['retransmitted']} minrtt:{one['lowest_ms']:.3f}\n"
            )
    return "".join(text)


def as_watch(rows: Sequence[Sequence[Any]], watch: Watch) -> bytes:
    """Return what `bbrgym kernel watch` would write at the sender."""
    made = [
        {"time_s": one["now_s"], "connection": index, "control": watch.cc, "peer": f"10.0.0.2:{index + 1}"}
        | {"delivered_bytes": one["delivered"] * MSS_BYTES, "srtt_ms": one["srtt_ms"], "min_rtt_ms": one["lowest_ms"]}
        | {"retransmitted_pkts": one["retransmitted"], "cwnd_pkts": one["cwnd_pkts"], "mss_bytes": MSS_BYTES}
        | {"app_limited": one["app_limited"] > 0.5}
        for flows in zip(*rows, strict=False)
        for index, one in enumerate(flows)
    ]
    pl.DataFrame(made).write_parquet(file := io.BytesIO())
    return file.getvalue()


def as_ndt7(rows: Sequence[Sequence[Any]], watch: Watch) -> str:
    """Return what NDT7's server would archive."""
    way = "Upload" if watch.is_at_receiver else "Download"
    infos = [
        {"ElapsedTime": round(one["now_s"] * 1e6), "BytesReceived": one["delivered"] * MSS_BYTES, "RcvMSS": MSS_BYTES}
        if watch.is_at_receiver
        else {"ElapsedTime": round(one["now_s"] * 1e6), "BytesAcked": one["delivered"] * MSS_BYTES, "SndMSS": MSS_BYTES}
        | {"RTT": round(one["srtt_ms"] * 1e3), "MinRTT": round(one["lowest_ms"] * 1e3)}
        | {"AppLimited": int(one["app_limited"] > 0.5)}
        | {"TotalRetrans": one["retransmitted"], "SndCwnd": one["cwnd_pkts"], "BytesSent": one["sent"] * MSS_BYTES}
        | {"BusyTime": round(one["busy"] * 1e6), "RWndLimited": round(one["rwnd_limited"] * 1e6)}
        | {"SndBufLimited": round(one["sndbuf_limited"] * 1e6)}
        for one in rows[0]
    ]
    return json.dumps({way: {"ServerMeasurements": [{"TCPInfo": row} for row in infos]}})


def as_iperf3(rows: Sequence[Sequence[Any]], watch: Watch) -> str:
    """Return what iperf3's client would, whose intervals count what the sockets took, or its server."""
    intervals, before = [], [dict.fromkeys(("now_s", "written", "delivered", "retransmitted"), 0.0) for _ in rows]
    for flows in zip(*rows, strict=False):
        streams = []
        for index, one in enumerate(flows):
            last = before[index]
            stream = {"socket": 5 + 2 * index, "sender": not watch.is_at_receiver}
            stream |= {"start": last["now_s"], "end": one["now_s"]}
            if watch.is_at_receiver:
                got_bytes = (one["delivered"] - last["delivered"]) * MSS_BYTES
                streams.append({**stream, "seconds": one["now_s"] - last["now_s"], "bytes": got_bytes})
            else:
                one["written"] = max(last["written"], one["written"] // BLOCK_BYTES * BLOCK_BYTES)
                stream |= {"bytes": one["written"] - last["written"], "snd_cwnd": one["cwnd_pkts"] * MSS_BYTES}
                stream["rtt"] = round(one["srtt_ms"] * 1e3)
                streams.append({**stream, "retransmits": one["retransmitted"] - last["retransmitted"]})
            before[index] = one
        intervals.append({"streams": streams})
    seconds = before[0]["now_s"]
    received = {"start": 0, "end": seconds, "seconds": seconds}
    received |= {"bytes": sum(one["delivered"] for one in before) * MSS_BYTES, "sender": True}
    test = {"protocol": "TCP", "num_streams": len(rows), "blksize": BLOCK_BYTES}
    if watch.is_paced:
        test["target_bitrate"] = 10**6
    start = {"tcp_mss_default": MSS_BYTES, "test_start": test}
    streams = [
        {"receiver": {"socket": 5 + 2 * index, "seconds": seconds, "bytes": one["delivered"] * MSS_BYTES}}
        for index, one in enumerate(before)
    ]
    end = {"streams": streams, "sum_received": received, "sender_tcp_congestion": watch.cc}
    return json.dumps({"start": start, "intervals": intervals, "end": end})


def log_kernel(scenario: Scenario, seed: int, folder: Path) -> None:
    """Let ss and dumpcap watch the first flow of a run of the kernel."""
    options = {"max_late_share": 1.0}
    with closing(bbrgym.make_world("linux", scenario, seed, isolation="none", options=options)) as made:
        enter = ["nsenter", f"--net=/proc/{os.getpid()}/fd/{senders_namespace()}"]
        again = f"while sleep {STEP_S * 2}; do date +%s.%N; ss -tin dport = :{PORT}; done"
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
