# SPDX-License-Identifier: GPL-2.0-only
"""Readers of logs: what each takes from its format, and how damaged files are refused."""

import gzip
import io
import itertools
import json
import lzma
import math
import random
import struct
import tarfile
import time
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bbrgym.errors import ConfigError
from bbrgym.paths import samples
from bbrgym.paths.detect import read_log
from bbrgym.paths.fit import fit_path
from bbrgym.paths.samples import Connection, Connections, PathLog, Sample
from bbrgym.trace import write_trace

SCENARIO = {
    "name": "logged",
    "duration_s": 4.0,
    "link": {"rate_mbps": 8.0, "delay_ms": 1.0, "queue": {"size_bytes": 30_000}},
    "flows": [{"name": "flow", "rtt_ms": 40.0, "cc": "cubic"}],
}


CASES = Path(__file__).parent / "cases"


def written(folder: Path, content: Any) -> Path:
    path = folder / "a.log"
    text = content if isinstance(content, str | bytes) else json.dumps(content)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def column(connection: Connection, name: str) -> list[float]:
    return connection.table()[:, Sample._fields.index(name)].tolist()


def only(log: PathLog) -> Connection:
    (one,) = log.connections
    return one


def facts(connection: Connection) -> dict[str, Any]:
    """Return what a reader says of a connection; NaN: not told."""
    table = connection.table()
    smallest = [float(np.fmin.reduce(table[:, Sample._fields.index(name)])) for name in ("rtt_s", "min_rtt_s")]
    seconds = table[-1, 0] - table[0, 0]
    return {
        **vars(connection),
        "mbps": connection.delivered_bytes * 8e-6 / seconds * (1 + 40 / connection.mss_bytes),
        "rtt_ms": smallest[0] * 1e3,
        "min_rtt_ms": smallest[1] * 1e3,
        "again": float(table[-1, Sample._fields.index("retransmitted_pkts")]),
        "note": " / ".join(connection.notes),
    }


NAN = pytest.approx(math.nan, nan_ok=True)


@pytest.mark.parametrize(
    ("case", "connections", "expected"),
    [
        ("sister_iperf3_2Mbit_uplink.json", 1, {"counts_socket": True, "received_bytes": 2904688, "received_s": 12.67}),
        ("capacity_below_mean.json", 1, {"received_bytes": 106_954_752, "received_s": 10.0}),
        ("iperf3_server_omit3.json", 1, {"vantage": "receiver", "delivered_bytes": 21_308_768}),
        ("iperf3_printed_twice.json.gz", 1, {"note": "the test stands twice in it, and was taken once"}),
        ("archive.json.gz", 1, {"mbps": 49.75, "min_rtt_ms": 30.0, "is_limited": False}),
        ("bigquery_ints_as_strings.json.gz", 1, {"mbps": 49.75, "min_rtt_ms": 30.0}),
        ("flent_ss_iterate.ss.gz", 1, {"mbps": 19.5, "min_rtt_ms": 40.88}),
        ("ss_with_control_connection.ss.gz", 1, {"mbps": 20.0, "is_limited": False}),
        ("ss_iperf3_b5M_on_20Mbit.ss.gz", 1, {"mbps": 5.155, "is_limited": True}),
        ("ss_all_retransmissions_spurious.ss.gz", 1, {"again": 0.0}),
        ("aioquic_client_of_a_download.qlog.gz", 1, {"vantage": "receiver", "mbps": 3.323, "rtt_ms": NAN}),
        ("schema.qlog.gz", 1, {"mbps": 10.32, "min_rtt_ms": 40.0}),
        ("spurious.qlog.gz", 1, {"mbps": 10.32, "again": 0.0}),
        ("two_server_traces.qlog.gz", 2, {"mbps": 10.32}),
        ("qinq.pcap.gz", 1, {"vantage": "sender", "min_rtt_ms": 40.02, "again": 8.0}),
        ("sister_six_downloads_in_turn.pcap.gz", 6, {"mbps": 19.155}),
        ("sister_dup_two_interfaces.pcap.gz", 1, {"again": 0.0, "mbps": 18.25}),
        ("real_any_on_router_sll.pcap.gz", 1, {"vantage": "sender", "again": 39.0, "options_cut": False}),
        ("receiver_begun_late_sll.pcap.gz", 1, {"vantage": "receiver", "rtt_ms": NAN, "min_rtt_is_bound": True}),
        ("sender_begun_late.pcap.gz", 1, {"vantage": "sender", "min_rtt_ms": 55.95, "min_rtt_is_bound": True}),
        ("sister_mid_begun_late.pcap.gz", 1, {"vantage": "tap", "ahead_s": NAN, "min_rtt_is_bound": True}),
        ("sister_mid_path_4ms.pcap.gz", 1, {"vantage": "tap", "ahead_s": 0.008, "min_rtt_ms": 40.02, "rtt_ms": 40.6}),
        ("sister_receive_window_on_20Mbit_jitter.pcapng.gz", 1, {"is_limited": True, "mbps": 6.41}),
        ("snaplen54.pcap.gz", 1, {"options_cut": True, "is_limited": False, "min_rtt_ms": 40.02}),
    ],
)
def test_a_log_tells_where_and_how_it_was_taken(case: str, connections: int, expected: dict[str, Any]) -> None:
    found = read_log(CASES / case).connections
    assert len(found) == connections
    for one in found:
        told = {"delivered_bytes": one.delivered_bytes, **facts(one)}
        for name, value in expected.items():
            assert told[name] == (pytest.approx(value, rel=1e-3) if isinstance(value, float) else value), name
    tables = [one.table() for one in found]
    assert all(before[-1, 0] <= after[0, 0] for before, after in itertools.pairwise(tables))


