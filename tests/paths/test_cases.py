# SPDX-License-Identifier: GPL-2.0-only
"""Logs that were read wrongly, and what is true of their paths: whatever is told has to hold that."""

import functools
import math
from pathlib import Path

import pytest

from bbrgym.cli.path import fit_table
from bbrgym.paths.detect import read_log
from bbrgym.paths.fit import PathFit
from bbrgym.paths.fitted_scenario import write_scenario
from bbrgym.paths.mirror import checked_fit
from bbrgym.paths.proposals import FittedValue
from bbrgym.scenario.files import load_scenario

CASES = Path(__file__).parent / "cases"
TRUTHS: dict[str, tuple[float | None, float | None, float | None, float | None]] = {
    # capacity in Mbit/s of IP bytes, base RTT in ms, buffer in kB, random loss in %; None: not known
    "archive.json.gz": (50, 30, None, 0),
    "bigquery_ints_as_strings.json.gz": (50, 30, None, 0),
    "aioquic_client_of_a_download.qlog.gz": (None, None, None, None),
    "flent_ss_iterate.ss.gz": (20, None, None, 0),
    "iperf3_bbr_shallow_60ms.json": (20, 60, 40, 0),
    "iperf3_printed_twice.json.gz": (20, None, None, 0),
    "iperf3_server_omit3.json": (20, None, None, 0),
    "mid_path_8ms_of_20.pcap.gz": (20, 40, 100, 0),
    "qinq.pcap.gz": (20, 40, 100, 0),
    "real_any_on_router_sll.pcap.gz": (20, 40, None, 0),
    "receiver_begun_late_sll.pcap.gz": (20, 40, None, 0),
    "reordered_no_loss.qlog.gz": (10.32, 45, None, 0),
    "rtt_step_80ms_at_6s.pcapng.gz": (10, 40, 40, 0),
    "schema.qlog.gz": (10.32, 40, None, 0),
    "sender_begun_late.pcap.gz": (20, 40, 100, 0),
    "server.qlog.gz": (10.32, 40, None, 0),
    "sister_dup_two_interfaces.pcap.gz": (20, 40, 100, 0),
    "sister_iperf3_2Mbit_uplink.json": (2, None, None, None),
    "sister_iperf3_8Mbit_at_least_13.json": (8, None, None, None),
    "sister_iperf3_cubic4_60ms.json": (20, 60, 300, 0),
    "sister_mid_begun_late.pcap.gz": (20, 40, 100, 0),
    "sister_mid_path_4ms.pcap.gz": (20, 40, 100, 0),
    "sister_receive_window_on_20Mbit_jitter.pcapng.gz": (20, 40, None, 0),
    "sister_receiver_begun_late_ethernet.pcap.gz": (20, 40, None, 0),
    "sister_rtt_step_30ms_at_4s.pcapng.gz": (10, 40, 40, 0),
    "sister_six_downloads_in_turn.pcap.gz": (20, 40, 100, 0),
    "snaplen54.pcap.gz": (20, 40, 100, 0),
    "spurious.qlog.gz": (10.32, 40, None, 0),
    "ss_all_retransmissions_spurious.ss.gz": (50, 30, None, 0),
    "ss_iperf3_b5M_on_20Mbit.ss.gz": (20, 40, None, 0),
    "ss_with_control_connection.ss.gz": (20, 40, None, 0),
    "two_server_traces.qlog.gz": (10.32, 40, None, 0),
}


@functools.cache
def fit_of(case: str) -> PathFit:
    return checked_fit(read_log(CASES / case))


def is_held(fitted: FittedValue, truth: float | None, error: float) -> bool:
    return truth is None or fitted.low * (1 - error) <= truth <= fitted.high * (1 + error) + 1e-12


@pytest.mark.parametrize("name", TRUTHS)
def test_nothing_that_is_told_is_wrong(name: str) -> None:
    rate_mbps, rtt_ms, buffer_kB, loss_percent = TRUTHS[name]
    fit = fit_of(name)
    # A testbed's own queues and clocks have their part: 1 % of a rate, 5 % of an RTT.
    assert is_held(fit.rate_mbps, rate_mbps, 0.01)
    assert is_held(fit.base_rtt_s.times(1e3), rtt_ms, 0.05)
    assert is_held(fit.buffer_bytes.times(1e-3), buffer_kB, 0.05)
    assert is_held(fit.random_loss.times(1e2), loss_percent, 0.0)
    assert fit.competitor is not True
    assert fit.connections == (4 if "cubic4" in name else 1)


def test_a_log_whose_own_rate_refutes_its_losses_has_an_upper_bound_of_them() -> None:
    fit = checked_fit(read_log(CASES / "sister_loss_burst_last_window.json"))
    assert not fit.random_loss.is_seen
    fit = fit_of("capacity_below_mean.json")
    assert math.isnan(fit.rate_mbps.value) or fit.rate_mbps.low >= 0.98 * fit.goodput_mbps


@pytest.mark.parametrize(("name", "said"), [
    ("sister_mid_path_4ms.pcap.gz", "in front of it"), ("snaplen54.pcap.gz", "cut off"),
    ("rtt_step_80ms_at_6s.pcapng.gz", "its delay changes"), ("server.qlog.gz", "a run of "),
    ("capacity_below_mean.json", "not checked against a simulation"),
])  # fmt: skip
def test_the_notes_say_what_was_seen(name: str, said: str) -> None:
    assert said in "; ".join(fit_of(name).notes)


@pytest.mark.parametrize("case", sorted(path.name for path in CASES.iterdir()))
def test_each_case_becomes_a_scenario(case: str, tmp_path: Path) -> None:
    fits = {case: checked_fit(read_log(CASES / case))}
    fit_table(fits)
    write_scenario(fits, tmp_path / "mine.yaml")
    load_scenario(str(tmp_path / "mine.yaml"))
