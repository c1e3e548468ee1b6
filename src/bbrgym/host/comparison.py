# SPDX-License-Identifier: GPL-2.0-only
"""A comparison of two congestion controls on live traffic: each new connection of a cgroup gets one of them at random.

The run folder of a comparison

    connections/     a row per connection that ended and sent data, in parts of Parquet
    counts.json      connections of each time that the command ran, by control: given it, ended, and so on
    summary.txt      tables, with figures/ and report.html

What draws is attached to the cgroup by this process alone and goes with it, however it ends (linux/bpf/compare.bpf.c).
Connections keep the control that they were given.
"""

from __future__ import annotations

import fcntl
import ipaddress
import os
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
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
from bbrgym.host.parts import RowParts
from bbrgym.host.pins import require_root
from bbrgym.host.system import available_controls
from bbrgym.runs.run_folder import RunFolder
from bbrgym.schema import Float, List, Model, Whole
from bbrgym.worlds.linux_machine import cgroup_root

ARMS = ("A", "B")

SCHEMA = pl.Schema(
    {
        "connection": pl.UInt64,
        "arm": pl.String,
        "control": pl.String,
        "peer": pl.String,
        "port": pl.UInt32,
        "start_s": pl.Float64,
        "end_s": pl.Float64,
        "acked_bytes": pl.UInt64,
        "completion_s": pl.Float64,
        "rtt_mean_ms": pl.Float64,
        "rtt_min_ms": pl.Float64,
        "sent_pkts": pl.UInt32,
        "retransmitted_pkts": pl.UInt32,
        "is_whole": pl.Boolean,
    }
)
"""Columns of the rows: the connection's number since the machine was started; the peer's /24 or /48; the service's
port; the seconds until its last data was acknowledged, which is all of it if ``is_whole``."""

_COUNTS = "counts.json"
_CONNECTIONS = "connections"
_LOOK_S = 0.25
_PREFIX_BITS = {4: 24, 6: 48}
_UNKNOWN_US = 2**32 - 1  # the kernel's minimum of no RTT


class ComparisonRequest(Model):
    """Two controls and the connections that are to get them.

    Attributes:
        a, b: names for TCP_CONGESTION, of loaded controls or of the kernel's own; the same one twice tests the test.
        share: of the connections that get B.
        ports: of services, local of connections that peers open and remote of others. Default: all.
        cgroup: whose processes' connections; a path below the root of cgroups. Default: those of all processes.
        seed: of the draws. Default: a new one.
    """

    a: str
    b: str
    share: Annotated[Float, Field(gt=0, lt=1)] = 0.5
    ports: Annotated[List[Annotated[Whole, Field(ge=1, le=65535)]], Field(max_length=16)] = ()
    cgroup: str = ""
    seed: Annotated[Whole, Field(ge=0, lt=2**63)] = Field(default_factory=lambda: secrets.randbits(63))