def packed(content: bytes) -> bytes:
    """Return a tar archive, packed by gzip, the same each time."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        entry = tarfile.TarInfo("a.json")
        entry.size = len(content)
        tar.addfile(entry, io.BytesIO(content))
    return gzip.compress(archive.getvalue(), mtime=0)


@pytest.mark.parametrize(
    "change", [gzip.compress, lzma.compress, lambda text: text.decode().encode("utf-16"), b"\xef\xbb\xbf".__add__]
)
def test_a_log_may_be_packed_or_encoded_in_another_way(change: Callable[[bytes], bytes], tmp_path: Path) -> None:
    for text in (json.dumps(iperf3(*CLIENT)).encode(), ss(*EPOCH).encode()):
        assert len(only(read_log(written(tmp_path, change(text)))).table()) == 3


# ---- iperf3 ------------------------------------------------------------------------------------------------


def stream(begin_s: float, **fields: object) -> dict:
    return {"socket": 5, "start": begin_s, "end": begin_s + 1, "bytes": 1_448_000, **fields}


def iperf3(*streams: dict, **start: object) -> dict:
    begin = {"tcp_mss_default": 1448, "test_start": {"protocol": "TCP", **start}}
    end = {"sender_tcp_congestion": "bbr"}
    return {"start": begin, "intervals": [{"streams": [one]} for one in streams], "end": end}


CLIENT = [stream(at, retransmits=2, snd_cwnd=14_480, rtt=40_000, sender=True) for at in range(3)]


def test_iperf3_of_a_client_tells_what_its_socket_knows(tmp_path: Path) -> None:
    one = only(read_log(written(tmp_path, iperf3(*CLIENT))))
    assert (one.mss_bytes, one.cc, one.at_sender) == (1448, "bbr", True)
    assert column(one, "time_s") == [1, 2, 3]  # the first interval filled the send buffer
    assert column(one, "delivered_bytes") == [0, 1_448_000, 2_896_000]
    assert column(one, "retransmitted_pkts") == [0, 2, 4]
    assert column(one, "rtt_s")[1:] == [0.04] * 2
    assert column(one, "cwnd_pkts")[1:] == [10] * 2
    assert np.isnan(column(one, "min_rtt_s")).all()


def test_iperf3_with_a_target_rate_is_limited_by_its_application_and_omits_what_it_is_told(tmp_path: Path) -> None:
    omitted = [stream(at, omitted=True, bytes=10**9) for at in range(3)]
    one = only(read_log(written(tmp_path, iperf3(*omitted, *CLIENT, target_bitrate=1_000_000))))
    assert column(one, "app_limited")[1:] == [1] * 2
    assert column(one, "delivered_bytes") == [0, 1_448_000, 2_896_000]


def test_iperf3_line_by_line_is_the_same(tmp_path: Path) -> None:
    whole = iperf3(*CLIENT)
    events = [("start", whole["start"]), *(("interval", one) for one in whole["intervals"]), ("end", whole["end"])]
    text = "\n".join(json.dumps({"event": name, "data": data}) for name, data in events)
    by_line = only(read_log(written(tmp_path, text)))
    assert np.array_equal(by_line.table(), only(read_log(written(tmp_path, whole))).table(), equal_nan=True)
    cut = only(read_log(written(tmp_path, text[: text.rindex("interval") + 40])))
    assert len(cut.table()) == 2


def test_iperf3_tests_in_one_file_are_connections_in_turn(tmp_path: Path) -> None:
    tests = [iperf3(*CLIENT), iperf3(*CLIENT, stream(3, retransmits=0, sender=True)), iperf3(stream(0), protocol="UDP")]
    first, second = read_log(written(tmp_path, "\n".join(map(json.dumps, tests)))).connections
    assert (first.table()[-1, 0], second.table()[0, 0]) == (3, 4)
    for begun_s, test in zip([100, 160, 220], tests, strict=True):
        test["start"] |= {"timestamp": {"timesecs": begun_s}}
    assert read_log(written(tmp_path, tests)).connections[1].table()[0, 0] == 61


def test_iperf3_of_both_directions_tells_each(tmp_path: Path) -> None:
    log = iperf3(*CLIENT, *(stream(at, socket=7, sender=False) for at in range(3)))
    up, down = read_log(written(tmp_path, log)).connections
    assert (up.vantage, down.vantage) == ("sender", "receiver")
    assert column(down, "delivered_bytes")[-1] == 3 * 1_448_000
    assert np.isnan([column(down, "rtt_s")[1:], column(down, "retransmitted_pkts")[1:]]).all()


# ---- ss ----------------------------------------------------------------------------------------------------

INFO = (
    "\t bbr wscale:10,10 rto:248 rtt:47.751/0.311 mss:1448 pmtu:1488 rcvmss:536 advmss:1448 cwnd:68 ssthresh:34 "
    "bytes_sent:14122344 bytes_retrans:438744 bytes_acked:{acked} segs_out:9755 segs_in:5775 data_segs_out:9753 "
    "bbr:(bw:8037640bps,mrtt:40.894,pacing_gain:1.25,cwnd_gain:2) send 16496241bps lastsnd:4 lastrcv:13912 lastack:4 "
    "pacing_rate 9946584bps delivery_rate 8018888bps delivered:9411 {more}busy:13912ms unacked:40 retrans:1/{again} "
    "sacked:3 rcv_space:14480 rcv_ssthresh:64088 notsent:75296 minrtt:39.541 snd_wnd:1091584"
)
HEAD = "State Recv-Q Send-Q Local Address:Port  Peer Address:Port Process"
ENDS = "ESTAB 0      133216    198.51.100.1:37584   198.51.100.2:10000"


def ss(*times: str, ends: str = ENDS, separator: str = "\n") -> str:
    infos = [INFO.format(acked=1_448_000 * at, again=at, more="app_limited " * (at == 1)) for at in range(len(times))]
    return "".join(f"{time}\n{HEAD}\n{ends}{separator}{info}\n" for time, info in zip(times, infos, strict=True))


EPOCH = [f"{1_700_000_000 + at}.250000000" for at in range(3)]


@pytest.mark.parametrize(
    "times",
    [
        EPOCH,
        [f"# {time}" for time in EPOCH],
        [f"time:{(1_700_000_000_250 + 1000 * at) * 10**6}" for at in range(3)],
        [f"{1_700_000_000_250 + 1000 * at}" for at in range(3)],
        [f"{(1_700_000_000_250 + 1000 * at) * 10**6}" for at in range(3)],
        [f"2023-11-14T22:13:2{at}.25+00:00" for at in range(3)],
        [f"=== 2023-11-14 22:13:2{at}.25 ===" for at in range(3)],
    ],
)
def test_ss_is_read_with_times_in_any_usual_form(times: list[str], tmp_path: Path) -> None:
    one = only(read_log(written(tmp_path, ss(*times))))
    assert column(one, "time_s") == pytest.approx([1_700_000_000.25, 1_700_000_001.25, 1_700_000_002.25])
    assert column(one, "delivered_bytes") == [3 * 1448 + at * 1_448_000 for at in range(3)]
    assert column(one, "retransmitted_pkts") == [0, 1, 2]
    assert column(one, "app_limited") == [0, 1, 0]
    assert column(one, "rtt_s") == pytest.approx([0.047751] * 3)
    assert column(one, "min_rtt_s") == pytest.approx([0.039541] * 3)
    assert column(one, "cwnd_pkts") == [68] * 3
    assert (one.mss_bytes, one.cc) == (1448, "bbr")


@pytest.mark.parametrize(
    "times",
    [
        ["23:59:59", "00:00:00", "00:00:01"],
        [f"[12:00:0{at}.5]" for at in range(3)],
        ["Sat Nov 28 12:59:59 PM UTC 2026", "Sat Nov 28 01:00:00 PM UTC 2026", "Sat Nov 28 01:00:01 PM UTC 2026"],
    ],
)
def test_ss_is_read_with_times_of_day(times: list[str], tmp_path: Path) -> None:
    one = only(read_log(written(tmp_path, ss(*times).replace("busy:13912ms", ""))))
    assert np.diff(column(one, "time_s")).tolist() == [1, 1]


def test_ss_of_a_port_that_is_used_again_is_another_connection(tmp_path: Path) -> None:
    later = [str(float(at) + 100) for at in EPOCH]
    assert len(read_log(written(tmp_path, ss(*EPOCH) + ss(*later))).connections) == 2


@pytest.mark.parametrize("form", ["==== Time {} ====", "Time: {}", "time: {}.0 s"])
def test_ss_is_read_with_times_since_the_beginning(form: str, tmp_path: Path) -> None:
    one = only(read_log(written(tmp_path, ss(*(form.format(at) for at in range(3))))))
    assert column(one, "time_s") == [0, 1, 2]


@pytest.mark.parametrize("ends", [ENDS, ENDS.removeprefix("ESTAB "), "ESTAB 0 0 [2001:db8::1]:443 [2001:db8::2]:5000"])
@pytest.mark.parametrize("separator", ["\n", " "])
def test_ss_is_read_with_and_without_states_in_one_line_or_two(ends: str, separator: str, tmp_path: Path) -> None:
    assert len(only(read_log(written(tmp_path, ss(*EPOCH, ends=ends, separator=separator)))).table()) == 3


def test_ss_takes_the_time_at_which_the_kernel_answered(tmp_path: Path) -> None:
    late_s = [0.0, 0.3, 0.0]  # of a busy machine, between the log's time and ss
    times = [f"{1_700_000_000 + at - late:.3f}" for at, late in zip(range(3), late_s, strict=True)]
    text = ss(*times)
    for at in range(3):
        text = text.replace("busy:13912ms", f"busy:{5000 + at * 1000}ms", 1)
    assert np.diff(column(only(read_log(written(tmp_path, text))), "time_s")) == pytest.approx([1, 1])


def test_ss_of_a_receiver_tells_deliveries_alone(tmp_path: Path) -> None:
    lines = [
        f"{time}\n{ENDS}\n\t cubic rtt:0.1/0.1 rcvmss:1448 bytes_received:{at}000" for at, time in enumerate(EPOCH)
    ]
    one = only(read_log(written(tmp_path, "\n".join(lines))))
    assert not one.at_sender
    assert column(one, "delivered_bytes") == [0, 1000, 2000]
    assert np.isnan(column(one, "rtt_s")).all()


# ---- NDT7 --------------------------------------------------------------------------------------------------


def measurement(at: int) -> dict:
    info = {"ElapsedTime": at * 250_000, "BytesAcked": at * 10_000, "RTT": 50_000, "MinRTT": 41_000, "SndMSS": 1400}
    info |= {"TotalRetrans": at, "AppLimited": 0, "SndCwnd": 20, "Sacked": 1, "RcvMSS": 1380}
    info |= {"BytesReceived": at * 5000}
    return {"TCPInfo": info, "BBRInfo": {"BW": 60_655, "MinRTT": 35_762, "ElapsedTime": at}}


NDT7 = {"Download": {"ServerMeasurements": [measurement(at) for at in range(4)]}, "Upload": None}


@pytest.mark.parametrize("log", [NDT7, {"id": "x", "raw": NDT7}])
def test_ndt7_tells_what_the_servers_socket_knows(log: dict, tmp_path: Path) -> None:
    one = only(read_log(written(tmp_path, log)))
    assert (one.mss_bytes, one.cc, one.at_sender) == (1400, "bbr", True)
    assert column(one, "time_s") == [0, 0.25, 0.5, 0.75]
    assert column(one, "delivered_bytes") == [1400, 11_400, 21_400, 31_400]
    assert column(one, "min_rtt_s") == [0.041] * 4
    assert column(one, "retransmitted_pkts") == [0, 1, 2, 3]


def test_ndt7_of_an_upload_has_the_server_as_receiver(tmp_path: Path) -> None:
    one = only(read_log(written(tmp_path, {"Upload": NDT7["Download"]})))
    assert not one.at_sender
    assert column(one, "delivered_bytes") == [0, 5000, 10_000, 15_000]


def test_ndt7_line_by_line_is_the_same(tmp_path: Path) -> None:
    values = [{**measurement(at), "Test": "download"} for at in range(4)]
    text = "\n".join(json.dumps({"Key": "measurement", "Value": value}) for value in values)
    assert len(only(read_log(written(tmp_path, text))).table()) == 4


# ---- captures ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A capture at the sender, by the twin."""
    folder = tmp_path_factory.mktemp("capture")
    return write_trace(SCENARIO, folder, formats=["pcapng"]).files["pcapng"].read_bytes()


