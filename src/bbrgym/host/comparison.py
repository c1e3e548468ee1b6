# SPDX-License-Identifier: GPL-2.0-only
"""A comparison of two congestion controls on live traffic: each new connection of a cgroup gets one at random.

The run folder of a comparison

    connections/     a row per connection that ended and sent data, in parts of Parquet
    counts.json      connections of each time that the command ran, by control: given it, ended, and so on
    summary.txt      tables, with figures/ and report.html

What draws is attached to the cgroup by this process alone and goes with it, however it ends (linux/bpf/compare.bpf.c).
Connections keep the control that they were given, unless their program sets another: rows tell that, and such
connections are not compared.
"""

from __future__ import annotations

import fcntl
import ipaddress
import os
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any, ClassVar

import polars as pl
from pydantic import Field
from rich.live import Live
from rich.table import Table

import bbrgym._bpf as _bpf
from bbrgym.errors import ConfigError, nearest
from bbrgym.host.connections import address_of
from bbrgym.host.controls import kernel_errors
from bbrgym.host.errors import HostError
from bbrgym.host.parts import RowParts, interruptible_waits
from bbrgym.host.pins import alone, loaded_names, lock_control, open_folder
from bbrgym.host.system import available_controls
from bbrgym.runs.run_folder import RunFolder
from bbrgym.schema import Float, List, Model, Whole
from bbrgym.worlds.linux_machine import cgroup_root

ARMS = ("A", "B")

SCHEMA = pl.Schema(
    {
        "connection": pl.UInt64,
        **dict.fromkeys(("arm", "control", "peer"), pl.String),
        "port": pl.UInt32,
        **dict.fromkeys(("start_s", "end_s"), pl.Float64),
        "acked_bytes": pl.UInt64,
        **dict.fromkeys(("completion_s", "rtt_mean_ms", "rtt_min_ms"), pl.Float64),
        **dict.fromkeys(("sent_pkts", "retransmitted_pkts"), pl.UInt32),
        "is_whole": pl.Boolean,
        "control_at_end": pl.String,
        "kept_control": pl.Boolean,
    }
)
"""Columns of the rows: the connection's number since the machine was started; the control that it was given; the peer's
/24 or /48; the service's port; the seconds until its last data was acknowledged, which is all of it if ``is_whole``;
whether it had the given control all the time."""

_SAME = ("port", "acked_bytes", "sent_pkts", "retransmitted_pkts", "is_whole")  # columns of the kernel's rows
_COUNTS = "counts.json"
_CONNECTIONS = "connections"
_LOOK_S = 0.25
_PREFIX_BITS = {4: 24, 6: 48}
_UNKNOWN_US = 2**32 - 1  # the kernel's minimum of no RTT


class ComparisonRequest(Model):
    """Two controls and the connections that are to get them."""

    a: str  # names for TCP_CONGESTION, of loaded controls or of the kernel's own; the same one twice tests the test
    b: str
    share: Annotated[Float, Field(gt=0, lt=1)] = 0.5  # of the connections that get B
    # of services, local of connections that peers open and remote of others. Default: all.
    ports: Annotated[List[Annotated[Whole, Field(ge=1, le=65535)]], Field(max_length=16)] = ()
    cgroup: str = ""  # whose processes' connections; a path below the root of cgroups. Default: those of all processes.
    # of a connection's data, acknowledged; one with fewer is not compared
    least_bytes: Annotated[Whole, Field(ge=0, lt=2**63)] = 0
    # of the draws. Default: a new one.
    seed: Annotated[Whole, Field(ge=0, lt=2**63)] = Field(default_factory=lambda: secrets.randbits(63))


