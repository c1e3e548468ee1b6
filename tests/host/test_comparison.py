# SPDX-License-Identifier: GPL-2.0-only
"""Comparisons of two controls: what simulated connections show, the run folder, and live traffic."""

import math
import socket
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from kernel_scripts import NAME, needs_loading, of_script
from simulated_connections import PEERS, connections

from bbrgym.cli.main import main
from bbrgym.errors import ConfigError
from bbrgym.host import comparison
from bbrgym.host.comparison import SCHEMA, ComparisonFolder, ComparisonRequest
from bbrgym.host.comparison_differences import METRICS, ControlDifference, differences
from bbrgym.host.comparison_report import needed_table, write_comparison_report
from bbrgym.host.errors import HostError
from bbrgym.host.parts import RowParts
from bbrgym.worlds.linux_machine import cgroup_root

CONNECTIONS = [(peer, number) for number in range(50) for peer in range(PEERS)]
REPETITIONS = 200
GOODPUT, COMPLETION, RTT, SENT_AGAIN = range(len(METRICS))

needs_cgroup = pytest.mark.skipif(cgroup_root() is None, reason="no cgroups of version 2 are mounted")


def draw_of(repetition: int) -> Any:
    """Return which connections get B."""
    return np.random.default_rng(repetition).random(len(CONNECTIONS)) < 0.5


# ---- simulated connections ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def of_bbr() -> pl.DataFrame:
    """1,000 connections to 20 peers."""
    return connections(("bbr",), [(0, *one) for one in CONNECTIONS])


def test_a_control_against_itself_shows_nothing_in_95_of_100_repetitions(of_bbr: pl.DataFrame) -> None:
    shown = np.zeros(len(METRICS))
    for repetition in range(REPETITIONS):
        rows = of_bbr.with_columns(arm=pl.Series(np.where(draw_of(repetition), "B", "A")))
        shown += [one.estimate.excludes_zero for one in differences(rows)]
    nothing = 1 - shown / REPETITIONS
    chance = 2 * math.sqrt(0.95 * 0.05 / REPETITIONS)
    assert np.abs(nothing - 0.95).max() < chance, nothing


def test_bbq_against_bbr_on_unequal_rtts_shows_less_goodput_and_delay(of_bbr: pl.DataFrame) -> None:
    draw = draw_of(0)
    of_b = connections(("bbr", "bbq"), [(1, *one) for one, is_b in zip(CONNECTIONS, draw, strict=True) if is_b])
    found = list(differences(pl.concat([of_bbr.filter(~draw), of_b])))
    assert [one.peers for one in found] == [PEERS] * len(METRICS)
    assert found[GOODPUT].estimate.high < 0
    assert found[RTT].estimate.high < 0


# ---- differences --------------------------------------------------------------------------------------


def rows_of(values: dict[tuple[int, str], list[float]], **others: Any) -> pl.DataFrame:
    """Return rows of connections whose RTTs are given by peer and arm."""
    row = dict.fromkeys(SCHEMA, 1) | {"control": "x", "control_at_end": "x", "kept_control": True, "is_whole": True}
    row |= {"acked_bytes": 10**6, **others}
    rows = [
        {**row, "peer": f"10.0.{peer}.0/24", "arm": arm, "rtt_mean_ms": rtt}
        for (peer, arm), rtts in values.items()
        for rtt in rtts
    ]
    return pl.DataFrame(rows, schema=SCHEMA)


def rtt_difference(rows: pl.DataFrame) -> ControlDifference:
    return list(differences(rows))[RTT]


def test_connections_are_compared_with_those_of_their_peer() -> None:
    rtts: dict[tuple[int, str], list[float]] = {}
    for peer in range(12):
        rtts |= {(peer, "A"): [10.0 * 2**peer] * (peer + 1), (peer, "B"): [11.0 * 2**peer] * 2}
    found = rtt_difference(rows_of({**rtts, (99, "B"): [1.0]}))
    assert (found.peers, found.connections) == (12, 103)
    assert [found.estimate.value, found.estimate.low, found.estimate.high] == pytest.approx([10, 10, 10])


