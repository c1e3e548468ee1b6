# SPDX-License-Identifier: GPL-2.0-only
"""Exact values of the arithmetic: golden.c, golden_bbr3.c, and closed forms."""

import compilers
import pytest
from driver import MSS_BYTES
from hypothesis import given
from hypothesis import strategies as st

from bbrgym import _cc


@pytest.mark.parametrize("name", ["golden", "golden_bbr3"])
def test_values_are_golden(name: str) -> None:
    compilers.run_program(name)


def test_startup_pacing_is_the_initial_window_over_the_handshake_rtt() -> None:
    controller = _cc.Controller("bbr", srtt_us=20_000, min_rtt_us=20_000, initial_cwnd_pkts=10)
    expected_Bps = 739 / 256 * 0.99 * 10 * MSS_BYTES / 0.02
    assert controller.state["pacing_Bps"] == pytest.approx(expected_Bps, abs=3)


@given(a=st.integers(0, 2**64 - 1), b=st.integers(0, 2**64 - 1), d=st.integers(1, 2**64 - 1))
def test_wide_arithmetic_is_exact_or_saturates(a: int, b: int, d: int) -> None:
    most = 2**64 - 1
    assert _cc.mul_div(a, b, d) == min(a * b // d, most)
    assert _cc.mul_div_ceil(a, b, d) == min(-(-a * b // d), most)
