# SPDX-License-Identifier: GPL-2.0-only
"""The draft's 22 cases, by name, in its order; one of them is two here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from bbrgym.conformance import (
    aggregation_cases,
    bounded_up_cases,
    changing_path_cases,
    down_cases,
    drain_cases,
    policer_cases,
    probe_rtt_cases,
    refill_cases,
    small_path_cases,
    startup_cases,
    undo_cases,
    up_cases,
)
from bbrgym.conformance.draft_case import DraftCase
from bbrgym.errors import ConfigError, nearest
from bbrgym.schema import shown

_ALL = (
    startup_cases.STARTUP_PLATEAU,
    startup_cases.STARTUP_LOSS,
    drain_cases.DRAIN_INFLIGHT,
    drain_cases.DRAIN_TIME,
    up_cases.UP_PLATEAU,
    up_cases.UP_LOSS,
    up_cases.STARTUP_LIMITED,
    up_cases.UP_LIMITED,
    down_cases.DOWN_INFLIGHT,
    down_cases.DOWN_TIME,
    probe_rtt_cases.ENTER_PROBE_RTT,
    probe_rtt_cases.SKIP_PROBE_RTT,
    aggregation_cases.STARTUP_AGGREGATION,
    aggregation_cases.CRUISE_AGGREGATION,
    small_path_cases.SMALL_BDP,
    changing_path_cases.MORE,
    changing_path_cases.LESS,
    policer_cases.POLICER,
    undo_cases.SPURIOUS_RECOVERY,
    undo_cases.SPURIOUS_TIMEOUT,
    probe_rtt_cases.PROBE_RTT_IN_STARTUP,
    bounded_up_cases.UP_BOUNDED_LOSS,
    refill_cases.REFILL_LIMITED,
)

#: All cases by name, in the draft's order.
DRAFT_CASES: Mapping[str, DraftCase] = MappingProxyType({one.name: one for one in _ALL})


def select_cases(names: Sequence[str]) -> list[DraftCase]:
    """Return the cases of these names, in the draft's order; of none, all.

    Raises:
        ConfigError: there is no such case.
    """
    for name in names:
        if name not in DRAFT_CASES:
            raise ConfigError(f"case: is {shown(name)}; {nearest(name, DRAFT_CASES, see='docs/conformance.md')}")
    return [one for one in DRAFT_CASES.values() if not names or one.name in names]
