# SPDX-License-Identifier: GPL-2.0-only
"""Traces in Mahimahi's format, the shipped one and recorded ones, and rate traces."""

import subprocess
import sys
from pathlib import Path
from typing import Any

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
        ("1\n2000000000\n", "line 2 of .* is '2000000000', expected a time in whole ms up to 1000000000"),
        ("1\nx,y\n2", "line 2 of .*down expected a time in whole ms"),
        ("1\n\n2\n", "line 2 of .* is empty, expected a time in whole ms"),
        ("5\n4\n", "line 2 of .* is 4, expected a time not before the line above, 5"),
        ("1" * 5000, "line 1 of .*down expected a time in whole ms"),
        ("١\n", "cannot read .*: byte 0 is not ASCII"),
        (
            "0 5\n100 6\n200 7\n",
            r"times of .* are 100 apart, which may be s or ms; expected a first line .*convert_mahimahi_format\.py",
        ),
        ("0 5000\n1 60000\n", r"rates of .* reach 60000, which may be Mbit/s or kbit/s; .*convert_mahimahi_format\.py"),
        ("seconds mbps\n0 5\n1 6\n", r"line 1 of .* is not a time and a rate in Mbit/s; expected a first line time_s"),
        ("0 5\n1 6 7\n", r"line 2 of .* is not a time and a rate in Mbit/s; .*convert_mahimahi_format"),
        ("0 5\n\n1 6\n", "line 2 of .* is empty, expected a time and a rate"),
        ("0 5\n0 6\n", "line 2 of .* has the time 0, expected one after the line above"),
        ("0 5\n1 -6\n", "line 2 of .* has the rate -6, expected 0 to 400000 Mbit/s"),
        ("0 5\n1 nan\n", "line 2 of .* has the rate nan"),
        ("0 5\ninf 6\n", "line 2 of .* has the time inf"),
        ("0 5\n", "has 1 rows of a time and a rate, expected at least 2"),
        ("0 0\n1 0\n", "carries 0 bytes, expected 1500 to "),
        ("time_s,rate_mbps\n0,1\n9e5,1\n", "lasts 1.8e\\+09 ms, expected at most 1000000000"),
    ],
)
def test_a_broken_trace(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "broken.down"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(bbrgym.ConfigError, match=says):
        read_trace(str(path))


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/no/such.down", r"cannot read '/no/such\.down'"),
        ("bbrgym:x.down", r"'x\.down' is shipped; did you mean lte\.down\? allowed are lte\.down, synthetic-lte\.down"),
    ],
)
def test_a_trace_that_is_not_there(path: str, says: str) -> None:
    with pytest.raises(bbrgym.ConfigError, match=says):
        read_trace(path)


def test_a_trace_with_counts_is_the_one_with_repeats() -> None:
    def scenario(**trace: Any) -> dict[str, Any]:
        link = {"trace": {"period_ms": 10, **trace}, "queue": {"size_bytes": 50_000}}
        return {"duration_s": 2.0, "link": link, "flows": [{"name": "a", "rtt_ms": 20.0}]}

    shown = []
    for trace in ({"times_ms": [1, 1, 1, 4, 4, 4, 4]}, {"times_ms": [1, 4], "counts": [3, 4]}):
        loaded = bbrgym.load_scenario(scenario(**trace))
        assert loaded.resolved().link.mean_rate_mbps == pytest.approx(7 * 1500 * 8 / 10 / 1e3)
        with bbrgym.make_world("twin", loaded) as world:
            world.advance(2.0)
            shown.append(world.flow_stats().tobytes() + world.link_stats().tobytes())
    assert shown[0] == shown[1]
    for counts, says in (
        ([3], "has 1 entries, expected one for each of 2"),
        ([3, 4_000_000], "carries 6000000000 bytes"),
    ):
        with pytest.raises(bbrgym.ScenarioError, match=f"link.trace.counts: {says}"):
            bbrgym.load_scenario(scenario(times_ms=[1, 4], counts=counts))


def test_a_trace_that_begins_after_the_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "late.down"
    path.write_text("0\n5000\n6000\n")
    fields = {"duration_s": 4, "link": {"trace_path": str(path), "queue": {"size_packets": 9}}}
    with pytest.raises(
        bbrgym.ScenarioError, match=r"link.trace: carries nothing before 5 s, expected .* duration_s = 4"
    ):
        bbrgym.load_scenario({**fields, "flows": [{"name": "a", "rtt_ms": 20.0}]})


# ---- many lines -------------------------------------------------------------------------------------------

LINES = 3_000_000
LOADING = """
import resource, sys
from bbrgym.scenario.traces import read_trace
read_trace(sys.argv[1])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
trace = read_trace(sys.argv[2])
print(len(trace.times_ms), trace.times_ms[-1], (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


def test_a_line_takes_8_bytes(tmp_path: Path) -> None:
    paths = [tmp_path / "short.down", tmp_path / "long.down"]
    for path, lines in zip(paths, (600_000, LINES), strict=True):
        path.write_text("".join(f"{line // 18}\n" for line in range(lines)))
    done = subprocess.run(
        [sys.executable, "-c", LOADING, *map(str, paths)], capture_output=True, text=True, timeout=300, check=True
    )
    lines, last_ms, more_bytes = map(int, done.stdout.split())
    assert (lines, last_ms) == (LINES, (LINES - 1) // 18)
    assert more_bytes < 2.6 * 8 * LINES  # an array grows by half, and is copied


# ---- rate traces ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "0 1.2\n0.1 12\n0.2 0\n0.3 2.4\n",
        "time_ms,rate_mbps\n500,1.2\n600,12\n700,0\n800,2.4\n",
        "time_s;rate_mbps\n0;1.2\n.1;12\n.2;0\n.3;2.4",
    ],
)
def test_a_rate_trace_gives_its_bytes(text: str, tmp_path: Path) -> None:
    path = tmp_path / "rates.csv"
    path.write_text(text)
    trace = read_trace(str(path))
    assert trace.period_ms == 400
    slow, fast, last = [*range(10, 101, 10)], [*range(101, 201)], [*range(305, 401, 5)]
    assert trace.times_ms == [*slow, *fast, *last]


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
