# SPDX-License-Identifier: GPL-2.0-only
"""Paths that are fitted to logs of simulated networks whose facts are known, and what the command writes of them."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from path_logs import Watch, log_simulation

import bbrgym
from bbrgym.cli.main import main
from bbrgym.paths.detect import read_log
from bbrgym.paths.fit import PathFit, fit_path
from bbrgym.trace import write_trace

RATE_MBPS, RTT_MS, BUFFER_BYTES = 12.0, 30.0, 60_000


def network(cc: str, *others: dict[str, Any], **link: Any) -> dict[str, Any]:
    return {
        "name": "logged",
        "duration_s": 12.0,
        "link": {"rate_mbps": RATE_MBPS, "delay_ms": 1.0, "queue": {"size_bytes": BUFFER_BYTES}, **link},
        "flows": [{"name": "flow", "rtt_ms": RTT_MS, "cc": cc}, *others],
    }


def logged(folder: Path, scenario: dict[str, Any], form: str) -> Path:
    """Return a log of the first flow, in the format that the file's ending names."""
    watch = Watch(cc=scenario["flows"][0]["cc"])
    log_simulation(bbrgym.load_scenario(scenario), "twin", 1, folder, watch, formats=(form,))
    return folder / f"a.{form}"


def fitted(folder: Path, scenario: dict[str, Any], form: str = "pcap") -> PathFit:
    return fit_path(read_log(logged(folder, scenario, form)))


@pytest.mark.parametrize("cc", ["bbr", "cubic", "bbr3"])
def test_a_capture_gives_rate_and_rtt(cc: str, tmp_path: Path) -> None:
    fit = fitted(tmp_path, network(cc))
    assert fit.rate_mbps.value == pytest.approx(RATE_MBPS, rel=0.03)
    assert fit.rate_mbps.low <= fit.rate_mbps.value <= fit.rate_mbps.high
    assert fit.base_rtt_s.value * 1e3 == pytest.approx(RTT_MS, rel=0.02)
    assert fit.varies is False
    assert fit.trace is None
    assert fit.random_loss.low <= 0 or math.isnan(fit.random_loss.value)


def test_a_filled_buffer_is_measured(tmp_path: Path) -> None:
    buffer = fitted(tmp_path, network("cubic")).buffer_bytes
    assert buffer.value == pytest.approx(BUFFER_BYTES, rel=0.1)
    assert buffer.low <= buffer.value <= buffer.high


def test_a_buffer_that_was_not_filled_has_a_lower_bound_alone(tmp_path: Path) -> None:
    fit = fitted(tmp_path, network("bbr", queue={"size_bytes": 10 * BUFFER_BYTES}))
    assert not fit.buffer_bytes.is_seen
    assert 10_000 < fit.buffer_bytes.low < 10 * BUFFER_BYTES


@pytest.mark.parametrize("rate", [0.002, 0.01])
def test_random_loss_is_told_from_that_of_a_full_queue(rate: float, tmp_path: Path) -> None:
    deep = {"size_bytes": 10 * BUFFER_BYTES}
    fit = fitted(tmp_path, network("bbr", queue=deep, loss={"kind": "bernoulli", "rate": rate}))
    assert rate / 2 < fit.random_loss.value < rate * 2
    assert fit.random_loss.low <= rate <= fit.random_loss.high
    assert not fit.buffer_bytes.is_seen


def test_a_rate_that_varies_becomes_a_trace(tmp_path: Path) -> None:
    rival = {"name": "rival", "rtt_ms": RTT_MS, "cc": "cubic", "start_s": 1.0}
    scenario = network("bbr", rival, queue={"size_bytes": 2 * BUFFER_BYTES}) | {"duration_s": 20.0}
    fit = fitted(tmp_path, scenario, "ss")
    assert fit.varies
    assert fit.trace is not None
    assert fit.trace.times_s[0] == 0
    assert fit.trace.rates_mbps.max() < RATE_MBPS * 1.05
    assert not fit.buffer_bytes.is_seen


@pytest.mark.parametrize("cc", ["bbr", "cubic", "bbr3"])
def test_a_competitor_is_told(cc: str, tmp_path: Path) -> None:
    rival = {"name": "rival", "rtt_ms": RTT_MS, "cc": "cubic", "start_s": 1.0}
    scenario = network(cc, rival, queue={"size_bytes": 2 * BUFFER_BYTES}) | {"duration_s": 20.0}
    told = fitted(tmp_path, scenario, "ss").competitor
    assert told is True or (cc == "cubic" and told is None)  # two of CUBIC may look like a rate that changes
    scenario["flows"].pop()
    assert fitted(tmp_path, scenario, "ss").competitor is False


def test_a_link_that_varies_becomes_a_trace(tmp_path: Path) -> None:
    changes = [{"at_s": at_s, "rate_mbps": RATE_MBPS * part} for at_s, part in ((3, 0.5), (6, 1.0), (9, 0.5))]
    fit = fitted(tmp_path, network("cubic", changes=changes))
    assert fit.varies
    assert fit.trace is not None
    assert fit.trace.rates_mbps.max() == pytest.approx(RATE_MBPS, rel=0.1)
    assert fit.trace.rates_mbps.min() == pytest.approx(RATE_MBPS / 2, rel=0.1)


@pytest.mark.parametrize("cc", ["bbr", "cubic", "bbr3"])
def test_a_link_in_steps_is_not_a_shared_one(cc: str, tmp_path: Path) -> None:
    changes = [{"at_s": at_s, "rate_mbps": RATE_MBPS * part} for at_s, part in ((3, 0.6), (6, 0.3), (9, 0.8))]
    fit = fitted(tmp_path, network(cc, changes=changes))
    assert fit.varies is True
    assert fit.competitor is False