def as_pcap(pcapng: bytes, order: str, nanoseconds: bool) -> bytes:
    """Return the packets of a pcapng file of ours as pcap."""
    out = struct.pack(f"{order}IHHiIII", 0xA1B23C4D if nanoseconds else 0xA1B2C3D4, 2, 4, 0, 0, 65_535, 101)
    at = 0
    while at < len(pcapng):
        kind, size = struct.unpack_from("<II", pcapng, at)
        if kind == 6:
            _, high, low, captured, length = struct.unpack_from("<IIIII", pcapng, at + 8)
            seconds, part_ns = divmod(high << 32 | low, 10**9)
            part = part_ns if nanoseconds else part_ns // 1000
            out += struct.pack(f"{order}IIII", seconds, part, captured, length) + pcapng[at + 28 : at + 28 + captured]
        at += size
    return out


def test_a_capture_tells_what_the_sender_did(capture: bytes, tmp_path: Path) -> None:
    counts = write_trace(SCENARIO, tmp_path, formats=["csv"]).flows[0]
    one = only(read_log(written(tmp_path, capture)))
    assert (one.mss_bytes, one.at_sender) == (1448, True)
    assert column(one, "retransmitted_pkts")[-1] == pytest.approx(counts.retransmitted_pkts, abs=2)
    assert column(one, "delivered_bytes")[-1] == pytest.approx(counts.delivered_pkts * 1448, rel=0.01)
    assert counts.retransmitted_pkts > 0
    assert 0.040 <= column(one, "min_rtt_s")[-1] < 0.0416
    assert np.nanmax(column(one, "rtt_s")) == pytest.approx(0.0415 + 30_000 * 8 / 8e6, rel=0.03)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("nanoseconds", [False, True])