def test_few_peers_have_a_difference_without_an_interval() -> None:
    found = rtt_difference(rows_of({(0, "A"): [10.0, 12.0], (0, "B"): [11.0]}))
    assert found.estimate.value == pytest.approx(100 * (11 / math.sqrt(120) - 1))
    assert math.isnan(found.estimate.low)
    assert found.needed == (math.inf,) * 3


def test_a_difference_of_a_half_needs_four_times_the_connections() -> None:
    draw = np.random.default_rng(1)
    rows = rows_of({(peer, arm): list(draw.lognormal(3, 0.3, 20)) for peer in range(20) for arm in "AB"})
    found = rtt_difference(rows)
    half_width = (math.log1p(found.estimate.high / 100) - math.log1p(found.estimate.low / 100)) / 2
    for percent, more in zip(found.metric.sought, found.needed, strict=True):
        ratio = 1.43 * half_width / math.log1p(percent / 100)  # (1.96 + 0.84) / 1.96
        assert more == pytest.approx(max(0, 800 * (ratio**2 - 1)), rel=0.01, abs=1)
    assert [column.header for column in needed_table([found]).columns][:2] == ["of", "difference"]


def test_what_a_connection_does_not_have_is_left_out() -> None:
    rtts = {(peer, arm): [10.0] for peer in range(12) for arm in "AB"}
    found = list(differences(rows_of(rtts, is_whole=False, acked_bytes=0)))
    assert [one.connections for one in found] == [0, 0, 24, 24]
    assert math.isnan(found[GOODPUT].estimate.value)


# ---- the run folder -----------------------------------------------------------------------------------


def test_rows_tell_of_the_peer_s_network_alone() -> None:
    ended = dict.fromkeys(("cookie", "arm", "acked_bytes", "sent_pkts", "retransmitted_pkts", "port"), 1)
    ended |= {"start_us": 1_000_000, "finish_us": 1_500_000, "end_us": 2_000_000, "is_whole": True}
    ended |= {"rtt_sum_us": 60_000, "rtt_samples": 3, "min_rtt_us": 19_000, "control": "bbr", "is_changed": True}
    v4 = {"family": socket.AF_INET, "remote": bytes([192, 0, 2, 77]) + bytes(12)}
    v6 = {"family": socket.AF_INET6, "remote": socket.inet_pton(socket.AF_INET6, "2001:db8:1:2::3")}
    mapped = {"family": socket.AF_INET6, "remote": socket.inet_pton(socket.AF_INET6, "::ffff:192.0.2.77")}
    silent = {**v4, "finish_us": 0, "rtt_samples": 0, "min_rtt_us": 2**32 - 1}
    rows = list(
        comparison._rows(ComparisonRequest(a="x", b="y"), [{**ended, **one} for one in (v4, v6, mapped, silent)])
    )
    assert [row["peer"] for row in rows] == ["192.0.2.0/24", "2001:db8:1::/48", "192.0.2.0/24", "192.0.2.0/24"]
    assert [rows[0][name] for name in ("arm", "control", "completion_s", "rtt_mean_ms")] == ["B", "y", 0.5, 20.0]
    assert [rows[0][name] for name in ("control_at_end", "kept_control")] == ["bbr", False]
    assert rows[0]["end_s"] - rows[0]["start_s"] == pytest.approx(1.0)
    assert [rows[3][name] for name in ("completion_s", "rtt_mean_ms", "rtt_min_ms")] == [None, None, None]


def test_a_folder_goes_on_with_the_same_comparison_alone(tmp_path: Path) -> None:
    request = ComparisonRequest(a="reno", b="gym_bbq")
    folder = ComparisonFolder(tmp_path)
    assert folder.begin(request) == request
    assert folder.begin(ComparisonRequest(a="reno", b="gym_bbq")).seed == request.seed
    with pytest.raises(ConfigError, match=r"is of another comparison, expected b=gym_bbq, share=0\.5"):
        folder.begin(ComparisonRequest(a="reno", b="bbr", share=0.1))


def test_a_control_that_was_unloaded_ends_it(tmp_path: Path) -> None:
    request = ComparisonRequest(a="reno", b="gym_none")
    with pytest.raises(HostError, match=f"gym_none is no longer loaded; .*, and resume={tmp_path} goes on"):
        ComparisonFolder(tmp_path)._check_loaded(request, {"refused": 1})


