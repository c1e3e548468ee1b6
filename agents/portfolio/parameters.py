# SPDX-License-Identifier: GPL-2.0-only
"""True parameters of a network, which no sender observes: a selector that has them bounds the others."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from bbrgym.scenario.bounds import BOUNDS
from bbrgym.scenario.families import buffer_bdp
from bbrgym.scenario.link import Bernoulli, GilbertElliott
from bbrgym.scenario.model import Scenario
from bbrgym.worlds import Table

_CHANGES = 2  # of the capacity that count


def true_parameters(scenarios: Sequence[Scenario]) -> Table:
    """Return the parameters of scenarios, [scenarios, parameters]."""
    return np.array([_parameters(scenario) for scenario in scenarios])


def _parameters(scenario: Scenario) -> list[float]:
    """Return rates, RTTs, the buffer (BDP) and losses as logarithms, flows, and times in parts of the run."""
    resolved = scenario.resolved()
    rate_mbps = resolved.link.mean_rate_mbps
    rtts_ms = [flow.rtt_ms for flow in resolved.flows if flow.role == "tuned"]
    others_ms = [flow.rtt_ms for flow in resolved.flows if flow.role != "tuned"]
    changes = [change for change in resolved.link.changes if change.rate_mbps is not None][:_CHANGES]
    lowest_mbps = BOUNDS["rate_mbps"].low  # of an outage
    changed = [
        (change.at_s / scenario.duration_s, math.log(max(change.rate_mbps or 0.0, lowest_mbps))) for change in changes
    ]
    changed += [(1.0, changed[-1][1] if changed else math.log(rate_mbps))] * (_CHANGES - len(changed))
    return [
        math.log(rate_mbps),
        math.log(buffer_bdp(scenario)),
        _loss(scenario),
        len(rtts_ms),
        len(others_ms),
        math.log(min(rtts_ms)),
        float(np.mean(np.log(rtts_ms))),
        math.log(max(rtts_ms)),
        float(np.mean(np.log(others_ms))) if others_ms else 0.0,
        *(number for change in changed for number in change),
    ]


def _loss(scenario: Scenario) -> float:
    """Return the logarithm of the mean rate of random loss; of none that of a millionth."""
    loss = scenario.link.loss
    rate = 0.0
    if isinstance(loss, Bernoulli):
        rate = loss.rate
    elif isinstance(loss, GilbertElliott):
        to_bad, to_good = loss.good_to_bad, loss.bad_to_good
        bad = to_bad / (to_bad + to_good) if to_bad + to_good > 0 else 0.0
        rate = bad * loss.loss_bad + (1.0 - bad) * loss.loss_good
    return math.log(max(rate, 1e-6))