@pytest.mark.parametrize("rate", [0.002, 0.01])
def test_a_flow_that_losses_hold_back_tells_no_wrong_capacity(rate: float, tmp_path: Path) -> None:
    deep = {"size_bytes": 10 * BUFFER_BYTES}
    scenario = network("cubic", queue=deep, loss={"kind": "bernoulli", "rate": rate}, rate_mbps=2 * RATE_MBPS)
    fit = fitted(tmp_path, scenario)
    assert not fit.varies
    assert fit.rate_mbps.low <= 2 * RATE_MBPS <= fit.rate_mbps.high


@pytest.mark.parametrize("rate", [0.001, 0.003, 0.005])
def test_a_flow_that_losses_hold_back_is_not_a_link_that_varies(rate: float, tmp_path: Path) -> None:
    deep = {"size_bytes": 10 * BUFFER_BYTES}
    scenario = network("cubic", queue=deep, loss={"kind": "bernoulli", "rate": rate}) | {"duration_s": 40.0}
    fit = fitted(tmp_path, scenario, "iperf3")
    assert not fit.varies
    assert fit.rate_mbps.low <= RATE_MBPS * 1.01


def test_a_smoothed_rtt_bounds_the_base_rtt_from_above(tmp_path: Path) -> None:
    rtt = fitted(tmp_path, network("bbr"), "iperf3").base_rtt_s
    assert rtt.high * 1e3 >= RTT_MS
    assert rtt.low == -math.inf


def test_without_rtts_and_retransmissions_the_rest_is_not_told(tmp_path: Path) -> None:
    path = logged(tmp_path, network("bbr"), "iperf3")
    log = json.loads(path.read_text())
    for interval in log["intervals"]:
        for name in ("rtt", "retransmits"):
            del interval["streams"][0][name]
        interval["streams"][0]["sender"] = False
    path.write_text(json.dumps(log))
    fit = fit_path(read_log(path))
    assert not fit.base_rtt_s.is_seen
    assert not fit.rate_mbps.is_seen
    assert fit.rate_mbps.low == pytest.approx(RATE_MBPS, rel=0.05)
    assert not fit.buffer_bytes.is_seen
    assert not fit.random_loss.is_seen
    assert fit.varies is None


# ---- the command -------------------------------------------------------------------------------------------


def test_the_command_writes_a_scenario_that_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = write_trace(network("cubic"), tmp_path, formats=["pcapng"]).files["pcapng"]
    mine = tmp_path / "mine.yaml"
    assert main(["path", str(log), f"output={mine}"]) == 0
    said = capsys.readouterr().out
    assert "pcap or pcapng" in said
    assert str(mine) in said
    assert "fit-mine.png" in said
    assert (tmp_path / "fit-mine.png").read_bytes().startswith(b"\x89PNG")
    scenario = bbrgym.load_scenario(mine)
    assert scenario.name == "mine"
    assert scenario.link.rate_mbps == pytest.approx(RATE_MBPS, rel=0.03)
    assert [(flow.role, flow.count) for flow in scenario.flows] == [("tuned", 1)]
    assert "by bbrgym path" in mine.read_text().splitlines()[0]
    with bbrgym.make_world("twin", scenario, seed=1, isolation="none") as world:
        world.advance(1.0)
        assert world.now_s == pytest.approx(1.0)


def test_several_logs_give_a_distribution_that_draws_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rival = {"name": "rival", "rtt_ms": RTT_MS, "cc": "cubic", "start_s": 1.0}
    deep = {"size_bytes": 2 * BUFFER_BYTES}
    logs = [
        logged(tmp_path, network("bbr"), "iperf3"),
        logged(tmp_path, network("bbr", rival, queue=deep) | {"duration_s": 20.0}, "ss"),
    ]
    mine = tmp_path / "mine.yaml"
    assert main(["path", *map(str, logs), f"output={mine}"]) == 0
    assert (tmp_path / "mine-1.rates.csv").read_text().startswith("time_s,rate_mbps\n0.000000,")
    assert sorted(path.name for path in tmp_path.glob("*.png")) == ["fit-mine-0.png", "fit-mine-1.png"]
    drawn = {bbrgym.load_distribution(str(mine))(seed).link.trace_path is None for seed in range(20)}
    assert drawn == {False, True}
    capsys.readouterr()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["a.json", "a.json"], "given twice"),
        (["output=mine.yaml"], "path: nothing is given, expected LOG"),
        (["a.json", "output=mine.txt"], "ends in .yaml"),
        (["a.json", "outputs=mine.yaml"], "outputs"),
        (["nowhere.json"], "No such file"),
    ],
)
def test_a_wrong_request_is_refused(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.json").write_text("{}")
    assert main(["path", *arguments]) == 2
    assert said in capsys.readouterr().err
    assert not list(tmp_path.glob("*.yaml"))


def test_a_fit_of_few_samples_says_little_and_breaks_nowhere(tmp_path: Path) -> None:
    streams = [
        {"socket": 5, "start": 0.0, "end": 1.0, "bytes": 10},
        {"socket": 6, "start": 0.5, "end": 1.5, "bytes": 9},
    ]
    (tmp_path / "a.json").write_text(json.dumps({"start": {}, "intervals": [{"streams": streams}], "end": {}}))
    fit = fit_path(read_log(tmp_path / "a.json"))
    assert fit.connections == 2
    assert np.isfinite(fit.rate_mbps.low)
    assert not fit.base_rtt_s.is_seen
