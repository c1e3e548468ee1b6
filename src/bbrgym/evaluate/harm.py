# SPDX-License-Identifier: GPL-2.0-only
"""Harm to the flows that are not tuned, against runs of the same draws with controls in place of the tuned flows."""

from __future__ import annotations

import numpy as np
import polars as pl

from bbrgym.scenario.model import Scenario
from bbrgym.worlds import world_spec
from bbrgym.worlds.score import HARMS, harm_of_flows

_ALWAYS = ("cubic", "bbr")  # whose own harm is shown beside that of the entrants
_MEASURED = ("goodput_mbps", "rtt_p95_ms", "loss_rate")
_OTHER = ":reference"  # end of the names of columns of the reference run
_SAME_FLOW = ("scenario", "world", "seed", "flow")


def reference_controls(scenario: Scenario, world: str) -> list[str]:
    """Return the controls whose runs in place of the tuned flows measure harm in a world, if there are other flows."""
    others = [flow for flow in scenario.flows if flow.role != "tuned"]
    if not 0 < len(others) < len(scenario.flows):
        return []
    controls = [flow.cc for flow in others if flow.quic is None]
    return [cc for cc in dict.fromkeys((*_ALWAYS, *controls)) if world_spec(world).has_controller(cc)]


def with_harm(summary: pl.DataFrame, references: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of a summary with the harm to each flow that is not tuned.

    Args:
        summary: rows of summary.parquet.
        references: rows of the runs with `reference_controls` in place of the tuned flows.
    """
    alone = references.filter(pl.col("role") != "tuned").select(*_SAME_FLOW, pl.col("variant").alias("cc"), *_MEASURED)
    both = summary.join(alone, on=(*_SAME_FLOW, "cc"), how="left", suffix=_OTHER, maintain_order="left")
    run, reference = ({name: both[name + end].to_numpy() for name in _MEASURED} for end in ("", _OTHER))
    is_other = summary["role"].to_numpy() != "tuned"
    harms = {name: np.where(is_other, values, np.nan) for name, values in harm_of_flows(run, reference).items()}
    return summary.with_columns(**{name: harms[name] for name in HARMS})
