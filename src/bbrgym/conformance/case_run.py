# SPDX-License-Identifier: GPL-2.0-only
"""A run of one case: its stages one after the other, each with the moments of those before, then the checks."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import polars as pl

from bbrgym.conformance.ack_history import AckHistory
from bbrgym.conformance.draft_case import DraftCase
from bbrgym.conformance.draft_cases import DRAFT_CASES
from bbrgym.conformance.findings import Finding
from bbrgym.conformance.judgement import DraftStatement, judged, never
from bbrgym.conformance.setup import FLOW, CaseSetup, Condition, Find, Sender
from bbrgym.errors import ConfigError, one_line
from bbrgym.scenario.files import load_scenario
from bbrgym.worlds import LateRunError, World, WorldError, make_world, repeat_late, world_spec
from bbrgym.worlds.specs import MAX_LATE_SHARE

_MOST_ACKS = 1_500_000  # of a history: 400 MB
_FIRST_LOOK_TURNS = 10  # round trips after which a run is looked at first, then less and less often
_LATER = 1.4
_TRACE_ROWS = 1200  # of a CSV file, beside those around what happens
_AROUND = 12
_REAL_TIME_ACKS = 200
_REAL_TIME_MBPS = 100.0
_REAL_TIME_RTT_MS = 10.0
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class CaseRun:
    """A case under a condition with a sender in a world."""

    case: str
    condition: int  # index among the case's
    sender: Sender
    world: str
    options: Mapping[str, Any] = field(default_factory=dict)
    timeout_s: float = 600.0  # of the world's, see `bbrgym.make_world`
    seed: int = 1  # of all random numbers

    @property
    def key(self) -> str:
        """A name that differs between the runs, for files."""
        parts = (self.case, self.sender.cc, self.sender.reading, self.path.name, self.world)
        return "-".join(parts)

    @property
    def of(self) -> DraftCase:
        """The case."""
        return DRAFT_CASES[self.case]

    @property
    def path(self) -> Condition:
        """The condition."""
        return self.of.conditions[self.condition]

    def row(self, finding: Finding) -> dict[str, Any]:
        """Return the row of findings.parquet."""
        path = {"rtt_ms": self.path.rtt_ms, "rate_mbps": self.path.rate_mbps, "variation": self.path.variation}
        about = {"number": self.of.number, "case": self.case, "world": self.world, **asdict(self.sender), **path}
        return {**about, **asdict(finding), "trace": f"traces/{self.key}.csv" if finding.trace else ""}


def not_applicable(run: CaseRun) -> str:
    """Return why a case is not applicable, empty if it is."""
    sender, spec = run.sender, world_spec(run.world)
    for name in (sender.cc, f"{sender.cc}/{sender.reading}"):
        if name in run.of.not_for:
            return run.of.not_for[name]
    if not spec.has_controller(sender.cc):
        return f"world {run.world} has no {sender.cc}"
    if spec.is_real_time and run.of.stages:
        return f"world {run.world} does not repeat a run, so nothing can be changed when a state begins"
    if spec.is_real_time and (run.path.rate_mbps > _REAL_TIME_MBPS or run.path.rtt_ms < _REAL_TIME_RTT_MS):
        return (
            f"world {run.world} is in real time: at most {_REAL_TIME_MBPS:g} Mbit/s, {_REAL_TIME_RTT_MS:g} ms at least"
        )
    if spec.is_real_time and run.of.bursts_of_acks and run.path.bdp_pkts > _REAL_TIME_ACKS:
        return f"world {run.world} is in real time, and hundreds of ACKs at one moment take it longer than 1 ms"
    return ""


def run_case(run: CaseRun) -> Finding:
    """Run a case and return what it found; what breaks the simulation is a finding too."""
    reason = not_applicable(run)
    if reason:
        return Finding("not applicable", reason=reason)
    try:
        return repeat_late(
            lambda: _found(run), lambda error: _LOG.warning("%s is repeated: %s", run.case, error.reason)
        )
    except (ConfigError, WorldError) as error:
        return Finding("broken", reason=one_line(error))


def _found(run: CaseRun) -> Finding:
    case, setup = run.of, run.of.setup(run.sender, run.path)
    history = AckHistory(np.zeros(0))
    for stage in case.stages:
        history = _observe(run, setup, stage.find)
        row = stage.find(history, setup)
        if row is None:
            return _judged(run, history, [never(stage.name, history)])
        setup = setup.copy()
        stage.apply(setup, history, row)
        setup.moments_s.append(history.time_s(row))
    history = _observe(run, setup, case.end)
    end = case.end(history, setup)
    history = history if end is None else history.ending_at(end)
    if not len(history):
        return _judged(run, history, [never("an ACK", history)])
    return _judged(run, history, judged(case.check, history, setup))


def _observe(run: CaseRun, setup: CaseSetup, find: Find) -> AckHistory:
    """Return the ACKs of a run until what is looked for is there, or for as long as the case lasts."""
    duration_s = run.of.lasts(run.path)
    scenario = load_scenario(setup.scenario(run.case, duration_s))
    with make_world(
        run.world, scenario, run.seed, isolation="none", timeout_s=run.timeout_s, options=dict(run.options)
    ) as world:
        world.trace_acks(FLOW, _MOST_ACKS)
        look_s = _FIRST_LOOK_TURNS * run.path.turn_s
        history = AckHistory(np.zeros(0))
        while not world.done and len(history) < _MOST_ACKS:
            world.advance(max(look_s, 1e-3))
            look_s = max(look_s, (_LATER - 1) * world.now_s)
            history = AckHistory(world.ack_trace(FLOW))
            if len(history) and find(history, setup) is not None:
                break
        _check_lateness(run, world)
        return AckHistory(history.rows.copy())


def _check_lateness(run: CaseRun, world: World) -> None:
    """Check what the world checks at a run's end, where most of these do not come.

    Raises:
        LateRunError: too many packets were late.
    """
    if not world_spec(run.world).is_real_time:
        return
    share = float(world.summary()[1][world.link_summary_fields.index("late_share")])
    most = float(run.options.get("max_late_share", MAX_LATE_SHARE))
    if share > most:
        reason = f"{share:.2%} of the packets were more than 1 ms late, at most {most:.2%} are allowed"
        raise LateRunError(run.case, run.seed, world.now_s, reason)


def _judged(run: CaseRun, history: AckHistory, statements: list[DraftStatement]) -> Finding:
    """Return the finding of a run; of statements that fail, one that nothing explains comes first."""
    failed = [one for one in statements if one.failed_s is not None]
    reasons = {one.text: run.of.explanation(one, run.sender, run.path) for one in failed}
    unexplained = [one for one in failed if not reasons[one.text]]
    shown = min(unexplained or failed, key=lambda one: one.failed_s or 0.0, default=None)
    trace = _csv(history, None if shown is None else shown.failed_s)
    if shown is None:
        measured = "; ".join(one.measured for one in statements if one.measured)
        return Finding("passed", measured=measured, trace=trace)
    return Finding(
        "failed" if unexplained else "explained",
        failed_s=shown.failed_s,
        statement=shown.text,
        measured=shown.measured,
        reason="" if unexplained else " ".join(dict.fromkeys(reasons.values())),
        trace=trace,
    )


def _csv(history: AckHistory, failed_s: float | None) -> str:
    """Return rows of a history as CSV: all around changes of the phase and of the loss state, and others between."""
    size = len(history)
    if not size:
        return ""
    keep = set(np.linspace(0, size - 1, min(size, _TRACE_ROWS)).astype(int).tolist())
    events = np.flatnonzero((np.diff(history["phase"]) != 0) | (np.diff(history["ca_state"]) != 0))[:200].tolist()
    if failed_s is not None:
        events.append(int(np.searchsorted(history["time_us"], failed_s * 1e6)))
    for event in events:
        keep.update(range(max(0, event - _AROUND), min(size, event + _AROUND)))
    chosen = history.rows[sorted(keep)]
    columns = {name: np.ascontiguousarray(chosen[name]) for name in chosen.dtype.names}
    is_rate = {name: column.dtype == np.uint64 for name, column in columns.items()}  # -1: it is not bounded
    return pl.DataFrame(
        {name: column.view(np.int64) if is_rate[name] else column for name, column in columns.items()}
    ).write_csv()
