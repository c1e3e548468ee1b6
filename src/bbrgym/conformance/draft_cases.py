# SPDX-License-Identifier: GPL-2.0-only
"""The draft's 22 cases, by name, in its order; one of them is two here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from bbrgym.conformance import changing_path_cases as changing
from bbrgym.conformance import down_cases as down
from bbrgym.conformance import path_cases as path
from bbrgym.conformance import probe_rtt_cases as probe_rtt
from bbrgym.conformance import refill_cases as refill
from bbrgym.conformance import startup_cases as startup
from bbrgym.conformance import undo_cases as undo
from bbrgym.conformance import up_cases as up
from bbrgym.conformance.draft_case import DraftCase
from bbrgym.errors import ConfigError, nearest
from bbrgym.schema import shown

_ALL = (
    *(startup.STARTUP_PLATEAU, startup.STARTUP_LOSS, startup.DRAIN_INFLIGHT, startup.DRAIN_TIME),
    *(up.UP_PLATEAU, up.UP_LOSS, up.STARTUP_LIMITED, up.UP_LIMITED),
    *(down.DOWN_INFLIGHT, down.DOWN_TIME),
    *(probe_rtt.ENTER_PROBE_RTT, probe_rtt.SKIP_PROBE_RTT),
    *(path.STARTUP_AGGREGATION, path.CRUISE_AGGREGATION, path.SMALL_BDP),
    *(changing.MORE, changing.LESS, path.POLICER),
    *(undo.SPURIOUS_RECOVERY, undo.SPURIOUS_TIMEOUT),
    *(probe_rtt.PROBE_RTT_IN_STARTUP, up.UP_BOUNDED_LOSS, refill.REFILL_LIMITED),
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