class ComparisonFolder(RunFolder):
    """The run folder of a comparison."""

    command: ClassVar[str] = "kernel compare"

    def begin(self, request: ComparisonRequest) -> ComparisonRequest:
        """Return the request that the folder is for: the given one, or the equal one that it was made for.

        Raises:
            ConfigError: it was made for another.
        """
        if not self.has_config():
            self.write_config(request.model_dump(mode="json"))
            return request
        before = self.read_request(ComparisonRequest.model_validate)
        given, known = (one.model_dump(exclude={"seed"}) for one in (request, before))
        changed = [name for name in known if known[name] != given[name]]
        if changed:
            was = ", ".join(f"{name}={known[name]}" for name in changed)
            raise ConfigError(f"resume: {str(self.path)!r} is of another comparison, expected {was}")
        return before

    def connections(self) -> pl.DataFrame:
        """Return the rows so far."""
        files = self._parts().files()
        return pl.concat(self.read_table(f"{_CONNECTIONS}/{one.name}", SCHEMA) for one in files) if files else _none()

    def counts(self) -> list[dict[str, Any]]:
        """Return the counts of each time that the command ran, as `_bpf.Comparison` has them."""
        times: list[dict[str, Any]] = self.read_json(_COUNTS).get("times", [])
        return times

    def gather(self, request: ComparisonRequest, duration_s: float = float("inf")) -> None:
        """Give new connections a control, and keep their rows, until Ctrl-C.

        Args:
            request: from `begin`.
            duration_s: longest time. Default: no limit.

        Raises:
            ConfigError: there is no such control or cgroup.
            HostError: the kernel refuses it, another comparison is there, or a control was unloaded meanwhile.
        """
        parts, before = self._parts(), self.counts()
        with _attached(request) as attached:
            until_s = time.monotonic() + duration_s
            try:
                with suppress(KeyboardInterrupt), Live(refresh_per_second=4) as live:
                    while time.monotonic() < until_s:
                        time.sleep(_LOOK_S)
                        parts.add(_rows(request, attached.take()))
                        counts = attached.counts()
                        live.update(_progress(request, counts))
                        self._refuse_unloaded(request, counts)
            finally:
                attached.detach()
                parts.add(_rows(request, attached.take()))
                parts.flush()
                self.write_json(_COUNTS, {"times": [*before, attached.counts()]})

    def _refuse_unloaded(self, request: ComparisonRequest, counts: Mapping[str, Any]) -> None:
        if counts["refused"]:
            gone = [name for name in (request.a, request.b) if name not in available_controls()]
            what = f"{gone[0]} is no longer loaded" if gone else "the kernel refused to give connections a control"
            raise HostError(f"{what}; what ended is kept, and resume={self.path} goes on")

    def _parts(self) -> RowParts:
        return RowParts(self.path / _CONNECTIONS, SCHEMA)


def _none() -> pl.DataFrame:
    return pl.DataFrame(schema=SCHEMA)


@contextmanager
def _attached(request: ComparisonRequest) -> Iterator[Any]:
    """Yield what is attached to the cgroup for a block; one at a time."""
    require_root()
    for name in (request.a, request.b):
        if name not in available_controls():
            raise ConfigError(f"{name} is not loaded; {nearest(name, available_controls())}")
    cgroup = _cgroup(request.cgroup)
    place = os.open(cgroup, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with kernel_errors():
            yield _bpf.Comparison((request.a, request.b), request.share, request.seed, list(request.ports), str(cgroup))
    except BlockingIOError:
        raise HostError(f"another comparison is at {cgroup}: end it, or compare in another cgroup") from None
    finally:
        os.close(place)


def _cgroup(name: str) -> Path:
    root = cgroup_root()
    if root is None:
        raise HostError("no cgroups of version 2 are mounted: bbrgym doctor linux says what to do")
    path = root / name
    if not (path / "cgroup.procs").is_file() or root not in (path, *path.parents):
        raise ConfigError(f"cgroup: is {name!r}, expected the path of one below {root}")
    return path


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
            "port": one["port"],
            "start_s": epoch_s + one["start_us"] / 1e6,
            "end_s": epoch_s + one["end_us"] / 1e6,
            "acked_bytes": one["acked_bytes"],
            "completion_s": finish_us / 1e6 if finish_us > 0 else None,
            "rtt_mean_ms": one["rtt_sum_us"] / one["rtt_samples"] / 1e3 if one["rtt_samples"] else None,
            "rtt_min_ms": None if one["min_rtt_us"] == _UNKNOWN_US else one["min_rtt_us"] / 1e3,
            "sent_pkts": one["sent_pkts"],
            "retransmitted_pkts": one["retransmitted_pkts"],
            "is_whole": one["is_whole"],
        }


def _progress(request: ComparisonRequest, counts: Mapping[str, Any]) -> Table:
    table = Table("", "control", "connections", "ended", title="Ctrl-C ends it", title_justify="left")
    for arm, name in enumerate((request.a, request.b)):
        table.add_row(ARMS[arm], name, str(counts["given"][arm]), str(counts["ended"][arm]))
    return table
