# SPDX-License-Identifier: GPL-2.0-only
"""Traces of a run: their rows agree with the run's summary, the worlds and formats with each other."""

import csv
import json
import struct
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from machine_needs import needs

import bbrgym
from bbrgym.cli.main import main
from bbrgym.scenario.model import Scenario
from bbrgym.trace import FORMATS, write_trace
from bbrgym.trace.rows import (
    ACK_ARRIVED,
    ACK_SENT,
    ARRIVED,
    FLAG_BITS,
    MARKED,
    MARKED_LOST,
    POLICED,
    QUEUE_DROPPED,
    RANDOM_LOST,
    RETRANSMISSION,
    SENT,
    TIMEOUT,
    Rows,
)

WORLDS = ("twin", "ns3")
SHALLOW = {"queue": {"kind": "droptail", "size_packets": 12}}
LOSSY = {"queue": {"kind": "droptail", "size_packets": 60}, "loss": {"kind": "bernoulli", "rate": 0.01}}
MARKING = {"queue": {"kind": "droptail", "size_packets": 100, "ecn_threshold_packets": 8}}
POLICER = {"queue": {"kind": "droptail", "size_packets": 60}, "policer": {"rate_mbps": 6.0, "burst_bytes": 30000}}
QUEUE = {"kind": "droptail", "size_packets": 40}
BURSTY = {"queue": QUEUE, "acks": {"kind": "bursts", "packets": 8, "timeout_ms": 5.0}}
OUTAGE = {"queue": QUEUE, "changes": [{"at_s": 1.0, "loss_rate": 0.9}, {"at_s": 1.5, "loss_rate": 0.0}]}
RED = {"kind": "red", "size_packets": 60, "red": {"min_bytes": 15000, "max_bytes": 45000, "max_probability": 0.1}}
EARLY = {"queue": {**RED, "ecn": True}}
FAIR = {"queue": {"kind": "fq_codel", "size_packets": 20, "ecn": True}}
LATE = {"queue": QUEUE, "jitter": {"share": 0.05, "delay_ms": 8.0, "reorder": True}}
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "shallow": (SHALLOW, {"cc": "bbr"}),
    "lossy": (LOSSY, {"cc": "bbr3"}),
    "marking": (MARKING, {"cc": "bbr3", "stack": {"ecn": True, "ecn_precise": True}}),
    "policed": (POLICER, {"cc": "cubic"}),
    "bursty": (BURSTY, {"cc": "bbr"}),
    "outage": (OUTAGE, {"cc": "cubic"}),
    "early": (EARLY, {"cc": "reno", "stack": {"ecn": True}}),
    "fair": (FAIR, {"cc": "cubic", "stack": {"ecn": True}}),
    "late": (LATE, {"cc": "bbr-mix"}),
    "window": (SHALLOW, {"cc": "cubic", "stack": {"receive_buffer_bytes": 200_000}}),
}


def scenario_of(case: str, flows: int = 1, duration_s: float = 3.0) -> Scenario:
    link, flow = CASES[case]
    one = {"role": "tuned", "rtt_ms": 40.0, **flow}
    return bbrgym.load_scenario(
        {
            "name": case,
            "link": {"rate_mbps": 10.0, "delay_ms": 1.0, **link},
            "flows": [{"name": f"f{index}", "start_s": 0.3 * index, **one} for index in range(flows)],
            "duration_s": duration_s,
        }
    )


def rows_of(world: str, scenario: Scenario, step_s: float = 0.5) -> tuple[np.ndarray, np.ndarray, Any]:
    """Return packets, decisions (with `after` counted over the whole run) and the sums of the flows' intervals."""
    packets, decisions, before, counts = [], [], 0, 0.0
    with bbrgym.make_world(world, scenario, 1, isolation="none") as run:
        run.trace_packets()
        while not run.done:
            run.advance(step_s)
            new_packets, new_decisions = run.take_packets()
            new_decisions["after"] += before
            before += len(new_packets)
            packets.append(new_packets)
            decisions.append(new_decisions)
            counts = counts + run.flow_stats()
        fields = run.flow_fields
        counts = {name: counts[:, column] for column, name in enumerate(fields)}
        counts["goodput_bytes"] = counts["goodput_mbps"] * 1e6 / 8 * step_s
    return np.concatenate(packets), np.concatenate(decisions), counts


def in_order_bytes(arrivals: np.ndarray) -> int:
    """Return how many bytes of the stream have arrived without a gap."""
    ends, end = {}, 0
    for offset, payload in arrivals[["offset_bytes", "payload_bytes"]].tolist():
        ends[offset] = offset + payload
    while end in ends:
        end = ends[end]
    return end


