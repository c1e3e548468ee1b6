# SPDX-License-Identifier: GPL-2.0-only
"""``bbrgym conformance`` from end to end, and single cases of the draft."""

import io
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from kernel_world import needs_bpf, needs_kernel

from bbrgym.cli.main import main
from bbrgym.conformance import case_run as conformance
from bbrgym.conformance.ack_history import UP, AckHistory
from bbrgym.conformance.case_run import CaseRun, run_case
from bbrgym.conformance.changing_path_cases import GROWS
from bbrgym.conformance.draft_cases import DRAFT_CASES
from bbrgym.conformance.findings import SCHEMA, Finding
from bbrgym.conformance.report import conformance_page
from bbrgym.conformance.setup import CaseSetup, Find, Sender

Here = Callable[..., tuple[int, str, str]]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        return main(["conformance", *arguments]), *capsys.readouterr()

    return run


def case_run(case: str, sender: Sender, world: str = "twin", rtt_ms: float = 40.0) -> CaseRun:
    paths = [path.rtt_ms for path in DRAFT_CASES[case].conditions]
    return CaseRun(case, paths.index(rtt_ms), sender, world)


def test_the_cases_are_the_drafts() -> None:
    assert {case.number for case in DRAFT_CASES.values()} == set(range(1, 23))
    names = [(case, path.name) for case in DRAFT_CASES.values() for path in case.conditions]
    assert len({(case.name, path) for case, path in names}) == len(names)


def test_a_run_prints_and_writes_what_it_found(here: Here, tmp_path: Path) -> None:
    code, output, errors = here("case=drain-inflight", "cc=[bbr3,bbr]", "output_dir=out", "docs=docs", "jobs=2")
    assert code == 0, errors
    assert "Draft cases, runs by outcome" in output
    findings = pl.read_parquet(tmp_path / "out" / "findings.parquet")
    assert len(findings) == 3 * len(DRAFT_CASES["drain-inflight"].conditions)
    own = findings.filter((pl.col("rtt_ms") == 40.0) & (pl.col("cc") == "bbr3"))
    assert dict(own.select("reading", "outcome").rows()) == {"code": "explained", "draft": "passed"}
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        *("config.yaml", "provenance.json", "findings.parquet", "findings.csv", "summary.txt", "traces", ".lock")
    }
    for row in findings.to_dicts():
        trace = pl.read_csv(tmp_path / "out" / row["trace"])
        assert set(trace["phase"]) > {0}
        assert trace["time_us"].is_sorted()
    page = (tmp_path / "docs" / "conformance.md").read_text()
    assert "| 3 | `drain-inflight` | Exiting DRAIN Based on Inflight |" in page
    assert "8 explained" in page


class ShortProbe(Sender):
    """A sender whose PROBE_RTT is too short."""

    @property
    def tunables(self) -> Mapping[str, float]:
        return {"bbr3_probe_rtt_time_us": 60_000.0}


def test_a_broken_sender_fails_with_the_first_moment_and_a_trace() -> None:
    assert run_case(case_run("probe-rtt", Sender("bbr3"))).outcome == "passed"
    found = run_case(case_run("probe-rtt", ShortProbe("bbr3")))
    assert found.outcome == "failed"
    assert found.statement.startswith("it lasts for ProbeRTTDuration and a round")
    trace = pl.read_csv(io.StringIO(found.trace))
    assert found.failed_s is not None
    at = trace.filter(pl.col("time_us") == round(found.failed_s * 1e6))
    before = trace.filter(pl.col("time_us") < round(found.failed_s * 1e6)).tail(1)
    assert before["phase"].to_list() == [2]
    assert at["phase"].to_list() != [2]


@pytest.mark.parametrize(
    ("case", "sender", "rtt_ms", "seed"),
    [
        # the plateau ends UP in a recovery that is undone, which forgets the plateau
        ("spurious-recovery", Sender("bbr3", "draft"), 100.0, 8),
        # a lost packet left with more in flight than any that arrived
        ("up-loss-bounded", Sender("bbr3"), 10.0, 5),
        # min_rtt's interval ends while the application pauses in the first REFILL
        ("refill-limited", Sender("bbr2"), 100.0, 5),
        # pacing, not the bound, holds the sender back for most of a round of UP
        ("bandwidth-up", Sender("bbr3", "draft"), 10.0, 6),
    ],
)
def test_what_a_check_cannot_see_in_one_row_fails_no_sender(
    case: str, sender: Sender, rtt_ms: float, seed: int
) -> None:
    found = run_case(replace(case_run(case, sender, rtt_ms=rtt_ms), seed=seed))
    assert (found.outcome, found.statement) == ("passed", "")


