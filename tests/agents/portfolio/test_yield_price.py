# SPDX-License-Identifier: GPL-2.0-only
"""The price on what tuned flows leave to BBR."""

import math

import pytest

from bbrgym.agents.portfolio.tasks import TrainingConditions
from bbrgym.agents.training.draws import TrainingDraw
from bbrgym.agents.trials import Trials
from bbrgym.envs.options import Options
from bbrgym.scenario.files import load_scenario
from bbrgym.tunables import VARIANTS
from bbrgym.worlds import WorldSettings
from bbrgym.worlds.score import Objective


def draw(other: str | None) -> TrainingDraw:
    flows = [{"name": "flow", "rtt_ms": 20.0}, *([{"name": "other", "rtt_ms": 20.0, "cc": other}] if other else [])]
    link = {"rate_mbps": 4.0, "queue": {"size_packets": 40}}
    return TrainingDraw(load_scenario({"name": "two", "duration_s": 4.0, "link": link, "flows": flows}), 7, 1.0)


def worth(one: TrainingDraw, price: float) -> float:
    """The worth of BBRv3, which keeps less than its share beside BBR v1."""
    conditions = TrainingConditions(Options(variant="bbr3", world="twin"), WorldSettings(), Objective(), price)
    with conditions.trials([one], 1, 1) as trials:
        return float(trials.scores(trials.action.default)[0])


def score(one: TrainingDraw, variant: str, objective: Objective) -> float:
    with Trials([one.scenario], [one.run_seed(0)], variant, objective=objective) as trials:
        return float(trials.scores(trials.action.from_values(VARIANTS[variant].preset))[0])


@pytest.mark.parametrize("other", ["bbr", "bbr3"])
def test_what_is_left_to_bbr_has_its_price(other: str) -> None:
    one = draw(other)
    network, own = score(one, "bbr3", Objective()), score(one, "bbr3", Objective(score="own"))
    left = score(one, "bbr", Objective(score="own")) - own
    assert left > 0.1
    assert math.isclose(worth(one, 0.5), network - 0.5 * left)
    assert worth(one, 0.0) == network


@pytest.mark.parametrize("other", [None, "cubic", "bbq"])
def test_beside_others_it_is_the_score(other: str | None) -> None:
    assert worth(draw(other), 0.5) == score(draw(other), "bbr3", Objective())
