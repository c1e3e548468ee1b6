# SPDX-License-Identifier: GPL-2.0-only
"""Paths whose delay jumps: the floor of RTTs over time that a log of a simulated one gives, and its scenario."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from path_logs import Watch, log_simulation

import bbrgym
from bbrgym.cli.main import main
from bbrgym.paths.detect import read_log
from bbrgym.paths.fit import fit_path
from bbrgym.scenario.traces import read_delays

RATE_MBPS, RTT_MS, STEP_MS = 12.0, 30.0, 100.0
STEPS_MS = [0.0] * 40 + [30.0] * 40 + [10.0] * 70
FORMS = ("pcap", "qlog")
LEO_MS = [20.0] * 50 + [45.0] * 50 + [5.0] * 50


def logged(folder: Path, cc: str, form: str, delays_ms: list[float] | None = None, **link: Any) -> Path:
    moving = {"delay_trace": {"delays_ms": delays_ms, "step_ms": STEP_MS}} if delays_ms else {}
    wire = {"rate_mbps": RATE_MBPS, "queue": {"size_bytes": 60_000}, **moving, **link}
    flow = {"name": "flow", "rtt_ms": RTT_MS, "cc": cc}
    scenario = {"name": "logged", "duration_s": 15.0, "link": wire, "flows": [flow]}
    log_simulation(bbrgym.load_scenario(scenario), "twin", 1, folder, Watch(cc=cc), formats=(form,))
    return folder / f"a.{form}"


@pytest.mark.parametrize(
    ("cc", "form", "delays_ms", "error_ms"),
    [
        *((cc, form, delays_ms, 2.0) for cc in ("bbr", "bbr3") for form in FORMS for delays_ms in (STEPS_MS, LEO_MS)),
        ("bbr", "ss", LEO_MS, 5.0),  # smoothed RTTs, ten a second
    ],
)
def test_the_floor_of_the_rtts_over_time_is_the_paths(
    cc: str, form: str, delays_ms: list[float], error_ms: float, tmp_path: Path
) -> None:
    fit = fit_path(read_log(logged(tmp_path, cc, form, delays_ms)))
    assert fit.delays is not None
    at_s = np.arange(0.05, 14.0, 0.1)
    true_ms = np.array(delays_ms)[: len(at_s)]
    found_ms = (fit.base_rtt_s.value + fit.delays.at(at_s)) * 1e3
    is_far = np.abs(found_ms - RTT_MS - true_ms) > error_ms
    assert is_far.mean() <= 0.05  # around each jump, which is found when its ACKs come
    assert fit.rate_mbps.low <= RATE_MBPS <= fit.rate_mbps.high


@pytest.mark.parametrize("cc", ["bbr", "cubic", "bbr3"])
@pytest.mark.parametrize(
    "link",
    [
        {},
        {"queue": {"size_bytes": 300_000}},
        {"changes": [{"at_s": 4, "rate_mbps": 6}, {"at_s": 8, "rate_mbps": 12}]},
        {"changes": [{"at_s": 4, "rate_mbps": 0}, {"at_s": 4.05, "rate_mbps": 12}]},
        {"jitter": {"share": 0.1, "delay_ms": 10}},
    ],
    ids=["shallow", "deep", "rates", "outage", "jitter"],
)
def test_a_queue_is_not_a_longer_path(cc: str, link: dict[str, Any], tmp_path: Path) -> None:
    assert fit_path(read_log(logged(tmp_path, cc, "pcap", **link))).delays is None


def test_the_command_writes_a_scenario_that_jumps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = logged(tmp_path, "bbr", "pcap", STEPS_MS)
    mine = tmp_path / "mine.yaml"
    assert main(["path", str(log), f"output={mine}"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "its delay changes: 2 jumps, to 31 ms above its least" in said
    assert "on it agrees" in said
    trace = bbrgym.load_scenario(mine).link.delay_trace
    assert trace is not None
    assert trace.path == str(tmp_path / "mine.delays.txt")
    found_ms = [read_delays(trace.path)[round(at_s * 1e3 / trace.step_ms)] for at_s in (2, 6, 10)]
    assert found_ms == pytest.approx([0, 30, 10], abs=2)
    with bbrgym.make_world("twin", mine, seed=1, isolation="none") as world:
        world.advance(10.0)
        assert world.now_s == pytest.approx(10.0)
