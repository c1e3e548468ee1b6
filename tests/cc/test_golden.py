# SPDX-License-Identifier: GPL-2.0-only
"""Exact values of the arithmetic, worked out by hand from the kernel's constants (MSS 1448)."""

import math
import subprocess
from pathlib import Path

import compilers
import pytest
from driver import MSS_BYTES
from hypothesis import given
from hypothesis import strategies as st

from bbrgym import _cc

CC = Path(__file__).resolve().parents[2] / "cc"

GOLDEN = {
    # 96.4 Mbit/s payload, 10 ms: ceil(166.4); 8-packet bursts; even(167 + 24); with gain 1.25 even(167 + 30) + 2
    "bdp_2_96mbps": 167,
    "tso_goal_96mbps": 8,
    "cwnd_96mbps": 192,
    "cwnd_96mbps_phase_0": 200,
    # 9.64 Mbit/s, 40 ms
    "cwnd_9mbps": 74,
    "cwnd_9mbps_phase_0": 76,
    # 0.5 Mbit/s, 40 ms: ceil(3.45) + 3, even
    "cwnd_half_mbps": 8,
    # no RTT yet: the initial window and three bursts of one, even
    "cwnd_no_rtt": 14,
    # BBR+: min(67, ceil(0.98 * 832.2 * 0.06)) + 6, even
    "plus_cwnd": 56,
    # BBR-ACD: target 40
    "acd_target": 40,
    "acd_cut_0": 40,
    "acd_cut_1": 20,
    "acd_cut_2": 10,
    "acd_cut_3": 5,
    "acd_cut_4": 4,
    # detector: 10 * count + verdict
    "acd_close_0": 0,
    "acd_close_1": 10,
    "acd_close_2": 21,
    "acd_far_0": 0,
    "acd_far_1": 0,
    "acd_high_0": 1,
    "acd_low_0": 0,
    # BBR-PG
    "pg_20_10_gain_q16": round(2.5 * 65536),
    "pg_20_10_window": 13,
    "pg_200_190_gain_q16": math.floor(1.25 * 65536 * 200 / 190),
    "pg_200_190_window": 4,
    "pg_1_1_window": 184,
}


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    program = tmp_path_factory.mktemp("golden") / "golden"
    source = Path(__file__).with_name("golden.c")
    subprocess.run(
        [compilers.compiler(compilers.C), "-std=c11", "-O1", "-Wall", "-Wextra", f"-I{CC}", source, "-o", program],
        check=True,
        timeout=compilers.PATIENCE_S,
    )
    lines = subprocess.run([str(program)], capture_output=True, text=True, check=True, timeout=compilers.PATIENCE_S)
    return {name: int(value) for name, value in map(str.split, lines.stdout.splitlines())}


@pytest.mark.parametrize("name", GOLDEN)
def test_golden(printed: dict[str, int], name: str) -> None:
    assert printed[name] == GOLDEN[name]


@pytest.mark.parametrize(
    ("name", "expected"),
    [("pow_half", 2**0.5), ("pow_minus_half", 2**-0.5), ("pow_one_and_a_half", 3**1.5)],
)
def test_fractional_power_of_gamma_is_within_a_thousandth(printed: dict[str, int], name: str, expected: float) -> None:
    assert printed[name] / 65536 == pytest.approx(expected, rel=1e-3)


def test_startup_pacing_is_the_initial_window_over_the_handshake_rtt() -> None:
    controller = _cc.Controller("bbr", srtt_us=20_000, min_rtt_us=20_000, initial_cwnd_pkts=10)
    expected_Bps = 739 / 256 * 0.99 * 10 * MSS_BYTES / 0.02
    assert controller.state["pacing_Bps"] == pytest.approx(expected_Bps, abs=3)


def test_startup_pacing_without_rtt_takes_a_millisecond() -> None:
    controller = _cc.Controller("bbr", initial_cwnd_pkts=10)
    assert controller.state["pacing_Bps"] == pytest.approx(739 / 256 * 0.99 * 10 * MSS_BYTES / 0.001, abs=3)


def test_gains_of_the_cycle_are_the_kernels() -> None:
    controller = _cc.Controller("bbr", srtt_us=1000, min_rtt_us=1000)
    assert controller.state["pacing_gain_q16"] == 739 * 256
    assert controller.state["cwnd_gain_q16"] == 739 * 256


@given(a=st.integers(0, 2**64 - 1), b=st.integers(0, 2**64 - 1), d=st.integers(1, 2**64 - 1))
def test_wide_arithmetic_is_exact_or_saturates(a: int, b: int, d: int) -> None:
    most = 2**64 - 1
    assert _cc.mul_div(a, b, d) == min(a * b // d, most)
    assert _cc.mul_div_ceil(a, b, d) == min(-(-a * b // d), most)


def test_wide_multiplication_and_division_are_exact() -> None:
    for a, b, d in [(2**63, 3, 7), (5 * 10**17, 189_184, 94_896_128), (2**64 - 1, 2**64 - 1, 2**64 - 1)]:
        assert _cc.mul_div(a, b, d) == a * b // d
        assert _cc.mul_div_ceil(a, b, d) == -(-a * b // d)
    assert _cc.mul_div(2**64 - 1, 2**64 - 1, 1) == 2**64 - 1, "saturates"
