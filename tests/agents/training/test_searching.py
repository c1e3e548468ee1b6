# SPDX-License-Identifier: GPL-2.0-only
"""Searches as trainings: `agent=grid` and `agent=optuna`."""

import json
import logging
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_world import ANY_LATENESS, needs_bpf
from late_engine import late_world
from tiny import SCENARIO, asked, curve, interrupt

import bbrgym
from bbrgym.agents.base import Constant
from bbrgym.agents.loading import load_agent
from bbrgym.agents.search_trainer import _digest_of
from bbrgym.agents.training.settings import parse_training
from bbrgym.agents.training.train_agent import resume_training, train
from bbrgym.agents.trials import Trials
from bbrgym.errors import ConfigError
from bbrgym.scenario.files import load_scenario
from bbrgym.tunables import VARIANTS
from bbrgym.worlds import LateRunError, runs_at_once

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


# ---- real time ----------------------------------------------------------------------------------------


REAL_TIME_STEPS = 60
INTERVAL_S = 0.05
KERNEL = {
    "name": "kernel",
    "duration_s": 4.0,
    "link": {"rate_mbps": 20.0, "queue": {"size_bdp": 1.0}},
    "flows": [{"name": "tuned", "cc": "bbr", "role": "tuned", "rtt_ms": 20.0}],
}


def in_real_time(**others: Any) -> dict[str, Any]:
    return asked(**{"world": "linux", "num_envs": None, "threads": None, **others})


def test_the_cores_bound_the_environments() -> None:
    assert parse_training(in_real_time()).num_envs == max(1, len(os.sched_getaffinity(0)) // 2)
    assert parse_training(asked(num_envs=None)).num_envs == 128


def test_more_environments_than_the_cores_allow_are_refused(tmp_path: Path) -> None:
    most = runs_at_once(["linux"])
    problem = rf"^num_envs: is {most + 1}, expected at most {most} with world=linux: each runs in real time"
    with pytest.raises(ConfigError, match=problem):
        train(output_dir=tmp_path / "run", **in_real_time(num_envs=most + 1))
    assert not (tmp_path / "run").exists()
    assert parse_training(in_real_time(num_envs=most + 1)).num_envs == most + 1  # an agent of a larger machine


def test_a_late_run_of_a_setting_is_repeated(caplog: pytest.LogCaptureFixture) -> None:
    scenario = load_scenario(KERNEL)
    with (
        late_world(),
        caplog.at_level(logging.WARNING),
        Trials([scenario] * 2, [1, 2], "bbq", world="late") as trials,
        pytest.raises(LateRunError, match="seed 1, at 4 s: packets were late"),
    ):
        trials.scores(np.zeros(len(trials.action.names), np.float32))
    late = "a run is repeated: scenario 'kernel', seed 1, at 4 s: packets were late"
    assert [record.getMessage() for record in caplog.records] == [late] * 2


@needs_bpf
@pytest.mark.slow
@pytest.mark.parametrize("agent", ["ppo", "torch_ppo"])
def test_an_agent_is_trained_in_the_kernel(agent: str, tmp_path: Path) -> None:
    settings = in_real_time(
        agent=agent,
        scenario=KERNEL,
        world={"linux": {"options": ANY_LATENESS}},
        env={"control_interval_s": INTERVAL_S},
        total_steps=REAL_TIME_STEPS,
    )
    summary = train(output_dir=tmp_path / "run", **settings)
    assert summary["step"] >= REAL_TIME_STEPS
    assert np.isfinite(summary["best_score"])
    assert summary["wall_s"] - summary["validation_s"] > INTERVAL_S * REAL_TIME_STEPS  # in real time


@needs_bpf
def test_a_late_episode_does_not_end_a_training(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        settings = in_real_time(
            scenario=KERNEL | {"duration_s": 0.5},
            world={"linux": {"options": {"max_late_share": 0.0}}},
            env={"control_interval_s": 0.1},
            total_steps=16,
        )
        assert train(output_dir=tmp_path / "run", **settings)["step"] >= 16
    messages = [record.getMessage() for record in caplog.records]
    late = [message for message in messages if "packets were written more than 1 ms late" in message]
    assert all(message.endswith("the episode is truncated here, its steps count") for message in late)