def test_a_pcap_of_either_byte_order_is_read(order: str, nanoseconds: bool, capture: bytes, tmp_path: Path) -> None:
    wanted = only(read_log(written(tmp_path, capture))).table()
    table = only(read_log(written(tmp_path, as_pcap(capture, order, nanoseconds)))).table()
    assert np.allclose(table[-1, :3], wanted[-1, :3], rtol=1e-3, atol=2e-6)


Frame = tuple[float, bytes, bool]  # time, from IP on, whether it is a copy


def frames(pcapng: bytes) -> list[Frame]:
    """Return the packets of a pcapng file of ours, with headers of IPv6."""
    found, at = [], 0
    while at < len(pcapng):
        kind, size = struct.unpack_from("<II", pcapng, at)
        if kind == 6:
            _, high, low, captured, _ = struct.unpack_from("<IIIII", pcapng, at + 8)
            ip = pcapng[at + 28 : at + 28 + captured]
            ends = b"".join(bytes(12) + ip[begin : begin + 4] for begin in (12, 16))
            head = struct.pack(">IHBB", 6 << 28, int.from_bytes(ip[2:4], "big") - 20, 6, 64) + ends
            found.append(((high << 32 | low) * 1e-9, head + ip[20:], False))
        at += size
    return found


def shifted(packets: list[Frame], seconds: float) -> list[Frame]:
    """Return packets as a tap sees them, so far behind the sender."""
    client = packets[0][1][8:24]
    moved = [(at + (seconds if ip[8:24] == client else -seconds), ip, copy) for at, ip, copy in packets]
    return sorted(moved, key=itemgetter(0))


