# SPDX-License-Identifier: GPL-2.0-only
"""Draws of a training's episodes: by cost, and more often where the agent is behind."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from tiny import LIBRARY, SCENARIO, asked, curve, interrupt, run, weights

import bbrgym
from bbrgym.agents.base import Constant
from bbrgym.agents.training.curriculum import Curriculum
from bbrgym.agents.training.draws import CHEAP_MBPS
from bbrgym.agents.training.episode_draws import DrawsByCost, FavouredDraws
from bbrgym.agents.training.settings import parse_training
from bbrgym.agents.training.train_agent import resume_training, train
from bbrgym.envs.library import load_library, write_library
from bbrgym.envs.scaling import TunableScaling
from bbrgym.tunables import VARIANTS

pytestmark = pytest.mark.usefixtures("undrawn_file")

CURRICULUM = {"curriculum": {"library": LIBRARY, "pool": 12, "share": 0.75}}
FAST = {**SCENARIO, "variables": {"rate_mbps": {"log_uniform": [1, 400]}}, "duration_s": 0.5}


def test_draws_by_cost_are_of_slower_networks_and_repeat() -> None:
    source = bbrgym.load_distribution(FAST)
    draw = DrawsByCost(source)
    rates = np.log([draw(seed).link.rate_mbps for seed in range(1000)])
    assert np.mean(rates) < np.mean(np.log([source(seed).link.rate_mbps for seed in range(1000)])) - 0.2
    assert draw(7) == draw(7) != draw(8)
    assert np.exp(rates.max()) > CHEAP_MBPS  # fast ones are rare, not left out


def test_the_share_of_favoured_networks_is_what_was_asked_for() -> None:
    source = bbrgym.load_distribution(SCENARIO)
    networks = (source(1), source(2), source(3))
    draw = FavouredDraws("tiny", 2, source, networks, np.array([0.5, 0.0, 0.5]), 0.25)
    drawn = [draw(seed) for seed in range(1000, 3000)]
    counts = [sum(one == network for one in drawn) for network in networks]
    assert counts[1] == 0
    assert sum(counts) / 2000 == pytest.approx(0.25, abs=4 * np.sqrt(0.25 * 0.75 / 2000))
    assert counts[0] == pytest.approx(counts[2], abs=4 * np.sqrt(sum(counts)))
    assert drawn[5] == draw(1005)


def test_a_gap_is_what_the_best_setting_of_the_library_scores_more() -> None:
    """Whoever plays a setting of a library of one is nowhere behind; what is worse is behind by the difference."""
    one = {"variant": "bbq", "settings": {"preset": dict(VARIANTS["bbq"].preset)}}
    settings = parse_training(asked(draws={"curriculum": {"library": one, "pool": 6}}))
    assert settings.draws.curriculum is not None
    assert isinstance(settings.source, bbrgym.Distribution)
    pool = Curriculum(settings.draws.curriculum, settings, settings.source)
    preset = TunableScaling("bbq").default
    even = pool.gaps(Constant("preset", preset))
    assert even.tolist() == [0.0] * 6
    assert pool.draws(even, settings.source) is settings.source  # there is nothing to favour
    behind = pool.gaps(Constant("lowest", np.full_like(preset, -1.0)))
    draws = pool.draws(behind, settings.source)
    assert isinstance(draws, FavouredDraws)
    assert behind.max() > 0.0
    assert draws.chances == pytest.approx(behind / behind.sum())
    pool.close()


@pytest.mark.parametrize("by_cost", [False, True])
@pytest.mark.parametrize("agent", ["ppo", "torch_ppo", "dqn"])
def test_an_interrupted_training_goes_on_with_the_same_curriculum(agent: str, by_cost: bool, tmp_path: Path) -> None:
    draws = {**CURRICULUM, "by_cost": by_cost}
    whole = run(tmp_path / "whole", agent, draws=draws)
    gaps = curve(whole).drop_nulls("curriculum/gap")
    checkpoints = curve(whole).drop_nulls("validation/score")["step"].to_list()
    assert gaps["step"].to_list() == [step for step in checkpoints if 0 < step < 320]  # where a leg follows
    assert (gaps["curriculum/gap"] >= 0.0).all()
    broken = interrupt(tmp_path / "broken", 230, asked(agent, draws=draws))
    resume_training(broken)
    assert curve(broken).equals(curve(whole))
    assert weights(broken) == weights(whole)


def test_the_draws_are_what_the_training_learns_from(tmp_path: Path) -> None:
    """All else being equal, other draws lead to other weights; those of the first leg are no curriculum's."""
    kinds: dict[str, Any] = {"plain": {}, "by_cost": {"by_cost": True}, "curriculum": CURRICULUM}
    found = {
        name: weights(run(tmp_path / name, scenario=FAST, draws=draws, total_steps=160))
        for name, draws in kinds.items()
    }
    assert found["plain"] != found["by_cost"]
    assert found["plain"] != found["curriculum"]
    first = curve(tmp_path / "plain").filter(pl.col("step") == 32)["rollout/reward"].to_list()
    assert curve(tmp_path / "curriculum").filter(pl.col("step") == 32)["rollout/reward"].to_list() == first
    assert curve(tmp_path / "by_cost").filter(pl.col("step") == 32)["rollout/reward"].to_list() != first


def test_flows_with_controllers_of_their_own_have_a_curriculum_too(tmp_path: Path) -> None:
    folder = run(tmp_path / "run", env={"name": "multi"}, draws=CURRICULUM, total_steps=160)
    assert curve(folder)["curriculum/gap"].drop_nulls().len() == 1


def test_the_library_is_that_of_the_actions_and_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "library.yaml"
    write_library(file, load_library(LIBRARY))
    folder = run(
        tmp_path / "run",
        "dqn",
        action={"kind": "library", "library": str(file)},
        draws={"curriculum": {"library": str(file), "pool": 4}},
        total_steps=128,
    )
    file.unlink()
    assert resume_training(folder)["step"] == 128
    by_default = run(
        tmp_path / "by_default",
        "dqn",
        action={"kind": "library", "library": LIBRARY},
        draws={"curriculum": {"pool": 4}},
        total_steps=128,
    )
    assert weights(by_default) == weights(folder)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"draws": {"by_cots": True}}, "draws.by_cots: is no field; did you mean by_cost"),
        ({"draws": {"curriculum": {"share": 0, "library": LIBRARY}}}, "draws.curriculum.share: is 0, .* > 0"),
        ({"draws": {"curriculum": {}}}, "draws.curriculum.library: is null, expected a library's file"),
        ({"draws": {"curriculum": {"library": "no.yaml"}}}, "no.yaml"),
        (
            {"draws": {"curriculum": {"library": {**LIBRARY, "variant": "bbr"}}}},
            "library.variant: is 'bbr', expected that of the environment, 'bbq'",
        ),
        ({"draws": {"by_cost": True}, "scenario": "steady"}, "draws.by_cost: is True, expected none: one scenario"),
        (
            {"draws": {"by_cost": True}, "agent": {"name": "grid", "levels": 2}, "action": {"tunables": ["bbq_beta"]}},
            "draws: is {'by_cost': True}, expected the default with agent=grid",
        ),
    ],
)
def test_a_wrong_option_is_one_clear_error(settings: dict[str, Any], says: str, tmp_path: Path) -> None:
    with pytest.raises(bbrgym.ConfigError, match=says) as caught:
        train(output_dir=tmp_path / "run", **asked(**settings))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()
