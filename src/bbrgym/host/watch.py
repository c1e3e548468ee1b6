# SPDX-License-Identifier: GPL-2.0-only
"""A live table of the connections of loaded controls, and a log of the connections."""

from __future__ import annotations

import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from rich.live import Live
from rich.table import Table

from bbrgym.host.connections import connection_rows
from bbrgym.host.controls import find, loaded
from bbrgym.host.flow_log import FlowLog
from bbrgym.host.parts import interruptible_waits
from bbrgym.tunables import VARIANTS

_SHOWN = ("peer", "age_s", "phase", "bw_mbps", "min_rtt_ms", "srtt_ms", "cwnd_pkts", "in_flight_pkts")
_COUNTED = ("retransmitted_pkts", "policy")


def watch(name: str | None, *, interval_s: float, log: Path | None, duration_s: float = float("inf")) -> None:
    """Show the connections of a control, or of all that this build loaded, until Ctrl-C.

    Args:
        name: of the control. Default: all.
        interval_s: between two looks.
        log: Parquet file with a row per connection and look; it is whole at the end. Default: none.
        duration_s: longest time. Default: no limit.
    """
    began_s = time.monotonic()
    with interruptible_waits() as wait, ExitStack() as stack:
        flow_log = None if log is None else stack.enter_context(closing(FlowLog(log)))
        live = stack.enter_context(Live(refresh_per_second=4))
        while time.monotonic() - began_s < duration_s:
            controls = [find(name)] if name is not None else [one for one in loaded() if one.is_ours]
            seen = [row for one in controls for row in connection_rows(one)]
            live.update(_table(seen, {one.name: one.variant for one in controls}))
            if flow_log is not None:
                flow_log.add(seen)
            if wait(interval_s):
                break


def _table(rows: list[dict[str, Any]], variants: dict[str, str]) -> Table:
    table = Table(title=f"{len(rows)} connections", title_justify="left")
    for heading in ("control", *_SHOWN, *_COUNTED, "tunables other than the preset's"):
        table.add_column(heading, overflow="fold")
    for row in rows:
        values = ("-" if row[one] is None else _shown(row[one]) for one in (*_SHOWN, *_COUNTED))
        table.add_row(row["control"], *values, _changed(row, variants[row["control"]]))
    return table


def _shown(value: Any) -> str:
    return f"{value:.1f}" if isinstance(value, float) else str(value)


def _changed(row: dict[str, Any], variant: str) -> str:
    preset = VARIANTS[variant].preset
    return ", ".join(f"{name}={row[name]:g}" for name in preset if row[name] != preset[name])