def twice(packets: list[Frame], seconds: float) -> list[Frame]:
    return sorted(packets + [(at + seconds, ip, True) for at, ip, _ in packets], key=itemgetter(0))


def on_link(packets: list[Frame], link: int, head: bytes = b"") -> bytes:
    out = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65_535, link)
    for at, ip, is_copy in packets:
        way = struct.pack(">H", 4 * is_copy) if link == 113 else b""
        seconds, part = divmod(round(at * 1e9) + 10**9, 10**9)
        captured = len(way + head + ip)
        out += struct.pack("<IIII", seconds, part, captured, captured + 1448) + way + head + ip
    return out


COOKED = bytes(12) + b"\x86\xdd"


@pytest.mark.parametrize(
    ("link", "head"),
    [
        (1, bytes(12) + b"\x81\0\0\5\x86\xdd"),
        (1, bytes(12) + b"\x88\xa8\0\5\x81\0\0\6\x86\xdd"),
        (1, bytes(12) + b"\x81\0\0\5\x88\x64\x11\0\0\1\0\0\0\x57"),
        (1, bytes(12) + b"\x88\x47\0\1\0\x40\0\2\1\x40"),
        (9, b"\xff\3\0\x57"),
        (113, COOKED),
    ],
    ids=["VLAN", "QinQ", "PPPoE", "MPLS", "PPP", "cooked"],
)
def test_a_capture_is_read_through_what_its_link_adds(link: int, head: bytes, capture: bytes, tmp_path: Path) -> None:
    wanted = facts(only(read_log(written(tmp_path, capture))))
    told = facts(only(read_log(written(tmp_path, on_link(frames(capture), link, head)))))
    for name in ("mbps", "again", "min_rtt_ms"):
        assert told[name] == pytest.approx(wanted[name], rel=1e-6)


@pytest.mark.parametrize(("link", "later_s"), [(101, 2e-6), (101, 6e-5), (113, 6e-5), (113, 0.1)])
def test_a_frame_that_is_captured_twice_counts_once(link: int, later_s: float, capture: bytes, tmp_path: Path) -> None:
    wanted = facts(only(read_log(written(tmp_path, capture))))
    copies = on_link(twice(frames(capture), later_s), link, COOKED if link == 113 else b"")
    told = facts(only(read_log(written(tmp_path, copies))))
    assert told["again"] == wanted["again"]
    assert told["note"] == "each frame stands twice in it, and was taken once"


