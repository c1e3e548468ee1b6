# SPDX-License-Identifier: GPL-2.0-only
"""The radio between the bottleneck and the receivers: its rate, its delay, its randomness, and its end."""

import json
import subprocess
import sys

import pytest
from native_simulation import PACKET_BYTES
from ns3_harness import flow, queue, scenario

from bbrgym import _ns3
from bbrgym.worlds.errors import EngineFailure

WIFI = {
    "kind": "wifi",
    "standard": "ac",
    "width_mhz": 20,
    "streams": 1,
    "mcs": None,
    "distance_m": 5.0,
    "queue_packets": 500,
}
LTE = {"kind": "lte", "bandwidth_mhz": 20, "layers": 1, "distance_m": 100.0, "queue_packets": 500}
LTE_EDGE = {**LTE, "distance_m": 1500.0}  # where blocks are lost and sent again
HOPS = [pytest.param(WIFI, id="wifi"), pytest.param(LTE, id="lte")]
PHY_MBPS = {"wifi": 78.0, "lte": 100.0}  # VHT's MCS 8; 100 resource blocks at 64-QAM


def behind(hop, *flows, rate_mbps=200.0, duration_s=1.2, warmup_s=0.4, **link):
    flows = flows or (flow(cc="cubic", rtt_ms=20.0),)
    link = {"rate_mbps": rate_mbps, "last_hop": hop, "queue": queue(size_bytes=1_000_000), **link}
    return scenario(*flows, duration_s=duration_s, warmup_s=warmup_s, **link)


# ---- what it carries -------------------------------------------------------------------------------------


@pytest.mark.parametrize("hop", HOPS)
def test_a_bulk_flow_fills_the_radio(run, hop):
    summary = run(behind(hop, flow(cc="bbr", rtt_ms=20.0)))
    assert 0.6 * PHY_MBPS[hop["kind"]] < summary.flow("goodput_mbps") < PHY_MBPS[hop["kind"]]
    assert summary.flow("rto_count") == 0


@pytest.mark.parametrize("hop", HOPS)
def test_the_rows_are_those_of_the_wired_link(run, hop):
    radio = run(behind(hop))
    assert radio.link("capacity_mbps") == pytest.approx(200)
    assert radio.link("queue_delay_mean_ms") < 3.0  # the queue is the radio's
    assert radio.flow("rtt_mean_ms") > 30.0
    wired = run(behind(hop, rate_mbps=10.0))
    assert wired.link("utilisation") > 0.9
    assert wired.link("queue_delay_mean_ms") > 1.0


@pytest.mark.parametrize("hop", HOPS)
def test_the_rtt_grows_by_the_hops_delay(run, hop):
    light = flow(app={"kind": "cbr", "rate_mbps": 1.0}, rtt_ms=20.0)
    wired = run(behind(None, light)).flow("rtt_min_ms")
    assert wired == pytest.approx(20 + PACKET_BYTES * 8 / 200e3, abs=0.001)
    added_ms = run(behind(hop, light)).flow("rtt_min_ms") - wired
    assert 0.05 < added_ms < (5.0 if hop["kind"] == "wifi" else 40.0)


@pytest.mark.parametrize(
    ("faster", "slower"),
    [
        ({**WIFI, "mcs": 7}, {**WIFI, "mcs": 1}),
        ({**WIFI, "standard": "n", "width_mhz": 40, "mcs": 7}, {**WIFI, "standard": "n", "mcs": 7}),
        ({**WIFI, "standard": "ax", "streams": 2, "mcs": 5}, {**WIFI, "standard": "ax", "mcs": 5}),
        (WIFI, {**WIFI, "distance_m": 40.0}),
        ({**LTE, "layers": 2}, LTE),
        (LTE, {**LTE, "bandwidth_mhz": 5}),
        (LTE, {**LTE, "distance_m": 4000.0}),
    ],
)
def test_a_better_radio_is_faster(faster, slower):
    def arrivals(hop):
        return len(_ns3.record_last_hop(json.dumps(behind(hop)), 1, 0.2, 1500, 60.0))

    assert arrivals(faster) > 1.3 * arrivals(slower) > 0


@pytest.mark.parametrize("hop", HOPS)
def test_a_longer_queue_waits_longer(run, hop):
    def rtt_ms(packets):
        return run(behind({**hop, "queue_packets": packets})).flow("rtt_p95_ms")

    assert rtt_ms(400) > rtt_ms(50) + 20


