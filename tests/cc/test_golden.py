# SPDX-License-Identifier: GPL-2.0-only
"""The arithmetic: golden values, closed forms, windowed maximum, random streams; random lives under sanitizers."""

import subprocess
from collections import Counter
from pathlib import Path

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


# ---- the three-sample windowed maximum against the maximum over all samples of the window ------------


SERIES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1000)), min_size=1, max_size=200)


def feed(series: list[tuple[int, int]], window: int) -> list[tuple[int, int, int, int]]:
    """(time, value, what the filter says, what brute force says) after each sample."""
    tested = _cc.MaxFilter()
    seen: list[tuple[int, int]] = []
    time = 0
    rows = []
    for step, value in series:
        time += step
        seen.append((time, value))
        exact = max(v for t, v in seen if time - t <= window)
        rows.append((time, value, tested.update(time, window, value), exact))
    return rows


@given(SERIES, st.integers(4, 40))
def test_never_above_the_exact_maximum_and_never_below_the_newest(series: list[tuple[int, int]], window: int) -> None:
    for _time, value, filtered, exact in feed(series, window):
        assert value <= filtered <= exact


@given(SERIES, st.integers(4, 40))
def test_a_maximum_is_taken_at_once_and_kept_for_its_window(series: list[tuple[int, int]], window: int) -> None:
    best_time = best = -1
    for time, value, filtered, exact in feed(series, window):
        if value == exact:
            best, best_time = value, time
        if time - best_time <= window:
            assert filtered == best == exact


@given(st.integers(1, 1000), st.integers(4, 40))
def test_a_maximum_is_forgotten_after_its_window(peak: int, window: int) -> None:
    rows = feed([(0, peak), *[(1, 0)] * (window + 1)], window)
    assert [filtered for *_, filtered, _exact in rows] == [peak] * (window + 1) + [0]


def test_a_falling_series_by_the_kernels_rules() -> None:
    # Worked out by hand: e0 leaves after 10 rounds; e1 was set at dt 3 (> 10/4), e2 at dt 6 (> 10/2) after it.
    falling = [(1, v) for v in (100, 90, 80, 70, 60, 50, 40, 30, 20, 10, 9, 8, 7)]
    filtered = [row[2] for row in feed(falling, 10)]
    assert filtered[:11] == [100] * 11
    assert filtered[11] == 70


# ---- named random streams: the same for the same seed and name, independent and uniform otherwise ----


PINNED = [705, 655, 152, 365, 293, 156]


def test_streams_depend_on_seed_and_name_only() -> None:
    assert _cc.stream_seed(1, "link.loss") == _cc.stream_seed(1, "link.loss")
    seeds = {_cc.stream_seed(seed, name) for seed in range(100) for name in ("link.loss", "flow.a", "flow.b")}
    assert len(seeds) == 300


def test_streams_are_pinned() -> None:
    """Recorded once: a change here changes every result."""
    assert _cc.random_below(_cc.stream_seed(1, "link.loss"), 1000, 6) == PINNED


@pytest.mark.parametrize("n", [2, 7, 11])
def test_draws_are_uniform(n: int) -> None:
    count = Counter(_cc.random_below(_cc.stream_seed(3, "test"), n, 20_000))
    expected = 20_000 / n
    chi_square = sum((count[i] - expected) ** 2 / expected for i in range(n))
    assert set(count) == set(range(n))
    assert chi_square < {2: 10.83, 7: 22.46, 11: 29.59}[n], "p = 0.001"


# ---- fuzz_cc.c for a bounded number of operations under sanitizers -----------------------------------


HERE = Path(__file__).resolve().parent
INCLUDED = [f"-I{HERE.parents[1] / folder}" for folder in ("cc", "src/bbrgym/plugin_files")]
# Where it works: it sees more than gcc's sanitizers, unsigned results that wrap and conversions that lose bits, which
# cc/ lets happen on purpose only.
CLANG = (
    "clang",
    "-fsanitize=address,undefined,unsigned-integer-overflow,implicit-conversion",
    f"-fsanitize-ignorelist={HERE / 'wraps_on_purpose.txt'}",
    "-fno-sanitize-recover=all",
)


@pytest.fixture(scope="module")
def fuzzer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = list(CLANG) if compilers.works(*CLANG) else compilers.sanitizing(compilers.C)
    program = tmp_path_factory.mktemp("fuzz") / "fuzz_cc"
    compiled = subprocess.run(
        [*compiler, "-std=c11", "-O1", "-g1", *INCLUDED, str(HERE / "fuzz_cc.c"), "-o", str(program)],
        capture_output=True,
        text=True,
        check=False,
        timeout=compilers.PATIENCE_S,
    )
    assert compiled.returncode == 0, compiled.stderr
    return program


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))])
def test_no_life_breaks_an_invariant(fuzzer: Path, seed: int) -> None:
    run = subprocess.run(
        [str(fuzzer), str(seed), "400000"], capture_output=True, text=True, timeout=compilers.PATIENCE_S, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout == "400000 operations\n"
