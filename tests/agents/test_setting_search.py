# SPDX-License-Identifier: GPL-2.0-only
"""Fixed settings: what they are worth, and the searches for the best one."""

import numpy as np
import pytest

import bbrgym
from bbrgym.agents.oracle import presets, search_each
from bbrgym.agents.search_trainer import GridTrainer
from bbrgym.agents.trials import Trials
from bbrgym.envs.scaling import TunableScaling
from bbrgym.tunables import TUNABLES, VARIANTS
from bbrgym.worlds.score import Objective

SEEDS = [3, 4, 5]
PUBLISHED = ("bbr", "bbr-plus", "bbr-acd", "bbq", "bbq-first-cut", "bbr-pg", "bbr-pg-inv")


@pytest.fixture(scope="module")
def scenarios():
    """Three draws that are quick to run."""
    distribution = bbrgym.load_distribution(
        {
            "name": "quick",
            "variables": {"rate_mbps": {"log_uniform": [2, 20]}},
            "duration_s": 6.0,
            "link": {"rate_mbps": {"value": "rate_mbps"}, "queue": {"size_packets": {"integer": [20, 200]}}},
            "flows": [
                {"name": "flow", "number": {"integer": [1, 3]}, "rtt_ms": {"uniform": [10, 60]}},
                {"name": "cubic", "cc": "cubic", "role": "fixed", "rtt_ms": 30.0},
            ],
        }
    )
    return [distribution(seed) for seed in SEEDS]


@pytest.fixture
def trials(scenarios):
    with Trials(scenarios, SEEDS, "bbr-mix") as made:
        yield made


# ---- what a setting is worth -------------------------------------------------------------------------------------


def test_presets_in_bbr_mix_score_as_their_variants_do(scenarios, trials):
    settings = presets(trials.action)
    assert len(settings) == len(PUBLISHED)
    for variant, setting in zip(PUBLISHED, settings, strict=True):
        evaluated = [
            bbrgym.evaluate(scenario, [variant], seeds=[seed], world="twin")["score"][0]
            for scenario, seed in zip(scenarios, SEEDS, strict=True)
        ]
        # The normalised values are float32, so tunables differ from the presets in the eighth digit.
        np.testing.assert_allclose(trials.scores(setting), evaluated, atol=2e-2)


def test_the_own_score_is_that_of_an_evaluation(scenarios, trials):
    setting = presets(trials.action)[0]
    with Trials(scenarios, SEEDS, "bbr-mix", objective=Objective(score="own")) as own:
        found = own.scores(setting)
    assert (found != trials.scores(setting)).all()
    for scenario, seed, score in zip(scenarios, SEEDS, found, strict=True):
        evaluated = bbrgym.evaluate(scenario, ["bbr"], seeds=[seed], world="twin")["own_score"][0]
        assert score == pytest.approx(evaluated, abs=2e-2)


def test_each_scenario_has_the_setting_that_is_its_own(trials):
    one, other, third = presets(trials.action)[:3]
    mixed = trials.scores(np.array([one, other, third]))
    assert mixed.tolist() == [trials.scores(setting)[i] for i, setting in enumerate((one, other, third))]


def test_a_setting_that_is_none_is_refused(trials):
    with pytest.raises(bbrgym.ConfigError, match=r"numbers in \[-1, 1\]"):
        trials.scores(np.full(len(trials.action.names), 1.5, np.float32))


@pytest.mark.parametrize("variant", [name for name, variant in VARIANTS.items() if variant.preset])
def test_presets_begin_with_the_variants_own(variant):
    action = TunableScaling(variant)
    first = presets(action)[0]
    assert first.tolist() == action.default.tolist()


# ---- searches ----------------------------------------------------------------------------------------------------


def test_the_oracle_is_at_least_as_good_as_every_preset_and_never_worse_with_more(trials):
    few, more = (search_each(trials, SEEDS, budget) for budget in (6, 14))
    assert few.scores.tolist() == np.max([trials.scores(one) for one in presets(trials.action)], axis=0).tolist()
    assert (more.scores >= few.scores).all()
    assert (more.scores > few.scores).any()
    assert trials.scores(more.actions).tolist() == more.scores.tolist()


def test_a_grid_has_every_combination_once_and_both_ends():
    action = TunableScaling("bbr-mix", ["bbr_up_gain", "use_probe_cap", "bbq_alpha_us"])
    settings = [setting.tolist() for setting in GridTrainer(name="grid", levels=4).proposals(action, None)]
    assert settings[0] == action.default.tolist()
    assert len({tuple(setting) for setting in settings[1:]}) == 4 * 2 * 4
    values = [action.to_values(np.array(setting, np.float32)) for setting in settings[1:]]
    for name in action.names:
        taken = [value[name] for value in values]
        assert (min(taken), max(taken)) == (TUNABLES[name].low, TUNABLES[name].high)


def test_a_grid_too_large_is_refused():
    with pytest.raises(bbrgym.ConfigError, match=r"2 levels of 33 tunables are 8.59e\+09"):
        next(GridTrainer(name="grid", levels=2).proposals(TunableScaling("bbr-mix"), None))