def test_what_had_another_control_or_few_bytes_is_counted_and_not_compared(tmp_path: Path) -> None:
    folder, rtts = ComparisonFolder(tmp_path), {(peer, arm): [10.0] for peer in range(12) for arm in "AB"}
    folder.begin(ComparisonRequest(a="reno", b="gym_bbq"))
    request = folder.begin(ComparisonRequest(a="reno", b="gym_bbq", least_bytes=5))
    parts = RowParts(tmp_path / "connections", SCHEMA)
    parts.add(rows_of(rtts).to_dicts())
    parts.add(rows_of({(0, "A"): [99.0] * 3}, kept_control=False, control_at_end="bbr").to_dicts())
    parts.add(rows_of({(0, "B"): [99.0] * 2}, acked_bytes=4).to_dicts())
    parts.flush()
    time = {"given": [16, 15], "ended": [16, 15], "rows": [16, 15], "refused": 0, "lost": 0}  # its last part was killed
    folder.write_json("counts.json", {"times": [time]})
    assert folder.counts() == [{**time, "ended": [15, 14], "rows": [15, 14]}]
    write_comparison_report(folder, request, "bbrgym kernel compare reno gym_bbq")
    said = " ".join((tmp_path / "summary.txt").read_text().split())
    assert "A reno 16 15 15 15 3 12 1 B gym_bbq 15 14 14 14 0 12 1" in said
    assert "3 had another control than they were given (at their end bbr 3)" in said
    assert "gym_bbq (B) against reno (A)" in said
    assert "24 connections of 12 peers" in (tmp_path / "report.html").read_text()


def test_a_comparison_without_a_connection_has_a_report(tmp_path: Path) -> None:
    folder, request = ComparisonFolder(tmp_path), ComparisonRequest(a="reno", b="gym_bbq", ports=(80,))
    folder.begin(request)
    write_comparison_report(folder, request, "bbrgym kernel compare reno gym_bbq")
    assert "0 connections of 0 peers" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("share=1", "share: is 1, expected a number < 1"),
        ("share=half", "share: is 'half', expected a number"),
        ("ports=80,x", "ports[1]: is 'x', expected a whole number"),
        ("ports=80,70000", "ports[1]: is 70000, expected a number <= 65535"),
        ("port=80", "port: is not a field; "),
        ("least_bytes=-1", "least_bytes: is -1, expected a number >= 0"),
    ],
)
def test_a_wrong_option_is_told(option: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernel", "compare", "reno", "bbr", option]) == 2
    assert said in capsys.readouterr().err


# ---- live traffic -------------------------------------------------------------------------------------


@needs_loading
@needs_cgroup
def test_live_connections_are_compared_and_an_interrupted_comparison_resumes(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    first, killed, last = of_script("kernel_compare.py", str(run_dir))
    assert [one["code"] for one in (first, killed, last)] == [0, -9, 0]
    for one in (first, killed, last):
        assert set(one["given"]) == {"reno", NAME}
        assert one["after"] not in one["given"], "what drew is still attached"
    for refusal in first["refusals"]:
        assert refusal.startswith("bbrgym: another comparison is at ")
    assert first["unload"] == f"{NAME} is given to connections by bbrgym kernel compare: end the comparison first"
    for one in (first, last):
        assert "B minus A" in one["said"]
    rows = ComparisonFolder(run_dir).connections()
    for name in ("reno", NAME):
        own = rows.filter(pl.col("control") == name)
        changed = own.filter(pl.col("peer") == "127.0.7.0/24")
        assert set(changed.select("control_at_end", "kept_control").rows()) == {("cubic", False)}
        assert set(own.join(changed, on="connection", how="anti")["control_at_end"]) == {name}
        assert len(own) == (first["given"] + last["given"]).count(name)  # the killed one's were not on the disk yet
    assert rows["peer"].n_unique() == 12
    assert rows["is_whole"].all()
    assert rows["acked_bytes"].unique().to_list() == [50_000]
    assert (rows["completion_s"] > 0).all()
    assert (rows["rtt_min_ms"] <= rows["rtt_mean_ms"]).all()
    assert (run_dir / "report.html").exists()
