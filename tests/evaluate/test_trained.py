# SPDX-License-Identifier: GPL-2.0-only
"""Run folders of trainings and the oracle as entrants of evaluations."""

import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import bbrgym
from bbrgym.agents.base import Constant
from bbrgym.agents.oracle import presets
from bbrgym.agents.trials import Trials
from bbrgym.envs.scaling import TunableScaling
from bbrgym.evaluate.agent_entrants import Searched
from bbrgym.evaluate.entrant_list import entrants_of
from bbrgym.evaluate.evaluation import run_evaluation
from bbrgym.evaluate.evaluation_settings import parse_settings
from bbrgym.evaluate.references import InRunOracle, Oracle
from bbrgym.report.report import evaluation_page

pytestmark = pytest.mark.usefixtures("undrawn_file")

MIX: dict[str, Any] = {
    "name": "mix",
    "variables": {"rate_mbps": {"log_uniform": [1, 4]}},
    "duration_s": 2.0,
    "link": {"rate_mbps": {"value": "rate_mbps"}, "queue": {"size_packets": {"integer": [5, 30]}}},
    "flows": [{"name": "flow", "number": {"integer": [1, 2]}, "rtt_ms": {"uniform": [10, 50]}}],
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Run folders of two trainings of a second."""
    pytest.importorskip("stable_baselines3", reason="NO TRAINED AGENT is evaluated here; pip install '.[train]'")
    from bbrgym.agents.training.train_agent import train

    folders = [tmp_path_factory.mktemp("trained") / str(seed) for seed in (1, 2)]
    for seed, folder in enumerate(folders, start=1):
        train(
            output_dir=folder,
            scenario=MIX,
            variant="bbq",
            agent={"name": "ppo", "n_steps": 8, "batch_size": 32, "n_epochs": 2},
            seed=seed,
            total_steps=64,
            num_envs=4,
            checkpoint_steps=32,
            log_steps=32,
            validation={"draws": 2},
            threads=1,
        )
    return folders


# ---- trained agents -----------------------------------------------------------------------------------


def test_training_runs_take_part_one_by_one_and_together(trained: list[Path], tmp_path: Path) -> None:
    outcome = run_evaluation(
        MIX,
        {"variants": ["bbr", "bbq"], "world": ["twin", "ns3"], "draws": 3},
        agent=[str(folder) for folder in trained],
        output_dir=tmp_path,
    )
    figures = {figure.name for figure in evaluation_page(outcome).figures}
    assert {f"{name}-{world}" for name in ("ranking", "families", "draw") for world in ("twin", "ns3")} <= {
        re.sub(r"-\d$", "", name) for name in figures
    }
    for ranking in outcome.rankings:
        assert [row.entrant for row in ranking.rows] == ["bbr", "bbq", "ppo-1 bbq", "ppo-2 bbq", "ppo bbq"]
    assert outcome.summary["score"].is_finite().all()
    series = outcome.timeseries.filter(pl.col("agent") == "ppo-1")
    assert np.allclose(np.diff(series.filter(pl.col("flow") == series["flow"][0])["time_s"].to_numpy())[:3], 0.5)


def test_pooled_observations_let_it_act_for_more_flows_than_in_training(trained: list[Path]) -> None:
    crowd = {**MIX, "flows": [{"name": "flow", "number": 7, "rtt_ms": {"uniform": [10, 50]}}]}
    rows = bbrgym.evaluate(crowd, [], agent=str(trained[0]), world="twin", draws=1)
    assert rows["score"].is_finite().to_list() == [True] * 7


def test_what_it_learned_decides_and_is_in_the_run_s_key(trained: list[Path], tmp_path: Path) -> None:
    def identity(folder: Path) -> str:
        (entrant,) = entrants_of(str(folder), parse_settings({"variants": []}))
        return entrant.identity()

    copy = tmp_path / "copy"
    shutil.copytree(trained[0], copy)
    assert identity(copy) == identity(trained[0]) != identity(trained[1])
    (copy / "metrics.parquet").unlink()
    assert identity(copy) == identity(trained[0])
    shutil.copy(trained[1] / "checkpoints" / "best.pt", copy / "checkpoints" / "best.pt")
    assert identity(copy) != identity(trained[0])


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(bbrgym.ConfigError, match="is not a run folder of bbrgym train"):
        bbrgym.evaluate(MIX, ["bbr"], agent=str(tmp_path))


# ---- the oracle ---------------------------------------------------------------------------------------


def test_the_oracle_of_the_run_itself_is_as_good_as_every_preset_on_every_draw() -> None:
    variants = [name for name, variant in bbrgym.VARIANTS.items() if variant.algorithm == "bbr" and name != "bbr-mix"]
    summary = bbrgym.evaluate(MIX, variants, agent="oracle", world="twin", draws=4, oracle_budget=20)
    scores = summary.unique(["agent", "variant", "seed"]).sort("seed")
    oracle = scores.filter(pl.col("agent") == "oracle-in-run")["score"].to_numpy()
    assert scores["variant"].n_unique() == len(variants) + 1
    assert len(presets(TunableScaling("bbr-mix"))) <= 20
    for variant in variants:
        assert (oracle >= scores.filter(pl.col("variant") == variant)["score"].to_numpy() - 1e-6).all(), variant


def test_the_oracle_is_as_good_as_what_a_search_found() -> None:
    tunables = ["bbr_up_gain", "bbr_cwnd_gain"]
    action = np.array([-0.6, -0.2], np.float32)
    setting = TunableScaling("bbr-mix", tunables).to_values(action)
    arguments = {"tunables": tunables, "control_interval_s": 2.0}
    found = Searched("grid", "bbr-mix", "grid bbr-mix", arguments, Constant("grid", action), "1", setting)
    outcome = run_evaluation(
        MIX, {"variants": [], "world": "twin", "draws": 4, "oracle_budget": 1}, agent=[found, "oracle"]
    )
    (ranking,) = outcome.rankings
    assert (ranking.best_fixed, ranking.oracle) == ("grid bbr-mix", "oracle bbr-mix")
    assert (np.abs(ranking.scores["oracle bbr-mix"] - ranking.scores["grid bbr-mix"]) < 1e-3).all()


def test_the_oracle_finds_the_same_whatever_runs_beside_it(tmp_path: Path) -> None:
    one = bbrgym.evaluate(MIX, [], agent="oracle", world="twin", draws=1, oracle_budget=10, jobs=1)
    two = bbrgym.evaluate(MIX, ["bbr"], agent="oracle", world=["ns3", "twin"], draws=2, oracle_budget=10, jobs=3)
    seeds = one["seed"].unique().to_list()
    again = two.filter((pl.col("agent") != "fixed") & (pl.col("world") == "twin") & pl.col("seed").is_in(seeds))
    assert one.equals(again)


def test_the_oracle_stops_when_it_is_told_to() -> None:
    left = iter(range(2))
    oracle = Oracle("oracle", "bbr-mix", "oracle bbr-mix", 1000, 0.5, 2)
    with pytest.raises(StopIteration):
        oracle.setting(bbrgym.load_distribution(MIX)(1), 1, lambda: next(left))
    assert next(left, None) is None


def test_what_the_oracle_looks_for_is_in_its_key() -> None:
    identities = [Oracle("o", "bbr-mix", "o", *rest).identity() for rest in ((9, 0.5), (10, 0.5), (9, 1.0))]
    identities.append(Oracle("o", "bbr-mix", "o", 9, 0.5, 3, [{"bbr_up_gain": 1.1}]).identity())
    identities.append(Oracle("o", "bbr-mix", "o", 9, 0.5, 4).identity())
    assert len(set(identities)) == 5


def test_the_honest_oracle_never_sees_the_run_that_it_is_scored_on() -> None:
    scenario = bbrgym.load_distribution(MIX)(7)
    honest, in_run = Oracle("o", "bbr-mix", "o", 8, 0.5, 2), InRunOracle("o", "bbr-mix", "o", 8, 0.5)
    assert 7 not in honest.seeds(7)
    assert len({*honest.seeds(7), *honest.seeds(8)}) == 4
    assert in_run.seeds(7) == [7]
    seeds = honest.seeds(7)
    with Trials([scenario] * 2, seeds, "bbr-mix") as trials:
        means = [trials.scores(setting).mean() for setting in presets(trials.action)]
        chosen = trials.scores(trials.action.from_values(honest.setting(scenario, 7, lambda: None))).mean()
    assert chosen >= max(means) - 2e-2  # the setting has been to natural units and back


def test_the_share_of_the_gap_is_that_of_the_honest_oracle() -> None:
    settings = {"variants": ["bbr"], "world": "twin", "draws": 3, "oracle_budget": 4, "oracle_runs": 2}
    (ranking,) = run_evaluation(MIX, settings, agent={"best": "oracle"}).rankings
    assert ranking.scores.names == ["bbr", "best bbr-mix", "best-in-run bbr-mix"]
    assert ranking.oracle == "best bbr-mix"
    assert ranking.best_fixed == "bbr"
