# SPDX-License-Identifier: GPL-2.0-only
"""Runs a scenario and writes every packet and every ACK's decision of the run, in one or more formats at once.

The rows go to the files after each part of the run, so that a long run needs no more memory than a short one. The
files get their names at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol

import numpy as np

from bbrgym.errors import ConfigError, nearest
from bbrgym.runs.atomic_files import replacement
from bbrgym.scenario.files import Source, load_scenario
from bbrgym.trace.csv_rows import CsvWriter
from bbrgym.trace.pcapng import PcapngWriter
from bbrgym.trace.qlog import QlogWriter
from bbrgym.trace.rows import Rows, TracedRun
from bbrgym.worlds import DEFAULT_TIMEOUT_S, FAST_WORLD, World, make_world, registered_worlds, world_spec

_FIRST_STEP_S, _MIN_STEP_S, _MAX_STEP_S = 0.01, 0.001, 1.0
_ROWS = 50_000  # of a step, about


class TraceWriter(Protocol):
    """Writes a trace to a file as the rows come."""

    def __init__(self, file: BinaryIO, run: TracedRun) -> None: ...

    def write(self, rows: Rows) -> None:
        """Write rows that follow the earlier ones."""


class Format(NamedTuple):
    """A format of traces."""

    suffix: str  # of the file's name
    writer: type[TraceWriter]  # class that writes it
    meaning: str  # one line for people


FORMATS = {
    "qlog": Format(".sqlog", QlogWriter, "qlog events as JSON text sequences, for qvis"),
    "pcapng": Format(".pcapng", PcapngWriter, "a capture at the senders, for Wireshark, tshark and tcptrace"),
    "csv": Format(".csv", CsvWriter, "the raw rows"),
}
"""The formats of traces by name."""


@dataclass(frozen=True)
class TracedFlowCounts:
    """Counts of a flow over a whole run."""

    name: str
    cc: str  # its congestion control
    sent_pkts: int  # data packets sent, retransmissions included
    retransmitted_pkts: int
    lost_pkts: int  # that the sender marked lost
    dropped_pkts: int  # by policer or queue, or lost at random
    delivered_pkts: int  # acknowledged to the sender


_COUNTED = ("sent_pkts", "retransmitted_pkts", "lost_pkts", "dropped_pkts", "delivered_pkts")


@dataclass(frozen=True)
class TraceResult:
    """A trace that was written."""

    files: Mapping[str, Path]  # by format
    flows: tuple[TracedFlowCounts, ...]  # what the run's own measurement counted
    rows: int  # number of packets' rows and of decisions


def write_trace(
    scenario: Source,
    folder: Path | str,
    *,
    formats: Sequence[str] = ("qlog",),
    world: str = FAST_WORLD,
    seed: int = 1,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    options: Mapping[str, Any] | None = None,
    on_progress: Callable[[float], None] | None = None,
) -> TraceResult:
    """Run a scenario and write the trace, ``trace.<suffix>`` of each format.

    Args:
        scenario: a Scenario, a name, a path or a mapping; its flows have the congestion controls to trace.
        folder: that gets the files; made if it is not there.
        formats: names of `FORMATS`, each once.
        world: ``twin`` or ``ns3``.
        seed: of the run.
        timeout_s: longest wall time of each simulated second.
        options: the world's own options, by name.
        on_progress: called with the simulated seconds so far, now and then.

    Raises:
        ScenarioError, ConfigError: an argument is wrong, or the world has no trace of packets.
        WorldError: the simulation broke.
        OSError: a file cannot be written; none gets its name then.
    """
    chosen = checked_formats(formats)
    able = [name for name, spec in registered_worlds().items() if spec.can_trace]
    if not world_spec(world).can_trace:
        raise ConfigError(f"world: is {world!r}, which has no trace of packets; allowed are {', '.join(able)}")
    loaded = load_scenario(scenario)
    files = {name: Path(folder) / f"trace{FORMATS[name].suffix}" for name in chosen}
    run = TracedRun.of(loaded, world, seed)
    with (
        closing(make_world(world, loaded, seed, isolation="none", timeout_s=timeout_s, options=options)) as made,
        ExitStack() as opened,  # each file gets its name after the run
    ):
        made.trace_packets()
        places = [(name, opened.enter_context(replacement(path))) for name, path in files.items()]
        writers = [FORMATS[name].writer(opened.enter_context(place.open("wb")), run) for name, place in places]
        return TraceResult(files, *_record(made, run, writers, on_progress))


def checked_formats(formats: Any) -> tuple[str, ...]:
    """Return names of formats, given as a name or a list of names.

    Raises:
        ConfigError: one is unknown or comes twice, or there is none.
    """
    names = [formats] if isinstance(formats, str) else formats
    if not isinstance(names, (list, tuple)) or not names:
        raise ConfigError(f"format: is {formats!r}, expected one of {', '.join(FORMATS)}, or a list of them")
    for name in names:
        if name not in FORMATS:
            raise ConfigError(f"format: is {name!r}; {nearest(str(name), FORMATS)}")
    if len(set(names)) < len(names):
        raise ConfigError(f"format: is {formats!r}, expected each once")
    return tuple(names)


def _record(
    world: World, run: TracedRun, writers: Sequence[TraceWriter], on_progress: Callable[[float], None] | None
) -> tuple[tuple[TracedFlowCounts, ...], int]:
    """Run to the end and hand all rows to the writers; return what the run's measurement counted, and how many rows."""
    columns = [world.flow_fields.index(name) for name in _COUNTED]
    counted = np.zeros((len(run.flows), len(_COUNTED)))
    step_s, number = _FIRST_STEP_S, 0
    while not world.done:
        world.advance(step_s)
        rows = Rows(*world.take_packets())
        for writer in writers:
            writer.write(rows)
        number += len(rows.packets) + len(rows.decisions)
        counted += world.flow_stats()[:, columns]
        scale = _ROWS / max(len(rows.packets), 1)
        step_s = min(max(step_s * min(max(scale, 0.25), 2.0), _MIN_STEP_S), _MAX_STEP_S)
        if on_progress is not None:
            on_progress(world.now_s)
    counts = counted.round().astype(int).tolist()
    return tuple(
        TracedFlowCounts(flow.name, flow.cc, *row) for flow, row in zip(run.flows, counts, strict=True)
    ), number
