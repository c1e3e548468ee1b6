# SPDX-License-Identifier: GPL-2.0-only
"""The draft's 22 cases, by name, in its order; one of them is two here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from bbrgym.conformance import path_cases, probe_cases, startup_cases, undo_cases
from bbrgym.conformance.draft_case import DraftCase
from bbrgym.errors import ConfigError, nearest
from bbrgym.schema import shown

_ALL = (
    startup_cases.STARTUP_PLATEAU,
    startup_cases.STARTUP_LOSS,
    startup_cases.DRAIN_INFLIGHT,
    startup_cases.DRAIN_TIME,
    probe_cases.UP_PLATEAU,
    probe_cases.UP_LOSS,
    probe_cases.STARTUP_LIMITED,
    probe_cases.UP_LIMITED,
    probe_cases.DOWN_INFLIGHT,
    probe_cases.DOWN_TIME,
    path_cases.ENTER_PROBE_RTT,
    path_cases.SKIP_PROBE_RTT,
    startup_cases.STARTUP_AGGREGATION,
    path_cases.CRUISE_AGGREGATION,
    path_cases.SMALL_BDP,
    path_cases.MORE,
    path_cases.LESS,
    path_cases.POLICER,
    undo_cases.SPURIOUS_RECOVERY,
    undo_cases.SPURIOUS_TIMEOUT,
    startup_cases.PROBE_RTT_IN_STARTUP,
    probe_cases.UP_BOUNDED_LOSS,
    probe_cases.REFILL_LIMITED,
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
