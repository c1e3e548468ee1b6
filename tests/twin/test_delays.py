# SPDX-License-Identifier: GPL-2.0-only
"""Paths whose delay moves: closed forms, what the score takes for their base RTT, files."""

from pathlib import Path

import numpy as np
import pytest
from twin_harness import Mapping, Simulation, flow, scenario

import bbrgym
from bbrgym.worlds.score import base_rtts_ms, score_of_run

STEPS = {"delays_ms": [10.0, 60.0, 0.0], "step_ms": 700.0}
PACKET_MS = 1488 * 8e-3 / 10.0


def test_each_packet_takes_the_delay_of_its_departure() -> None:
    """None queues or waits for an ACK: propagation, 1.19 ms of transmission and the step of its departure."""
    lone = flow(app={"kind": "cbr", "rate_mbps": 0.1}, stack={"preset": "ns3", "delayed_ack_segments": 1})
    simulation = Simulation(scenario(lone, delay_trace=STEPS))
    simulation.native.trace_acks(0, 0, 1000)
    simulation.advance()
    trace = simulation.native.ack_trace(0, 0)
    trace = trace[trace["rtt_us"] > 0][1:]  # the first one waits for the handshake's last packet
    sent_ms = (trace["time_us"] - trace["rtt_us"]) / 1e3
    departed_ms = sent_ms + 10.0 + PACKET_MS  # it takes 10 ms to the queue
    delays_ms = np.array(STEPS["delays_ms"])[(departed_ms // STEPS["step_ms"]).astype(int) % 3]
    assert len(set(delays_ms)) == 3
    assert len(trace) > 60
    waits_ms = trace["rtt_us"] / 1e3 - (40.0 + PACKET_MS + delays_ms)
    assert np.abs(waits_ms).max() < 0.002


def test_a_trace_of_one_delay_is_a_longer_link() -> None:
    moved = scenario(flow(rtt_ms=30.0), delay_ms=5.0, delay_trace={"delays_ms": [10.0]}, queue={"size_packets": 50})
    longer = scenario(flow(rtt_ms=40.0), delay_ms=15.0, queue={"size_packets": 50})
    shown = [Simulation(mapping) for mapping in (moved, longer)]
    for one in shown:
        one.advance()
    assert shown[0].summary().flow("goodput_mbps") == pytest.approx(shown[1].summary().flow("goodput_mbps"), rel=0.01)
    assert base_rtts_ms(bbrgym.load_scenario(moved), np.zeros(1), np.full(1, 10.0)) == pytest.approx([40.0])


@pytest.mark.parametrize("reorder", [False, True])
def test_a_fall_reorders_if_the_link_does(reorder: bool) -> None:
    falls = [{"at_s": 3.0, "delay_ms": 60.0}, {"at_s": 6.0, "delay_ms": 10.0}]
    for link in ({"changes": falls}, {"delay_trace": {"delays_ms": [0.0, 50.0], "step_ms": 3000.0}}):
        ends = flow(app={"kind": "bulk", "size_bytes": 8_000_000})  # after 7 s; nothing is on its way then
        deep = scenario(ends, reorder=reorder, **{**link, "queue": {"size_packets": 500}})
        simulation = Simulation({**deep, "warmup_s": 0.0})
        simulation.advance()
        assert (simulation.summary().flow("out_of_order_rate") > 0) is reorder


def test_the_base_rtt_of_a_window_is_the_mean_of_the_paths() -> None:
    moving = bbrgym.load_scenario(
        scenario(
            flow(start_s=1.0),
            flow("back", rtt_ms=50.0, direction="reverse"),
            delay_trace={"delays_ms": [10.0, 30.0], "step_ms": 1000.0},
            changes=[{"at_s": 4.0, "delay_ms": 20.0}, {"at_s": 6.0, "rate_mbps": 5.0}],
            reverse={"rate_mbps": 5.0, "queue": {"size_packets": 50}, "changes": [{"at_s": 9.0, "delay_ms": 11.0}]},
        )
    )
    start_s, stop_s = np.array([1.0, 0.0]), np.array([10.0, 3.5])
    of_trace = (5 * 30.0 + 4 * 10.0) / 9.0
    first = 40.0 + of_trace + 6.0 / 9.0 * 10.0 + 1.0 / 9.0 * 10.0
    second = 50.0 + (10.0 + 30.0 + 10.0 + 0.5 * 30.0) / 3.5
    assert base_rtts_ms(moving, start_s, stop_s) == pytest.approx([first, second])
    assert base_rtts_ms(moving, np.full(2, np.nan), np.full(2, np.nan)).tolist() == [40.0, 50.0]
    resting = bbrgym.load_scenario(scenario(changes=[{"at_s": 4.0, "rate_mbps": 5.0}]))
    assert base_rtts_ms(resting, np.zeros(1), np.ones(1)).tolist() == [40.0]


@pytest.mark.parametrize("cc", ["cubic", "bbr"])
def test_a_flow_alone_scores_on_a_longer_path_as_if_it_had_always_been_so(cc: str) -> None:
    """RTT and base RTT rise alike; queueing delay and fair share are those of the queue and the rate."""
    queue = {"size_packets": 30}
    moved = scenario(flow(cc=cc), delay_trace={"delays_ms": [20.0]}, queue=queue, duration_s=30.0)
    always = scenario(flow(cc=cc, rtt_ms=60.0), queue=queue, duration_s=30.0)
    rows = []
    for mapping in (moved, always):
        with bbrgym.make_world("twin", mapping, seed=1) as world:
            world.advance(30.0)
            flows, _ = world.summary()
            summary = dict(zip(world.flow_summary_fields, flows[0], strict=True))
            score = score_of_run(world.scenario, world.flow_summary_fields, flows)
            rows.append((score, summary["queue_delay_mean_ms"], summary["fair_share_mbps"]))
    assert rows[0] == pytest.approx(rows[1], rel=0.05, abs=0.05)


# ---- files -------------------------------------------------------------------------------------------------


def test_a_pair_of_files_is_read(tmp_path: Path) -> None:
    (tmp_path / "delay.txt").write_text("12\n12\n16.5\n7\n")
    (tmp_path / "bw.txt").write_text("\n".join(map(str, range(1, 41))))
    text = "duration_s: 5\nflows: [{name: a, rtt_ms: 2}]\nlink:\n  trace_path: bw.txt\n  queue: {size_bdp: 1}\n"
    (tmp_path / "leo.yaml").write_text(f"{text}  delay_trace: {{path: delay.txt}}\n")
    resolved = bbrgym.load_scenario(tmp_path / "leo.yaml").resolved()
    assert resolved.link.delay_trace is not None
    assert resolved.link.delay_trace.delays_ms == (12.0, 12.0, 16.5, 7.0)
    assert resolved.link.queue.size_bytes == round(12.0 * 125 * (2.0 + 47.5 / 4)), "the mean delay is part of the BDP's"
    again = bbrgym.load_scenario(resolved.model_dump(mode="json", exclude_none=True))
    assert again.resolved_json() == resolved.resolved_json()


BAD_FILES = [
    ("", "has 0 delays, expected 1 to 1000000"),
    ("12\nx\n", "line 2 of {} is no number, expected a delay in ms from 0 to 5000"),
    ("12\n-3\n", "line 2 of {} is '-3', expected a delay in ms from 0 to 5000"),
    ("12\n5001\n", "line 2 of {} is '5001', expected a delay in ms from 0 to 5000"),
]


@pytest.mark.parametrize(("text", "problem"), BAD_FILES)
def test_a_bad_file_is_one_error(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "delay.txt"
    path.write_text(text)
    with pytest.raises(bbrgym.ScenarioError) as error:
        bbrgym.load_scenario(scenario(delay_trace={"path": str(path)}))
    assert problem.format(path) in str(error.value)
    assert "link.delay_trace.path" in str(error.value)


BACK: Mapping = {"rate_mbps": 1.0, "queue": {"size_packets": 9}}
BAD = [
    ({"delay_trace": {}}, "link.delay_trace: has neither of path and delays_ms, expected one of them"),
    ({"delay_trace": {"path": "a", "delays_ms": [1.0]}}, "link.delay_trace: has both of path and delays_ms"),
    ({"delay_trace": {"delays_ms": [-1.0]}}, "link.delay_trace.delays_ms[0]: is -1.0, expected a number >= 0"),
    ({"delay_trace": {"delays_ms": [1.0], "step_ms": 0}}, "link.delay_trace.step_ms: is 0, expected a number >= 0.001"),
    ({"reorder": True}, "link.reorder: is true, expected a delay_trace or changes of delay_ms"),
    ({"reorder": 2}, "link.reorder: is 2, expected true or false"),
    ({"reverse": {**BACK, "reorder": True}}, "link.reverse.reorder: is not a field"),
]


@pytest.mark.parametrize(("link", "problem"), BAD)
def test_a_bad_field_is_one_error(link: Mapping, problem: str) -> None:
    with pytest.raises(bbrgym.ScenarioError) as error:
        bbrgym.load_scenario(scenario(**link))
    assert problem in str(error.value)


def test_acks_are_not_reordered() -> None:
    moving = {"delay_trace": {"delays_ms": [1.0, 0.0]}, "reorder": True}
    with pytest.raises(bbrgym.ScenarioError, match=r"with link\.reorder, which would reorder its ACKs"):
        bbrgym.load_scenario(scenario(flow(direction="reverse"), **moving, reverse=BACK))