@pytest.mark.parametrize("case", CASES)
def test_both_worlds_log_the_same_rows_which_agree_with_what_each_run_counts(case: str) -> None:
    (twin, decided, _), (ns3, decided_ns3, _) = logged = [rows_of(world, scenario_of(case, 2)) for world in WORLDS]
    assert len(twin) > 1000
    rows = min(len(twin), len(ns3))
    differs = np.flatnonzero(twin[:rows] != ns3[:rows])[:1]
    assert differs.size == 0, (twin[differs], ns3[differs])
    assert twin.tobytes() == ns3.tobytes()
    assert decided.tobytes() == decided_ns3.tobytes()
    for packets, decisions, counts in logged:
        check_counts(packets, decisions, counts)
    if case == "marking":
        assert (twin["event"] == MARKED).sum() > 10
        assert (twin["flags"] & FLAG_BITS["ece"] != 0).sum() > 10
    if case == "outage":
        assert (twin["event"] == TIMEOUT).sum() > 0
    if case == "window":
        windows = twin[twin["event"] == ACK_SENT]["window_bytes"]
        assert 0 < windows.max() < 300_000
        assert len(np.unique(windows)) > 3


def check_counts(packets: np.ndarray, decisions: np.ndarray, counts: Any) -> None:
    """Hold the rows of two flows against the sums of their intervals."""
    assert (np.diff(packets["time_ns"]) >= 0).all()
    drops = (QUEUE_DROPPED, POLICED, RANDOM_LOST)
    for flow in range(2):
        own = packets[packets["flow"] == flow]
        data = own[own["payload_bytes"] > 0]
        sent = data[data["event"] == SENT]
        assert len(sent) == counts["sent_pkts"][flow] > 100
        assert ((sent["flags"] & RETRANSMISSION) != 0).sum() == counts["retransmitted_pkts"][flow]
        assert (own["event"] == MARKED_LOST).sum() == counts["lost_pkts"][flow]
        assert (own["event"] == TIMEOUT).sum() == counts["rto_count"][flow]
        assert np.isin(data["event"], drops).sum() == counts["dropped_pkts"][flow]
        assert (own["event"] == MARKED).sum() == counts["ecn_marked_pkts"][flow]
        assert in_order_bytes(data[data["event"] == ARRIVED]) == round(counts["goodput_bytes"][flow])
        acks = own[(own["event"] == ACK_ARRIVED) & (own["flags"] & FLAG_BITS["syn"] == 0)]
        assert len(acks) == (decisions["flow"] == flow).sum()
        assert (decisions["flow"] == flow).sum() > 100


def test_ns3_s_own_controls_show_their_packets_alone(tmp_path: Path) -> None:
    fields = scenario_of("lossy").model_dump()
    fields["flows"][0].update(cc="ns3-cubic", role="background")
    scenario = bbrgym.load_scenario(fields)
    packets, decisions, counts = rows_of("ns3", scenario)
    assert len(decisions) == 0
    sent = packets[(packets["event"] == SENT) & (packets["payload_bytes"] > 0)]
    assert len(sent) == counts["sent_pkts"][0] > 100
    assert ((sent["flags"] & RETRANSMISSION) != 0).sum() == counts["retransmitted_pkts"][0] > 0
    assert len(write_trace(scenario, tmp_path, formats=tuple(FORMATS), world="ns3").files) == len(FORMATS)


def test_the_size_of_the_steps_changes_no_row() -> None:
    fine, coarse = (rows_of("twin", scenario_of("lossy", 2), step_s)[:2] for step_s in (0.1, 1.5))
    assert [part.tobytes() for part in fine] == [part.tobytes() for part in coarse]


@pytest.mark.parametrize("world", WORLDS)
def test_a_log_changes_nothing_of_the_run(world: str) -> None:
    summaries = []
    for is_logged in (False, True):
        with bbrgym.make_world(world, scenario_of("lossy", 2), 1, isolation="none") as run:
            if is_logged:
                run.trace_packets()
            run.advance(3.0)
            summaries.append(b"".join(table.tobytes() for table in run.summary()))
    assert summaries[0] == summaries[1]


@pytest.mark.parametrize("world", WORLDS)
def test_a_log_begins_with_the_run_and_in_this_process(world: str) -> None:
    with bbrgym.make_world(world, scenario_of("shallow"), 1, isolation="none") as run:
        run.advance(0.1)
        with pytest.raises(ValueError, match="from a run's beginning on: ask before its first advance"):
            run.trace_packets()
    with (
        bbrgym.make_world(world, scenario_of("shallow"), 1, isolation="process") as run,
        pytest.raises(bbrgym.ConfigError, match=r"trace of packets: .* has none; allowed are .* isolation none"),
    ):
        run.trace_packets()


