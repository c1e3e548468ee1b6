# SPDX-License-Identifier: GPL-2.0-only
"""Agreement with a testbed, kept alive on three of its cells."""

import pytest

from bbrgym.evaluate.runner import run_each
from bbrgym.papers.metrics import MeasuredRun, measure
from bbrgym.papers.reproduction import parse_reproduction, prepare_reproduction
from bbrgym.papers.verdicts import verdict_on_testbed

EXPERIMENT = "nyu/10mbps-cubic"


@pytest.mark.parametrize(("variant", "at"), [("bbr 4", 8.0), ("bbr2 8", 4.0), ("bbr3 4", 8.0)])
def test_a_share_is_inside_the_range_of_the_testbed(variant: str, at: float) -> None:
    (prepared,) = prepare_reproduction(parse_reproduction({"experiment": EXPERIMENT, "seeds": 1})).experiments
    (case,) = (case for case in prepared.cases if (case.variant, case.at) == (variant, at))
    (number,) = (
        one for one in prepared.experiment.published if (one.quantity.variant, one.quantity.at) == (variant, at)
    )
    (record,) = run_each([case.job], 1)
    assert not isinstance(record, Exception), record
    run = MeasuredRun(record.summary, record.timeseries, case.job.scenario.mss_bytes)
    share = measure(run, number.metric, number.flow)
    assert verdict_on_testbed(number, share) == "inside", f"{share} beside {number.bounds}"