@pytest.mark.parametrize(("behind_s", "vantage"), [(0.0, "sender"), (0.002, "tap"), (0.015, "tap"), (0.02, "receiver")])
def test_a_capture_knows_its_place_by_the_handshake(
    behind_s: float, vantage: str, capture: bytes, tmp_path: Path
) -> None:
    one = only(read_log(written(tmp_path, on_link(shifted(frames(capture), behind_s), 101))))
    assert one.vantage == vantage
    assert one.ahead_s == pytest.approx(2 * behind_s if vantage == "tap" else 0.0)
    assert facts(one)["min_rtt_ms"] == pytest.approx(40.05, abs=0.05)


def segment(is_data: bool, sequence: int, acked: int) -> bytes:
    """Return headers of a segment with 1448 bytes of data, or of an ACK, over IPv6."""
    ends = (bytes(16), bytes(15) + b"\1")[:: 1 if is_data else -1]
    head = struct.pack(">IHBB16s16s", 6 << 28, 20 + 1448 * is_data, 6, 64, *ends)
    return head + struct.pack(">HHIIBBHHH", 1, 1, sequence, acked, 0x50, 0x10, 1000, 0, 0)


@pytest.mark.parametrize(("rtt_s", "vantage"), [(1e-5, "receiver"), (0.0205, "tap"), (0.02, "sender")])
def test_a_capture_without_a_handshake_knows_its_place_by_what_follows_what(
    rtt_s: float, vantage: str, tmp_path: Path
) -> None:
    sent = [(1.0 + at * 1e-3, segment(True, at * 1448, 1), False) for at in range(200)]
    acks = [(1.0 + at * 1e-3 + rtt_s, segment(False, 1, (at + 1) * 1448), False) for at in range(200)]
    one = only(read_log(written(tmp_path, on_link(sorted(acks + sent, key=itemgetter(0)), 101))))
    assert (one.vantage, one.min_rtt_is_bound) == (vantage, True)
    assert facts(one)["rtt_ms"] == (NAN if vantage == "receiver" else pytest.approx(rtt_s * 1e3))


