# SPDX-License-Identifier: GPL-2.0-only
"""Traces in Mahimahi's format, the shipped one and recorded ones."""

import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest

import bbrgym
from bbrgym.scenario.traces import read_trace

RECORDED = Path(__file__).resolve().parents[3] / "shared" / "traces" / "Verizon-LTE-short.down"


def test_times_and_period(tmp_path: Path) -> None:
    path = tmp_path / "a.down"
    path.write_text("0\n3\n3\n\t12 \n")
    trace = read_trace(str(path))
    assert (trace.times_ms, trace.period_ms, trace.opportunity_bytes) == ((0, 3, 3, 12), 12, 1500)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "has no time above 0"),
        ("0\n0\n", "has no time above 0"),
        ("1\n2.5\n", "line 2 of .* is '2.5', expected a time in whole ms"),
        ("1\n-2\n", "line 2 of .* is '-2'"),
        ("1\n\n2\n", "line 2 of .*down expected a time in whole ms"),
        ("5\n4\n", "line 2 of .* is 4, expected a time not before the line above, 5"),
        ("1" * 5000, "line 1 of .*down expected a time in whole ms"),
        ("١\n", "cannot read .*: byte 0 is no ASCII"),
    ],
)
def test_a_broken_trace(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "broken.down"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(bbrgym.ConfigError, match=says):
        read_trace(str(path))


def test_a_trace_that_is_not_there() -> None:
    with pytest.raises(bbrgym.ConfigError, match=r"cannot read '/no/such\.down'"):
        read_trace("/no/such.down")
    with pytest.raises(
        bbrgym.ConfigError,
        match=r"no trace 'x\.down' is shipped; did you mean lte\.down\? allowed are lte\.down, synthetic-lte\.down",
    ):
        read_trace("bbrgym:x.down")


def test_the_shipped_trace_is_what_its_command_writes(tmp_path: Path) -> None:
    path = tmp_path / "again.down"
    subprocess.run([sys.executable, "-m", "bbrgym.scenario.synthetic_trace", str(path)], check=True, timeout=120)
    shipped = resources.files("bbrgym") / "conf" / "trace" / "synthetic-lte.down"
    assert path.read_bytes() == shipped.read_bytes()


def test_a_recorded_trace_runs() -> None:
    if not RECORDED.exists():
        pytest.skip(f"{RECORDED} is not on this machine")
    fields = bbrgym.load_scenario("cellular").model_dump(exclude_none=True)
    fields["link"]["trace_path"] = str(RECORDED)
    scenario = bbrgym.load_scenario(fields)
    trace = scenario.resolved().link.trace
    assert trace is not None
    assert trace.period_ms == 140_000
    assert len(trace.times_ms) * 1500 * 8 / trace.period_ms / 1e3 == pytest.approx(5.03, abs=1.0)
    with bbrgym.make_world("ns3", scenario) as world:
        world.advance(1.0)
        assert world.flow_stats()[0, world.flow_fields.index("goodput_mbps")] > 0