def test_a_long_run_is_handed_over_in_small_parts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    sizes: list[int] = []

    class Recorder:
        def __init__(self, *_: Any) -> None: ...

        def write(self, rows: Rows) -> None:
            sizes.append(len(rows.packets))

    monkeypatch.setitem(FORMATS, "csv", FORMATS["csv"]._replace(writer=Recorder))
    fast = {"rate_mbps": 200.0, "queue": {"kind": "droptail", "size_bdp": 1.0}}
    flow = {"name": "f", "cc": "bbr", "rtt_ms": 20.0}
    write_trace({"name": "fast", "link": fast, "flows": [flow], "duration_s": 4.0}, tmp_path, formats=["csv"])
    assert sum(sizes) > 250_000
    assert max(sizes) < 110_000


# ---- files --------------------------------------------------------------------------------------------------


def qlog_events(path: Path) -> list[dict[str, Any]]:
    records = path.read_text(encoding="utf-8").split("\x1e")
    assert records[0] == ""
    assert all(record.endswith("\n") for record in records[1:])
    header, *events = [json.loads(record) for record in records[1:]]
    assert (header["qlog_version"], header["qlog_format"]) == ("0.3", "JSON-SEQ")
    return events


def captured(path: Path) -> list[tuple[int, bytes, int]]:
    """Return the packets of a pcapng file: time, captured bytes and length."""
    data, at, found = path.read_bytes(), 0, []
    while at < len(data):
        kind, size = struct.unpack_from("<II", data, at)
        assert struct.unpack_from("<I", data, at + size - 4)[0] == size
        assert size % 4 == 0
        if kind == 6:
            _, high, low, kept, length = struct.unpack_from("<5I", data, at + 8)
            found.append((high << 32 | low, data[at + 28 : at + 28 + kept], length))
        at += size
    return found