@pytest.mark.parametrize("hop", HOPS)
def test_flows_share_it(run, hop):
    summary = run(behind(hop, flow("a", cc="bbr", rtt_ms=20.0), flow("b", cc="bbr", rtt_ms=20.0)))
    goodputs = [summary.flow("goodput_mbps", index) for index in (0, 1)]
    assert min(goodputs) > 5
    assert sum(goodputs) < PHY_MBPS[hop["kind"]]


# ---- randomness and resets -------------------------------------------------------------------------------


@pytest.mark.parametrize("hop", HOPS)
def test_the_same_seed_gives_the_same_bytes_whatever_ran_before(run, hop):
    resolved = behind(hop, duration_s=1.0, warmup_s=0.2)
    first = run(resolved, seed=7).bytes()
    assert run(resolved, seed=7, step_s=0.3).bytes() == first
    run(behind(LTE if hop is WIFI else WIFI, duration_s=0.5, warmup_s=0.1))
    assert run(resolved, seed=7).bytes() == first
    if hop is LTE:  # in a good cell nothing is left to chance
        resolved = behind(LTE_EDGE, duration_s=1.0, warmup_s=0.2)
        first = run(resolved, seed=7).bytes()
        assert run(resolved, seed=7).bytes() == first
    assert run(resolved, seed=8).bytes() != first


@pytest.mark.parametrize("hop", HOPS)
def test_another_process_gives_the_same_bytes(simulate, program, hop):
    resolved = behind(hop, duration_s=1.0, warmup_s=0.2)
    simulation = simulate(resolved, 3)
    simulation.advance(1.0)
    result = program(json.dumps(resolved), "--seed", "3", "--json")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["flows"]["a"]["goodput_mbps"] == simulation.summary().flow("goodput_mbps")


def test_a_closed_run_frees_the_radio(simulate):
    for hop in (WIFI, LTE, WIFI, LTE):
        simulation = simulate(behind(hop))
        simulation.advance(0.2)
        simulation.native.close()
        with pytest.raises(RuntimeError, match="closed"):
            simulation.advance(0.1)


def test_a_radio_is_loaded_only_when_a_run_asks_for_it():
    code = """
import sys
sys.path[:0] = sys.argv[1:]
from ns3_harness import Simulation, scenario
from test_last_hop import WIFI, behind
def radios():
    loaded = open("/proc/self/maps").read()
    return [kind for kind in ("wifi", "lte") if f"libbbrgym-hop-{kind}" in loaded]
Simulation(scenario(), 1).native.close()
print(radios())
Simulation(behind(WIFI), 1).native.close()
print(radios())
"""
    result = subprocess.run(
        [sys.executable, "-c", code, *sys.path], capture_output=True, text=True, timeout=120, check=False
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == ["[]", "['wifi']"]


# ---- recording -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hop", HOPS)
def test_a_recording_is_the_radios_rate_and_repeats(hop):
    def record(seed):
        return _ns3.record_last_hop(json.dumps(behind(hop)), seed, 0.5, 1500, 60.0)

    arrivals_ns = record(1)
    assert arrivals_ns == sorted(arrivals_ns)
    assert 0 <= arrivals_ns[0] < 50e6
    assert 450e6 < arrivals_ns[-1] <= 500e6
    rate_mbps = len(arrivals_ns) * 1500 * 8 / 0.5 / 1e6
    assert 0.7 * PHY_MBPS[hop["kind"]] < rate_mbps < PHY_MBPS[hop["kind"]]
    assert record(1) == arrivals_ns


def test_a_recording_ends_at_its_timeout():
    with pytest.raises(EngineFailure, match=r"no answer within 0.1 s"):
        _ns3.record_last_hop(json.dumps(behind(WIFI)), 1, 600.0, 1500, 0.1)


def test_a_recording_waits_for_the_process_one_simulation(simulate):
    simulate(scenario())
    with pytest.raises(RuntimeError, match="already alive"):
        _ns3.record_last_hop(json.dumps(behind(WIFI)), 1, 1.0, 1500, 60.0)


# ---- errors ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hop", "message"),
    [
        ({"kind": "5g"}, r'link.last_hop.kind: is "5g", expected one of wifi, lte'),
        ({**WIFI, "standard": "g"}, r'link.last_hop.standard: is "g", expected one of n, ac, ax'),
        ({**WIFI, "mcs": 12}, r"link.last_hop.mcs: is 12, expected a number >= 0.0 and <= 11.0"),
        ({**LTE, "bandwidth_mhz": 7}, r"link.last_hop.bandwidth_mhz: is 7, expected one of \[5,10,15,20\]"),
    ],
)
def test_a_wrong_field_is_one_error_with_its_path(simulate, hop, message):
    with pytest.raises(ValueError, match=message):
        simulate(behind(hop))
