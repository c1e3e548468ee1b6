# SPDX-License-Identifier: GPL-2.0-only
"""Exact values of the arithmetic: golden.c, golden_bbr3.c, and closed forms."""

import subprocess
from pathlib import Path

import compilers
import pytest
from driver import MSS_BYTES
from hypothesis import given
from hypothesis import strategies as st

from bbrgym import _cc

CC = Path(__file__).resolve().parents[2] / "cc"


@pytest.mark.parametrize("name", ["golden", "golden_bbr3"])
def test_values_are_golden(tmp_path: Path, name: str) -> None:
    source = Path(__file__).with_name(f"{name}.c")
    flags = ["-std=c11", "-O1", "-Wall", "-Wextra", f"-I{CC}"]
    command = [compilers.compiler(compilers.C), *flags, source, "-o", tmp_path / name]
    subprocess.run(command, check=True, timeout=compilers.PATIENCE_S)
    done = subprocess.run([tmp_path / name], capture_output=True, text=True, check=False, timeout=compilers.PATIENCE_S)
    assert done.returncode == 0, done.stderr


def test_startup_pacing_is_the_initial_window_over_the_handshake_rtt() -> None:
    controller = _cc.Controller("bbr", srtt_us=20_000, min_rtt_us=20_000, initial_cwnd_pkts=10)
    expected_Bps = 739 / 256 * 0.99 * 10 * MSS_BYTES / 0.02
    assert controller.state["pacing_Bps"] == pytest.approx(expected_Bps, abs=3)


@given(a=st.integers(0, 2**64 - 1), b=st.integers(0, 2**64 - 1), d=st.integers(1, 2**64 - 1))
def test_wide_arithmetic_is_exact_or_saturates(a: int, b: int, d: int) -> None:
    most = 2**64 - 1
    assert _cc.mul_div(a, b, d) == min(a * b // d, most)
    assert _cc.mul_div_ceil(a, b, d) == min(-(-a * b // d), most)