def test_a_packet_too_many_in_the_bound_of_up_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    observe = conformance._observe

    def observe_more(run: CaseRun, setup: CaseSetup, find: Find) -> AckHistory:
        history = observe(run, setup, find)
        if len(setup.moments_s) == len(run.of.stages):  # all stages are over: this is what is judged
            is_bounded = history.is_in(UP) & (history["inflight_hi_pkts"] >= 0)
            history["inflight_hi_pkts"][np.flatnonzero(is_bounded[: run.of.end(history, setup)])[-1]] += 1
        return history

    monkeypatch.setattr(conformance, "_observe", observe_more)
    found = run_case(case_run("bandwidth-up", Sender("bbr3", "draft"), rtt_ms=10.0))
    assert (found.outcome, found.statement) == ("failed", GROWS)


def test_packets_are_held_back_behind_an_up_that_probe_rtt_leaves_whole() -> None:
    run = replace(case_run("spurious-timeout", Sender("bbr2"), rtt_ms=100.0), seed=5)  # PROBE_RTT cuts the first short
    assert run_case(run).outcome in ("passed", "explained")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["case=up-plateau", "cc=bbr"], "BBR v1 has no such phase"),
        (["world=linux", "case=bandwidth-up"], "world linux does not repeat a run"),
    ],
)
def test_a_case_that_is_not_applicable_says_why(options: list[str], says: str, here: Here) -> None:
    code, output, errors = here(*options, "output_dir=out")
    assert code == 0, errors
    assert says in output


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("case=drain-inflihgt", "case: is 'drain-inflihgt'; did you mean drain-inflight"),
        ("case=foo", "docs/conformance.md shows all"),
        ("cc=cubic", "cc: is 'cubic'; allowed are bbr3, bbr2, bbr"),
        ("reading=rfc", "reading: is 'rfc'; allowed are code, draft"),
        ("world=ns3gym", "world: is 'ns3gym'; did you mean ns3? allowed are ns3, twin, linux"),
        ("jobs=0", "jobs: is 0, expected"),
    ],
)
def test_a_wrong_option_is_one_error(here: Here, option: str, message: str) -> None:
    code, output, errors = here(option, "output_dir=out")
    assert (code, output) == (2, "")
    assert message in " ".join(errors.split())


@pytest.mark.parametrize("case", ["startup-plateau", pytest.param("spurious-timeout", marks=pytest.mark.slow)])
def test_the_ns3_world_finds_what_the_twin_finds(case: str) -> None:
    twin = run_case(case_run(case, Sender("bbr3", "draft"), "twin"))
    assert run_case(case_run(case, Sender("bbr3", "draft"), "ns3")) == twin
    assert twin.trace


def test_the_page_tells_where_worlds_differ_and_how_much_one_can_judge() -> None:
    row = case_run("startup-plateau", Sender("bbr3")).row(Finding("passed"))
    other = {**row, "world": "ns3", "outcome": "failed", "failed_s": 1.0, "statement": "s", "measured": "m"}
    long = {**row, "rtt_ms": 100.0, "rate_mbps": 100.0}
    absent = {**long, "world": "linux", "outcome": "not applicable"}

    def page(*rows: dict[str, Any]) -> str:
        return conformance_page(pl.DataFrame(rows, schema=SCHEMA), "", "2026-01-01")

    says = "World `ns3` differs: `startup-plateau`, 40 ms, 10 Mbit/s (bbr3): **failed** at 1 s: s: m."
    assert says in page(row, other)
    same = "World `linux` judges 1 of 2 runs: the same outcomes."
    assert same in page(row, long, {**row, "world": "linux"}, absent)
    assert "World `linux` can judge none of it." in page(row, long, absent)


@needs_bpf
@needs_kernel
def test_a_case_runs_on_the_kernels_sockets() -> None:
    found = run_case(replace(case_run("startup-plateau", Sender("bbr"), "linux"), options={"max_late_share": 1.0}))
    assert found.outcome in ("passed", "failed")  # a busy machine may lift the bandwidth
    trace = pl.read_csv(io.StringIO(found.trace))
    assert set(trace["phase"].to_list()) >= {0}
    assert trace["min_rtt_us"].to_numpy()[-1] >= 40_000