class ComparisonFolder(RunFolder):
    """The run folder of a comparison."""

    command: ClassVar[str] = "kernel compare"

    def begin(self, request: ComparisonRequest) -> ComparisonRequest:
        """Return the folder's request: the given one, or the stored one with the given size.

        Raises:
            ConfigError: it was made for another.
        """
        if not self.has_config():
            self.write_config(request.model_dump(mode="json"))
            return request
        before = self.read_request(ComparisonRequest.model_validate)
        given, known = (one.model_dump(exclude={"seed", "least_bytes"}) for one in (request, before))
        changed = [name for name in known if known[name] != given[name]]
        if changed:
            was = ", ".join(f"{name}={known[name]}" for name in changed)
            raise ConfigError(f"resume: {str(self.path)!r} is of another comparison, expected {was}")
        return before.model_copy(update={"least_bytes": request.least_bytes})

    def connections(self) -> pl.DataFrame:
        """Return the rows so far."""
        files = RowParts(self.path / _CONNECTIONS, SCHEMA).files()
        return pl.concat(self.read_table(f"{_CONNECTIONS}/{one.name}", SCHEMA) for one in files) if files else _none()

    def counts(self) -> list[dict[str, Any]]:
        """Return the counts of each time that the command ran: what `_bpf.Comparison` counts, ended ones, and rows."""
        times: list[dict[str, Any]] = self.read_json(_COUNTS).get("times", [])
        arms = self.connections()["arm"]
        for arm, name in enumerate(ARMS if times else ()):  # a kill may have come between the counts and their rows
            missing = sum(one["rows"][arm] for one in times) - int((arms == name).sum())
            times[-1]["ended"][arm] -= missing
            times[-1]["rows"][arm] -= missing
        return times

    def gather(self, request: ComparisonRequest, duration_s: float = float("inf")) -> None:
        """Give new connections a control, and keep the connections' rows, until Ctrl-C.

        Args:
            request: from `begin`.
            duration_s: longest time. Default: no limit.

        Raises:
            ConfigError: there is no such control or cgroup.
            HostError: the kernel refuses it, another comparison is there, or a control was unloaded meanwhile.
        """
        before, ended, rows = self.counts(), [0, 0], [0, 0]
        with _attached(request) as attached, interruptible_waits() as wait:

            def counts() -> dict[str, Any]:
                return {**attached.counts(), "ended": ended, "rows": rows}

            def take() -> None:
                taken = attached.take()
                for one in taken:
                    ended[one["arm"]] += 1
                    rows[one["arm"]] += one["sent_pkts"] > 0
                parts.add(_rows(request, (one for one in taken if one["sent_pkts"] > 0)))

            def write_counts() -> None:
                self.write_json(_COUNTS, {"times": [*before, counts()]})

            parts = RowParts(self.path / _CONNECTIONS, SCHEMA, write_counts)
            until_s = time.monotonic() + duration_s
            try:
                with Live(refresh_per_second=4) as live:
                    while time.monotonic() < until_s and not wait(_LOOK_S):
                        take()
                        live.update(_progress(request, counts()))
                        self._check_loaded(request, counts())
            finally:
                attached.detach()
                take()
                parts.flush()
                write_counts()

    def _check_loaded(self, request: ComparisonRequest, counts: Mapping[str, Any]) -> None:
        for name in (request.a, request.b):
            if counts["refused"] and name not in available_controls():
                raise HostError(f"{name} is no longer loaded; what ended is kept, and resume={self.path} goes on")


def _none() -> pl.DataFrame:
    return pl.DataFrame(schema=SCHEMA)


@contextmanager
def _attached(request: ComparisonRequest) -> Iterator[Any]:
    """Yield what is attached to the cgroup for a block; nothing else compares there, above or below."""
    with ExitStack() as stack:
        for name in (request.a, request.b):
            if name in loaded_names():
                with alone():
                    stack.callback(os.close, lock_control(name, fcntl.LOCK_SH))
            if name not in available_controls():
                raise ConfigError(f"{name} is not loaded; {nearest(name, available_controls())}")
        cgroups = _cgroups(request.cgroup)
        own = cgroups[-1]
        for cgroup in cgroups:
            place = open_folder(cgroup)
            stack.callback(os.close, place)
            try:
                fcntl.flock(place, fcntl.LOCK_NB | (fcntl.LOCK_EX if cgroup == own else fcntl.LOCK_SH))
            except BlockingIOError:
                where = f"{cgroup}{' or below it' if cgroup == own else ''}"
                raise HostError(f"another comparison is at {where}: end it, or compare in another cgroup") from None
        with kernel_errors():
            yield _bpf.Comparison((request.a, request.b), request.share, request.seed, list(request.ports), str(own))


def _cgroups(name: str) -> list[Path]:
    """Return the folders from the root down to a cgroup."""
    root = cgroup_root()
    if root is None:
        raise HostError("no cgroups of version 2 are mounted: bbrgym doctor linux says what to do")
    path = (root / name).resolve()
    if not (path / "cgroup.procs").is_file() or root not in (path, *path.parents):
        raise ConfigError(f"cgroup: is {name!r}, expected the path of one below {root}")
    return [one for one in (*reversed(path.parents), path) if root in (one, *one.parents)]


def _rows(request: ComparisonRequest, ended: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the rows of connections that ended."""
    epoch_s = time.time() - time.monotonic()
    for one in ended:
        address = address_of(one, "remote")
        finish_us = one["finish_us"] - one["start_us"]
        yield {
            "connection": one["cookie"],
            "arm": ARMS[one["arm"]],
            "control": (request.a, request.b)[one["arm"]],
            "peer": str(ipaddress.ip_network((address, _PREFIX_BITS[address.version]), strict=False)),
            **{name: one[name] for name in _SAME},
            "start_s": epoch_s + one["start_us"] / 1e6,
            "end_s": epoch_s + one["end_us"] / 1e6,
            "completion_s": finish_us / 1e6 if finish_us > 0 else None,
            "rtt_mean_ms": one["rtt_sum_us"] / one["rtt_samples"] / 1e3 if one["rtt_samples"] else None,
            "rtt_min_ms": None if one["min_rtt_us"] == _UNKNOWN_US else one["min_rtt_us"] / 1e3,
            "control_at_end": one["control"],
            "kept_control": not one["is_changed"],
        }


def _progress(request: ComparisonRequest, counts: Mapping[str, Any]) -> Table:
    table = Table("", "control", "connections", "ended", title="Ctrl-C ends it", title_justify="left")
    for arm, name in enumerate((request.a, request.b)):
        table.add_row(ARMS[arm], name, str(counts["given"][arm]), str(counts["ended"][arm]))
    return table
