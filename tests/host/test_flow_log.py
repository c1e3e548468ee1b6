# SPDX-License-Identifier: GPL-2.0-only
"""A log of connections: whole however it was written, and read as a path's log."""

import resource
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from bbrgym.errors import ConfigError
from bbrgym.host import parts
from bbrgym.host.errors import HostError
from bbrgym.host.flow_log import SCHEMA, FlowLog
from bbrgym.paths.detect import read_log
from bbrgym.tunables import VARIANTS


def looks(first: int, count: int) -> list[dict[str, Any]]:
    """Return rows of two connections, as `connection_rows` yields them, so many seconds after each other."""
    return [
        {"time_s": 1e9 + at, "control": "gym_bbq", "connection": connection, "local": "192.0.2.1:9"}
        | {"peer": f"[2001:db8::{connection}]:443", "age_s": 1.0 + at, "phase": "DRAIN", "bw_mbps": 8.0}
        | {"min_rtt_ms": None if at == 0 else 40.0, "srtt_ms": 50.0, "cwnd_pkts": 10, "in_flight_pkts": 9}
        | {"delivered_bytes": 1_000_000 * at, "retransmitted_pkts": 2 * at, "lost_pkts": 2 * at, "mss_bytes": 1448}
        | {"app_limited": at == 1, "policy": "", **VARIANTS["bbq"].preset}
        for at in range(first, first + count)
        for connection in (1, 2)
    ]


def test_a_log_of_many_parts_is_one_file_and_a_path_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "PART_ROWS", 4)
    path = tmp_path / "flows.parquet"
    killed = FlowLog(path)
    killed.add(looks(0, 3))
    killed._folder.close()  # as the system does
    log = FlowLog(path)
    for second in range(3, 9):
        log.add(looks(second, 1))
    log.close()
    assert [one.name for one in tmp_path.iterdir()] == ["flows.parquet"]
    table = pl.read_parquet(path)
    assert table.schema == SCHEMA
    assert table["time_s"].to_list() == [1e9 + second for second in range(9) for _ in range(2)]
    assert table["bbq_alpha_us"].unique().to_list() == [VARIANTS["bbq"].preset["bbq_alpha_us"]]
    assert table["bbr3_cwnd_gain"].null_count() == len(table)
    first, second = read_log(path).connections
    assert (first.cc, first.peer, second.peer) == ("gym_bbq", "[2001:db8::1]", "[2001:db8::2]")
    assert (first.delivered_bytes, first.mss_bytes, first.skipped) == (8_000_000, 1448, 0)
    assert first.table()[1, 2:].tolist() == [0.05, 0.04, 2, 1, 10]


def test_a_log_has_one_writer_and_says_what_is_kept_where_it_finds_no_room(tmp_path: Path) -> None:
    (tmp_path / "flows.parquet.parts").mkdir()  # of the user's
    log, before = FlowLog(tmp_path / "flows.parquet"), resource.getrlimit(resource.RLIMIT_FSIZE)
    with pytest.raises(ConfigError, match=r"log: .* is in use by bbrgym kernel watch, process "):
        FlowLog(tmp_path / "flows.parquet")
    log.add(looks(0, 1))
    log._parts.flush()
    log.add(looks(1, 2))
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        with pytest.raises(HostError, match=r"cannot be written, .* what is in .*bbrgym-watch: .*File too large"):
            log.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    FlowLog(tmp_path / "flows.parquet").close()
    assert len(pl.read_parquet(tmp_path / "flows.parquet")) == 2
    assert sorted(one.name for one in tmp_path.iterdir()) == ["flows.parquet", "flows.parquet.parts"]


def test_a_log_without_a_row_is_none(tmp_path: Path) -> None:
    FlowLog(tmp_path / "flows.parquet").close()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda table: table.drop("peer"), "is Parquet of another form than bbrgym kernel watch writes"),
        (lambda table: table.with_columns(pl.lit("a").alias("time_s")), "is Parquet of another form"),
        (lambda table: table.with_columns(delivered_bytes=0), "without a connection that delivered data"),
        (lambda table: table.with_columns(time_s=None, mss_bytes=float("nan")), "is Parquet of another form"),
    ],
)
def test_another_table_and_a_cut_one_are_no_log(damage: Any, said: str, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    damage(pl.DataFrame(looks(0, 300), schema=SCHEMA)).write_parquet(path)
    with pytest.raises(ConfigError, match=said):
        read_log(path)
    content = path.read_bytes()
    for kept in (4, 100, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:kept])
        with pytest.raises(ConfigError, match="is no Parquet, or damaged"):
            read_log(path)