@pytest.fixture(scope="module", params=WORLDS)
def traced(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    folder = tmp_path_factory.mktemp("traced")
    return write_trace(scenario_of("lossy", 2), folder, formats=tuple(FORMATS), world=request.param), folder


def test_the_formats_agree(traced: tuple[Any, Path]) -> None:
    result, folder = traced
    assert {path.name for path in folder.iterdir()} == {"trace.sqlog", "trace.pcapng", "trace.csv"}
    expected = {flow.name: (flow.sent_pkts, flow.retransmitted_pkts, flow.lost_pkts) for flow in result.flows}
    assert all(again > 5 for _, again, _ in expected.values())

    found: dict[str, Counter[str]] = {name: Counter() for name in expected}
    for event in qlog_events(result.files["qlog"]):
        found[event["group_id"]][event["name"]] += 1
        found[event["group_id"]]["again"] += "is_retransmission" in event["data"]
    assert expected == {
        name: (one["transport:packet_sent"], one["again"], one["recovery:packet_lost"]) for name, one in found.items()
    }

    with result.files["csv"].open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for name, (sent, again, lost) in expected.items():
        own = [row for row in rows if row["flow"] == name]
        data = [row for row in own if row["event"] == "sent" and row["payload_bytes"] != "0"]
        assert len(data) == sent
        assert sum("retransmission" in row["flags"] for row in data) == again
        assert sum(row["event"] == "marked_lost" for row in own) == lost
        assert sum(row["event"] == "decision" for row in own) == found[name]["transport:packet_received"]

    total = [sum(column) for column in zip(*expected.values(), strict=True)]

    packets = captured(result.files["pcapng"])
    assert sum(length > 100 for _, _, length in packets) == total[0]
    sequences = Counter((packet[12:16], packet[24:28]) for _, packet, length in packets if length > 100)
    assert sum(count - 1 for count in sequences.values()) == total[1]


def test_an_ack_of_a_qlog_names_transmissions_once(traced: tuple[Any, Path]) -> None:
    for flow in traced[0].flows:
        sent: set[int] = set()
        acked: Counter[int] = Counter()
        for event in qlog_events(traced[0].files["qlog"]):
            if event["group_id"] != flow.name:
                continue
            if event["name"] == "transport:packet_sent":
                assert event["data"]["header"]["packet_number"] == len(sent)
                sent.add(len(sent))
            elif event["name"] == "transport:packet_received":
                for first, last in event["data"]["frames"][0]["acked_ranges"]:
                    acked.update(range(first, last + 1))
            elif event["name"] == "recovery:packet_lost":
                assert event["data"]["header"]["packet_number"] in sent
        assert set(acked) <= sent
        assert set(acked.values()) == {1}
        assert len(acked) == flow.delivered_pkts


def test_a_qlog_has_the_metrics_that_bbr_is_judged_by(traced: tuple[Any, Path]) -> None:
    events = qlog_events(traced[0].files["qlog"])
    last = [event["data"] for event in events if event["name"] == "recovery:metrics_updated"][-1]
    of_bytes, of_times = ("congestion_window", "bytes_in_flight"), ("smoothed_rtt", "min_rtt")
    for name in (*of_bytes, *of_times, "pacing_rate", "bandwidth_estimate"):
        assert last[name] > 0
    assert last["min_rtt"] >= 40
    states = [event["data"]["new"] for event in events if event["name"] == "recovery:congestion_state_updated"]
    assert states[0] == "STARTUP"
    assert "PROBE_BW cruise" in states


@needs("tshark")
@pytest.mark.parametrize("case", ["lossy", "policed", "outage", "late"])
def test_wireshark_finds_the_same_retransmissions(case: str, tmp_path: Path) -> None:
    result = write_trace(scenario_of(case, 2), tmp_path, formats=["pcapng"])
    found = ("retransmission", "fast_retransmission", "spurious_retransmission", "out_of_order")
    kinds = [f"tcp.analysis.{kind}" for kind in found]
    shown = ["tcp.stream", "tcp.len", "ip.checksum.status", "tcp.options.sack_le", *kinds]
    options = [word for name in shown for word in ("-e", name)]
    checks = ["-o", "ip.check_checksum:TRUE"]
    command = ["tshark", "-r", str(result.files["pcapng"]), *checks, "-T", "fields", "-E", "separator=;", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    rows = [dict(zip(shown, line.split(";"), strict=True)) for line in done.stdout.splitlines()]
    assert {row["ip.checksum.status"] for row in rows} <= {"1", "Good"}
    assert any(row["tcp.options.sack_le"] for row in rows)
    for stream, flow in enumerate(result.flows):
        own = [row for row in rows if row["tcp.stream"] == str(stream)]
        assert sum(row["tcp.len"] not in ("", "0") for row in own) == flow.sent_pkts
        assert sum(any(row[kind] for kind in kinds) for row in own) == flow.retransmitted_pkts


# ---- whole or absent ----------------------------------------------------------------------------------------


def test_what_ends_a_run_leaves_no_file(tmp_path: Path) -> None:
    def stop(now_s: float) -> None:
        if now_s > 0.5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_trace(scenario_of("shallow"), tmp_path, formats=tuple(FORMATS), on_progress=stop)
    assert list(tmp_path.iterdir()) == []


def test_the_same_run_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_trace(scenario_of("lossy"), tmp_path / name, formats=tuple(FORMATS))
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


# ---- the command -------------------------------------------------------------------------------------------


SHORT = ["trace", "scenario=steady", "scenario.duration_s=1"]


def test_it_writes_a_run_folder_and_shows_the_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "look"
    options = ["variant=bbq", "tunables.bbq_alpha_us=1000", "format=[pcapng,csv]", f"output_dir={folder}", "seed=4"]
    assert main([*SHORT, *options]) == 0
    said = capsys.readouterr().out
    assert "marked lost" in said
    assert f"pcapng: {folder / 'trace.pcapng'}" in said.replace("\n", "")
    names = {path.name for path in folder.iterdir() if path.name != ".lock"}
    assert names == {"config.yaml", "provenance.json", "trace.pcapng", "trace.csv"}
    config = yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8"))
    assert config["scenario"]["flows"][0]["cc"] == "bbq"
    assert config["seed"] == 4


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["format=qlgo"], "format: is 'qlgo'; did you mean qlog?"),
        (["format=[csv,csv]"], "format: is ['csv', 'csv'], expected each once"),
        (["format=3"], "format: is 3, expected one of qlog, pcapng, csv, or a list of them"),
        (["variant=bbrr"], "did you mean bbr"),
        (["variant=null", "tunables.bbq_alpha_us=1000"], "tunables: are {'bbq_alpha_us': 1000.0} with variant=null"),
        (["seed=-1"], "seed: is -1, expected a number >= 0"),
        (["world=[twin,ns3]"], "world: "),
        (["world=linux"], "world: is 'linux', which has no trace of packets; allowed are ns3, twin"),
        (["world.twin.isolation=process"], "world.twin.isolation: is given, but a trace runs in this process"),
    ],
)
def test_a_mistake_is_one_clear_line(
    options: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([*SHORT, *options]) == 2
    error = capsys.readouterr().err.strip()
    assert error.startswith("bbrgym: ")
    assert "\n" not in error
    assert says in error
    assert list(tmp_path.rglob("*")) == [] or [path.name for path in tmp_path.rglob("trace.*")] == []


def test_a_distribution_needs_a_draw(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["trace", "scenario=wan_mix", f"output_dir={tmp_path / 'drawn'}"]
    assert main(options) == 2
    assert "wan_mix is a distribution, expected the number of a draw" in capsys.readouterr().err
    assert main([*options, "draw=3", "scenario.duration_s=5", "scenario.link.rate_mbps=2", "format=csv"]) == 0
    assert (tmp_path / "drawn" / "trace.csv").stat().st_size > 10_000
