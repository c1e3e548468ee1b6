# SPDX-License-Identifier: GPL-2.0-only
"""``bbrgym conformance`` from end to end, and single cases of the draft."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bbrgym.cli.main import main
from bbrgym.conformance.ack_history import UP, AckHistory
from bbrgym.conformance.changing_path_cases import GROWS
from bbrgym.conformance.setup import CaseSetup, Find, Sender
from bbrgym.conformance.verdicts import DRAFT_CASES, SENDERS, CaseRun

Here = Callable[..., tuple[int, str, str]]
PAGE = "# Page\n<!-- begin verdicts, written by bbrgym conformance -->\nformer\n<!-- end verdicts -->\nend\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Here:
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        return main(["conformance", *arguments]), *capsys.readouterr()

    return run


def case_run(case: str, sender: Sender, world: str = "twin", rtt_ms: float = 40.0, seed: int = 1) -> CaseRun:
    path = next(path for path in DRAFT_CASES[case].conditions if path.rtt_ms == rtt_ms)
    return CaseRun(DRAFT_CASES[case], sender, path, world, seed)


def test_the_cases_are_the_drafts() -> None:
    assert {case.number for case in DRAFT_CASES.values()} == set(range(1, 23))
    assert all(len(set(case.conditions)) == len(case.conditions) for case in DRAFT_CASES.values())


def test_the_command_prints_the_verdicts_and_writes_the_page(here: Here, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    code, output, errors = here("bbr3", "bbr3-draft", "bbr", "case=drain-inflight", f"write={page}")
    assert code == 0, errors
    assert "drain-inflight, 40 ms, 10 Mbit/s, bbr3: explained at " in output
    row = "| 3 | `drain-inflight` | 0/8/0/0 | 6/2/0/0 | 0/8/0/0 |"
    assert row in output
    text = page.read_text()
    assert "|  | all | 0/8/0/0 | 6/2/0/0 | 0/8/0/0 |" in text  # case by case the command prints them
    assert (text.startswith(PAGE[:20]), text.endswith(PAGE[-10:]), "former" in text) == (True, True, False)


class ShortProbe(Sender):
    """A sender whose PROBE_RTT is too short."""

    @property
    def tunables(self) -> Mapping[str, float]:
        return {"bbr3_probe_rtt_time_us": 60_000.0}


def test_a_broken_sender_fails_with_the_first_moment() -> None:
    run = case_run("probe-rtt", Sender("bbr3"))
    assert run.verdict().outcome == "passed"
    broken = replace(run, sender=ShortProbe("bbr3"))
    found = broken.verdict()
    assert (found.outcome, found.reason) == ("failed", "")
    assert found.failed is not None
    assert found.failed.failed_s is not None
    assert found.failed.text.startswith("it lasts for ProbeRTTDuration and a round")
    history = broken._observe(run.case.setup(broken.sender, run.path), run.case.end)
    phases = history["phase"][
        np.searchsorted(history["time_us"], round(found.failed.failed_s * 1e6)) + np.array([-1, 0])
    ]
    assert (phases == 2).tolist() == [True, False]  # PROBE_RTT ends there


@pytest.mark.parametrize(
    ("case", "sender", "rtt_ms", "seed"),
    [
        # the plateau ends UP in a recovery that is undone, which forgets the plateau
        ("spurious-recovery", "bbr3-draft", 100.0, 8),
        # a lost packet left with more in flight than any that arrived
        ("up-loss-bounded", "bbr3", 10.0, 5),
        # min_rtt's interval ends while the application pauses in the first REFILL
        ("refill-limited", "bbr2", 100.0, 5),
        # pacing, not the bound, holds the sender back for most of a round of UP
        ("bandwidth-up", "bbr3-draft", 10.0, 6),
    ],
)
def test_what_a_check_cannot_see_in_one_row_fails_no_sender(case: str, sender: str, rtt_ms: float, seed: int) -> None:
    found = case_run(case, SENDERS[sender], rtt_ms=rtt_ms, seed=seed).verdict()
    assert (found.outcome, found.failed) == ("passed", None)


def test_a_packet_too_many_in_the_bound_of_up_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    observe = CaseRun._observe

    def observe_more(run: CaseRun, setup: CaseSetup, find: Find) -> AckHistory:
        history = observe(run, setup, find)
        if len(setup.moments_s) == len(run.case.stages):  # all stages are over: this is what is checked
            is_bounded = history.is_in(UP) & (history["inflight_hi_pkts"] >= 0)
            history["inflight_hi_pkts"][np.flatnonzero(is_bounded[: run.case.end(history, setup)])[-1]] += 1
        return history

    monkeypatch.setattr(CaseRun, "_observe", observe_more)
    found = case_run("bandwidth-up", SENDERS["bbr3-draft"], rtt_ms=10.0).verdict()
    assert found.outcome == "failed"
    assert found.failed is not None
    assert found.failed.text == GROWS


def test_packets_are_held_back_behind_an_up_that_probe_rtt_leaves_whole() -> None:
    run = case_run("spurious-timeout", Sender("bbr2"), rtt_ms=100.0, seed=5)  # PROBE_RTT cuts the first short
    assert run.verdict().outcome in ("passed", "explained")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["case=drain-inflihgt"], "case: is 'drain-inflihgt'; did you mean drain-inflight"),
        (["case=foo"], "bbrgym conformance shows all"),
        (["cubic"], "CC: is 'cubic'; allowed are bbr3, bbr3-draft, bbr2, bbr"),
        (["bbr", "case=up-plateau", "write=none.md"], "none.md"),
    ],
)
def test_a_wrong_option_is_one_error(here: Here, arguments: list[str], message: str) -> None:
    code, output, errors = here(*arguments)
    assert (code, output) == (2, "")
    assert message in " ".join(errors.split())


def test_a_case_that_is_not_applicable_says_why(here: Here) -> None:
    code, output, _ = here("bbr", "case=up-plateau")
    assert (code, "not applicable (BBR v1 has no such phase" in output) == (0, True)


@pytest.mark.parametrize("case", ["startup-plateau", pytest.param("spurious-timeout", marks=pytest.mark.slow)])
def test_the_ns3_world_has_the_verdicts_of_the_twin(case: str) -> None:
    twin, ns3 = (case_run(case, SENDERS["bbr3-draft"], world).verdict() for world in ("twin", "ns3"))
    assert ns3 == twin
    assert twin.failed is not None or twin.outcome == "passed"
