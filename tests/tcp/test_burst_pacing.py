# SPDX-License-Identifier: GPL-2.0-only
"""Bursts: their size, their segments, and how long pacing waits after them (burst_facts.cc)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Experiment = Callable[..., dict[str, float]]

GSO_MAX_BYTES = 65_215  # CC_GSO_MAX_BYTES
MSS_BYTES = 1000


def test_a_burst_holds_a_millisecond_of_data_and_more_on_a_short_path(run_experiment: Experiment) -> None:
    sizes = run_experiment("burst_facts", "sizes", kind=float)
    assert sizes["below_lone_rate"] == 1  # BBR below 1.2 Mbit/s
    assert sizes["at_lone_rate"] == 2
    assert sizes["without_singles"] == 1  # min_tso_segs
    assert sizes["by_rate"] == 10
    assert sizes["largest"] == GSO_MAX_BYTES // MSS_BYTES
    assert sizes["short_path"] == sizes["largest"]
    assert sizes["long_path"] == 2


def test_slow_bbr_and_bbr2_send_one_by_one_and_bbr3_does_not(run_experiment: Experiment) -> None:
    least = run_experiment("burst_facts", "least", kind=int)
    assert least == {"bbr": 1, "bbr2": 1, "bbr3": 2, "cubic": 2}  # bbr_min_tso_segs; bbr_tso_segs, tcp_min_tso_segs


def test_pacing_waits_for_the_bytes_of_a_burst(run_experiment: Experiment) -> None:
    gaps = run_experiment("burst_facts", "gaps", kind=float)
    assert gaps["tcp"] == pytest.approx(10)
    assert gaps["fq"] == pytest.approx(10.54)  # Ethernet frames
    assert gaps["tcp_overhead"] == pytest.approx(10.4)
    assert gaps["none"] == 0
    assert gaps["first"] == 0
    assert gaps["past_pacing"] == pytest.approx(7)  # the gap that ran


def test_a_late_burst_gets_credit_for_half_of_its_gap_at_most(run_experiment: Experiment) -> None:
    gaps = run_experiment("burst_facts", "gaps", kind=float)
    assert gaps["late_by_2_ms"] == pytest.approx(10 - 2)
    assert gaps["late_by_20_ms"] == pytest.approx(10 / 2)


def test_a_burst_of_retransmissions_goes_on_to_its_last_segment(run_experiment: Experiment) -> None:
    seen = run_experiment("burst_facts", "bursts", kind=int)
    assert [seen[f"{name}_is"] for name in ("first", "second", "third")] == [30, 31, 32]
    assert [seen[f"{name}_ends"] for name in ("first", "second", "third")] == [0, 0, 1]
    assert seen["probe_ends"] == 1  # a probe is a burst of its own
    assert seen["new_is_retransmitted"] == 0