def test_a_capture_that_breaks_off_is_read_to_there(capture: bytes, tmp_path: Path) -> None:
    whole = only(read_log(written(tmp_path, capture)))
    part = only(read_log(written(tmp_path, capture[: len(capture) // 2 + 7])))
    assert 0.2 * whole.delivered_bytes < part.delivered_bytes < 0.8 * whole.delivered_bytes


def test_damaged_captures_are_refused_in_one_sentence_or_read(capture: bytes, tmp_path: Path) -> None:
    draws = random.Random(1)
    short = capture[:20_000]
    refused = []
    for _ in range(100):
        damaged = bytearray(short)
        for _ in range(draws.choice([1, 10, 1000])):
            damaged[draws.randrange(len(damaged))] = draws.randrange(256)
        try:
            read_log(written(tmp_path, bytes(damaged)))
        except ConfigError as error:
            refused.append(str(error))
    assert len(refused) > 10
    assert not any("\n" in said for said in refused)


# ---- qlog --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sequence(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A qlog of the sender, by the twin."""
    folder = tmp_path_factory.mktemp("qlog")
    return write_trace(SCENARIO, folder, formats=["qlog"]).files["qlog"].read_bytes()


def quic(*events: tuple[float, str, dict]) -> dict:
    """Return a log of QUIC's."""
    named = [{"time": time_ms, "name": name, "data": data} for time_ms, name, data in events]
    return {"qlog_version": "0.3", "traces": [{"common_fields": {"protocol_type": ["QUIC"]}, "events": named}]}


def quic_packet(time_ms: float, number: int) -> tuple[float, str, dict]:
    header = {"packet_type": "1RTT", "packet_number": number}
    return time_ms, "transport:packet_sent", {"header": header, "raw": {"length": 1200}}


def quic_ack(time_ms: float, *ranges: tuple[int, int]) -> tuple[float, str, dict]:
    frame = {"frame_type": "ack", "acked_ranges": [list(one) for one in ranges]}
    return time_ms, "transport:packet_received", {"header": {"packet_type": "1RTT"}, "frames": [frame]}


QUIC = quic(
    *(quic_packet(1.0, number) for number in range(4)),
    (30.0, "recovery:metrics_updated", {"latest_rtt": 30.0, "min_rtt": 29.0, "congestion_window": 12_000}),
    quic_ack(30.0, (0, 0)),
    (40.0, "recovery:packet_lost", {"header": {"packet_type": "1RTT", "packet_number": 1}}),
    (45.0, "recovery:metrics_updated", {"latest_rtt": 40.0}),
    quic_ack(45.0, (0, 0), (2, 2)),
    quic_ack(60.0, (2, 2**62)),
)


def test_our_qlog_tells_what_our_capture_tells(sequence: bytes, capture: bytes, tmp_path: Path) -> None:
    counts = write_trace(SCENARIO, tmp_path, formats=["csv"]).flows[0]
    one, other = only(read_log(written(tmp_path, sequence))), only(read_log(written(tmp_path, capture)))
    assert (one.mss_bytes, one.at_sender) == (1448, True)
    assert column(one, "retransmitted_pkts")[-1] == pytest.approx(counts.lost_pkts, abs=2)
    assert counts.lost_pkts > 0
    assert column(one, "time_s") == pytest.approx(column(other, "time_s"))
    delivered = np.array([column(each, "delivered_bytes") for each in (one, other)])
    assert delivered[0, -1] == pytest.approx(delivered[1, -1], abs=3 * 1448)
    assert (delivered[0] == delivered[1]).mean() > 0.99  # of all ACKs, each with three SACK blocks at most
    assert np.nanmin(column(one, "min_rtt_s")) == pytest.approx(column(other, "min_rtt_s")[-1], abs=1e-4)


def test_qlog_of_quic_counts_each_packet_once(tmp_path: Path) -> None:
    one = only(read_log(written(tmp_path, QUIC)))
    assert one.mss_bytes == 1200
    assert column(one, "time_s") == pytest.approx([0.03, 0.045, 0.06])
    assert column(one, "delivered_bytes") == [1200, 2400, 3600]
    assert column(one, "retransmitted_pkts") == [0, 1, 1]
    assert column(one, "rtt_s") == pytest.approx([0.03, 0.04, 0.04])
    assert column(one, "min_rtt_s") == pytest.approx([0.029] * 3)
    assert column(one, "app_limited") == [0, 0, 1]
    assert column(one, "cwnd_pkts") == [10] * 3


def test_qlog_takes_a_packet_that_is_acknowledged_after_all_for_delivered(tmp_path: Path) -> None:
    lost = (40.0, "recovery:packet_lost", {"header": {"packet_type": "1RTT", "packet_number": 1}})
    sent = [quic_packet(1.0, number) for number in range(4)]
    one = only(read_log(written(tmp_path, quic(*sent, quic_ack(30.0, (0, 0)), lost, quic_ack(60.0, (1, 3))))))
    assert column(one, "delivered_bytes") == [1200, 4800]
    assert column(one, "retransmitted_pkts") == [0, 0]


def test_qlog_with_acks_of_unknown_packets_takes_time_in_proportion_to_its_size(tmp_path: Path) -> None:
    sent = [quic_packet(0.1 * number, number) for number in range(10_000)]
    acks = [quic_ack(1e3 + 20 * at, (at, at), (10**9 * at + 10**5, 10**9 * at + 10**6)) for at in range(10_000)]
    path = written(tmp_path, quic(*sent, *acks))
    begun_s = time.process_time()
    assert only(read_log(path)).delivered_bytes == 1200 * 9_999
    assert time.process_time() - begun_s < 2


def test_qlog_line_by_line_with_times_since_the_event_before_is_the_same(tmp_path: Path) -> None:
    trace = QUIC["traces"][0]
    times = [0.0, *(event["time"] for event in trace["events"])]
    deltas = np.diff(times).tolist()
    header = {"qlog_version": "0.3", "trace": {"common_fields": {"time_format": "delta"}}}
    events = [{**event, "time": delta} for event, delta in zip(trace["events"], deltas, strict=True)]
    by_line = only(read_log(written(tmp_path, "\n".join(map(json.dumps, [header, *events])))))
    assert np.allclose(by_line.table(), only(read_log(written(tmp_path, QUIC))).table())


def test_qlog_that_breaks_off_is_read_to_there_and_damage_before_is_refused(sequence: bytes, tmp_path: Path) -> None:
    whole = only(read_log(written(tmp_path, sequence)))
    part = only(read_log(written(tmp_path, sequence[: len(sequence) // 2 + 7])))
    assert 0.2 * whole.delivered_bytes < part.delivered_bytes < 0.8 * whole.delivered_bytes
    with pytest.raises(ConfigError, match="line 3 is not JSON"):
        read_log(written(tmp_path, b"\n".join([*sequence.split(b"\n")[:2], b"\x1e{", *sequence.split(b"\n")[2:]])))


# ---- damage ------------------------------------------------------------------------------------------------

PCAP = struct.pack("<IHHiII", 0xA1B2C3D4, 2, 4, 0, 0, 65_535)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (packed(b"{}"), "an archive of tar, expected one log"),
        (gzip.compress(b"{}", mtime=0)[:-9], "packed, and damaged or cut short"),
        (b"PK\3\4", "an archive of ZIP, expected one log"),
        (b'{"start": {', "JSON that breaks off"),
        (b'{"a": 1}\n{"b', "not JSON of a known format, expected iperf3 --json, NDT7, qlog$"),
        (iperf3(stream(0), protocol="UDP"), "without TCP, expected one of TCP"),
        ({"start": {}, "intervals": [], "end": {}, "error": "unable to connect"}, "a test of iperf3's that failed"),
        (iperf3(), "without a connection that delivered data"),
        (iperf3({"socket": "a"}, {"socket": 5, "start": None, "end": [], "bytes": {}}), "without a connection"),
        (ss("", ""), "without times, expected a time before each"),
        (PCAP + struct.pack("<I", 1) + b"\xff" * 16, "a packet states more than"),
        (PCAP + struct.pack("<I", 127) + bytes(8) + b"\4\0\0\0\4\0\0\0abcd", "type 127"),
        (struct.pack("<III", 0x0A0D0D0A, 2**31, 0x1A2B3C4D), "a block states 2147483648 bytes"),
        (
            {"qlog_version": "0.3", "traces": [{"events": [None, {"time": 1, "name": []}]}]},
            "a log of qlog without a connection",
        ),
        (
            {"qlog_version": "draft-01", "traces": [{"event_fields": ["time"], "events": [[0]]}]},
            r"before 0\.2, expected 0\.2 or later",
        ),
    ],
)
def test_what_is_not_a_log_or_without_a_measurement_is_refused(content: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=said):
        read_log(written(tmp_path, content))


ODD = [None, True, -1, 0, 1e300, -1e300, 2**70, "", "a" * 1000, [], {}, [[]], {"a": 1}, float("nan")]


def damaged(value: Any, draws: random.Random) -> Any:
    """Return a JSON value in which some part is another one."""
    if draws.random() < 0.02:
        return draws.choice(ODD)
    if isinstance(value, dict):
        return {name: damaged(one, draws) for name, one in value.items() if draws.random() > 0.01}
    if isinstance(value, list):
        return [damaged(one, draws) for one in value]
    return value


def damaged_text(text: bytes, draws: random.Random) -> bytes:
    """Return a text in which some bytes are others, at times cut short."""
    changed = bytearray(text)
    for _ in range(draws.choice([1, 5, 50])):
        changed[draws.randrange(len(changed))] = draws.choice(b"0129.:-/ \n\xffae")
    return bytes(changed[: draws.randrange(len(changed))] if draws.random() < 0.2 else changed)


@pytest.mark.parametrize(
    ("log", "damage"),
    [(iperf3(*CLIENT, num_streams=1), damaged), (NDT7, damaged), (QUIC, damaged), (ss(*EPOCH).encode(), damaged_text)],
    ids=["iperf3", "NDT7", "qlog", "ss"],
)
def test_a_damaged_log_is_refused_in_one_sentence_or_fitted(log: Any, damage: Any, tmp_path: Path) -> None:
    draws = random.Random(2)
    fitted = sum(fits_or_refuses(tmp_path, damage(log, draws)) for _ in range(300))
    assert 20 < fitted < 300


def fits_or_refuses(folder: Path, content: Any) -> bool:
    try:
        fit = fit_path(read_log(written(folder, content)))
    except ConfigError as error:
        refusal = str(error)
    else:
        return math.isfinite(fit.duration_s) and fit.duration_s > 0
    assert "\n" not in refusal
    return False


# ---- bounds ------------------------------------------------------------------------------------------------


def test_a_connection_keeps_a_bounded_number_of_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "MAX_SAMPLES", 64)
    one = Connection("one")
    for at in range(10_000):
        one.add(float(at), float(at))
    table = one.table()
    assert 32 <= len(table) < 64
    assert len(set(np.diff(table[:, 0]))) == 1
    assert table[-1, 0] > 9_000


def test_samples_that_go_back_are_not_taken() -> None:
    one = Connection("one")
    for time_s, delivered in [(0.0, 0.0), (1.0, 10.0), (0.5, 20.0), (2.0, 5.0), (3.0, float("nan")), (4.0, 30.0)]:
        one.add(time_s, delivered)
    assert column(one, "time_s") == [0, 1, 4]
    assert one.skipped == 2


def test_of_too_many_connections_the_largest_stay() -> None:
    connections = Connections()
    for key in range(samples.MAX_CONNECTIONS * 2):
        for at in range(2):
            connections[key].add(float(at), at * (1e6 if key == 3 else 1.0))
    kept = connections.all()
    assert len(kept) <= samples.MAX_CONNECTIONS
    assert max(one.delivered_bytes for one in kept) == 1e6
