# SPDX-License-Identifier: GPL-2.0-only
"""Searches as trainings: `agent=grid` and `agent=optuna`."""

import json
from pathlib import Path
from typing import Any

import pytest
from tiny import SCENARIO, asked, curve, interrupt

import bbrgym
from bbrgym.agents.base import Constant
from bbrgym.agents.loading import load_agent
from bbrgym.agents.search_trainer import _digest_of
from bbrgym.agents.training.train_agent import resume_training, train
from bbrgym.tunables import VARIANTS

pytestmark = pytest.mark.usefixtures("undrawn_file")

LIBRARY = {"variant": "bbq", "settings": {"one": {"bbq_alpha_us": 3000.0}, "other": {"bbq_alpha_us": 1000.0}}}
STEPS = 3 * 4  # of a setting: three runs of four control intervals


def asked_for(name: str, trials: int, **others: Any) -> dict[str, Any]:
    agent = {"name": name, "draws": 3, **others.pop("agent", {})}
    return asked(agent, **{"total_steps": trials * STEPS, "checkpoint_steps": 4 * STEPS, **others})


def search(folder: Path, name: str, trials: int, **others: Any) -> dict[str, Any]:
    return train(output_dir=folder, **asked_for(name, trials, **others))


def test_a_search_leaves_the_best_setting_and_its_curve(tmp_path: Path) -> None:
    summary = search(tmp_path / "run", "optuna", 12)
    rows = curve(tmp_path / "run")
    assert rows["step"].to_list() == [STEPS * number for number in range(1, 13)]
    assert rows["search/best"].to_list() == rows["search/score"].cum_max().to_list()
    assert summary["step"] == 12 * STEPS
    agent, _ = load_agent(tmp_path / "run")
    assert isinstance(agent, Constant)
    compared = bbrgym.evaluate(
        SCENARIO, ["bbq"], agent=str(tmp_path / "run"), world="twin", draws=3, split="validation"
    )
    scores = {
        name: runs.unique("seed")["score"].mean()
        for (name,), runs in compared.partition_by("agent", as_dict=True).items()
    }
    assert scores["optuna"] == pytest.approx(summary["best_score"], abs=1e-9)
    assert scores["optuna"] >= scores["fixed"]
    setting = json.loads((tmp_path / "run" / "checkpoints" / "best.json").read_text())["setting"]
    assert setting.keys() == VARIANTS["bbq"].preset.keys()


def test_a_grid_tries_all_its_settings_and_no_more(tmp_path: Path) -> None:
    summary = search(tmp_path / "run", "grid", 100, agent={"levels": 3}, action={"tunables": ["bbq_alpha_us"]})
    assert summary["step"] == 4 * STEPS  # the preset and three levels


def test_an_interrupted_search_goes_on(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    search(whole, "optuna", 12)
    cut = interrupt(tmp_path / "cut", 7 * STEPS - 1, asked_for("optuna", 12))
    assert json.loads((cut / "summary.json").read_text())["step"] < 8 * STEPS
    resume_training(cut)
    assert curve(cut).equals(curve(whole))
    for name in ("best", "last"):
        kept = [json.loads((run / "checkpoints" / f"{name}.json").read_text()) for run in (cut, whole)]
        assert kept[0]["setting"] == kept[1]["setting"]
        assert kept[0].get("scores") == kept[1].get("scores")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"trials": 0.5}, "total_steps: is 6, expected at least 12"),
        ({"trials": 5, "agent": {"name": "grid", "levels": 1}}, "agent.levels: is 1, expected a number >= 2"),
        ({"trials": 5, "agent": {"name": "grid", "levels": 9}, "action": {}}, "9 levels of 8 tunables"),
        *(
            ({"trials": 5, "agent": {"name": name}, "action": action}, f"{says}.* with agent={name}: it sets whole")
            for name in ("grid", "optuna")
            for action, says in (
                ({"kind": "library", "library": LIBRARY}, "'kind': 'library', .* expected absolute ones"),
                ({"kind": "relative"}, "'kind': 'relative'.* expected absolute ones"),
                ({"hold_intervals": 2}, "'hold_intervals': 2.* expected absolute ones"),
            )
        ),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    trials = options.pop("trials")
    with pytest.raises(bbrgym.ConfigError, match=message):
        search(tmp_path / "run", "optuna", 1, **{"total_steps": int(trials * STEPS), **options})


@pytest.mark.parametrize(
    ("kept", "says"),
    [
        ("[1]", "best.json' holds something else: "),
        ('{"setting": {"bbq_alpha_us": "much"}}', "setting.bbq_alpha_us: is 'much', expected a number"),
        ('{"setting": {"bbq_alpha_us": 3000.0}}', r"holds \['bbq_alpha_us'\], expected \["),
        ("", "cannot read checkpoint"),
    ],
)
def test_a_checkpoint_that_holds_something_else_is_one_clear_error(kept: str, says: str, tmp_path: Path) -> None:
    search(tmp_path / "run", "optuna", 1)
    if kept.startswith("{"):
        content = json.loads(kept)
        kept = json.dumps({**content, "sha256": _digest_of(content)})
    (tmp_path / "run" / "checkpoints" / "best.json").write_text(kept)
    with pytest.raises(bbrgym.ConfigError, match=says):
        load_agent(tmp_path / "run")
