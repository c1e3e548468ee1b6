# SPDX-License-Identifier: GPL-2.0-only
"""Trainings of the portfolio, each of some seconds."""

import argparse
import importlib
import json
import shutil
import signal
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from small_portfolio import files, small
from tiny import SCENARIO, interrupt, run

import bbrgym
from bbrgym.agents.base import Constant
from bbrgym.agents.deploy.export_agent import export
from bbrgym.agents.loading import load_agent
from bbrgym.agents.portfolio.policy import PortfolioAgent
from bbrgym.agents.portfolio.probe import histories
from bbrgym.agents.portfolio.probe_features import settings_held
from bbrgym.agents.portfolio.tasks import TrainingConditions
from bbrgym.agents.rollout import make_rollout, options_for
from bbrgym.agents.training import loop
from bbrgym.agents.training.draws import training_draws
from bbrgym.agents.training.train_agent import resume_training, train
from bbrgym.envs.library import load_library
from bbrgym.envs.observation import FEATURE_LISTS
from bbrgym.envs.options import Options
from bbrgym.envs.scaling import TunableScaling
from bbrgym.envs.tune_env import TuneEnv
from bbrgym.errors import MissingExtraError
from bbrgym.evaluate.evaluation import run_evaluation
from bbrgym.scenario.distribution import load_distribution
from bbrgym.scenario.files import load_scenario, read_scenario
from bbrgym.worlds import WorldSettings
from bbrgym.worlds.score import score_of_run

pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning"),
    pytest.mark.usefixtures("undrawn_file"),
]

STAGES = {"search": 0, "cross": 700, "refine": 1500, "probe": 2100, "late in probe": 2800}
"""Steps in the middle of each stage."""

KILLED_AT = """
import json, os, signal
from bbrgym.agents.training import loop
from bbrgym.agents.training.train_agent import train

def kill_late(progress):
    if progress.step > {step}:
        os.kill(os.getpid(), signal.SIGKILL)

loop._PROGRESS_S = -1.0
train(output_dir={folder!r}, on_progress=kill_late, **json.loads({asked!r}))
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(tmp_path_factory.mktemp("whole") / "run", **small())


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Report progress after every part."""
    monkeypatch.setattr(loop, "_PROGRESS_S", -1.0)


# ---- training ------------------------------------------------------------------------------------------------


def test_all_steps_are_used_and_every_stage_leaves_its_table(whole: Path) -> None:
    summary = json.loads((whole / "summary.json").read_text())
    assert 3800 < summary["step"] <= 4000
    curve = pl.read_parquet(whole / "metrics.parquet")
    measured = {"search/score", "library/best_fixed", "library/coverage", "fit/gain", "fit/knowing_gain"}
    assert measured <= set(curve.columns)
    assert pl.read_parquet(whole / "coverage.parquet")["score"].is_sorted()
    assert abs(pl.read_parquet(whole / "confusion.parquet")["share"].sum() - 1.0) < 1e-9
    assert pl.read_parquet(whole / "importance.parquet")["loss"].is_sorted(descending=True)
    seeds = {path.stem: pl.read_parquet(path)["draw"].to_list() for path in (whole / "states").glob("*.parquet")}
    assert (
        seeds["refine-0-00000"] == seeds["refine-1-00000"] == seeds["refine-2-00000"]
    )  # children on their parents' draws
    drawn = [seed for part, each in seeds.items() if not part.startswith(("refine-1", "refine-2")) for seed in each]
    assert len(set(drawn)) == len(drawn)  # no draw serves twice
    assert max(drawn) < 2**31  # all are of the training split


def test_the_same_seed_gives_the_same_bytes_and_another_one_others(whole: Path, tmp_path: Path) -> None:
    assert files(run(tmp_path / "again", **small(threads=2))) == files(whole)
    assert files(run(tmp_path / "other", **small(seed=2)))["library.yaml"] != files(whole)["library.yaml"]


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("stage", STAGES)
def test_an_interrupted_training_goes_on_to_the_same_bytes(stage: str, whole: Path, tmp_path: Path) -> None:
    folder = interrupt(tmp_path / "run", STAGES[stage], small())
    assert not (folder / "summary.json").exists()
    before = {path.name: path.stat().st_mtime_ns for path in (folder / "states").glob("*.parquet")}
    assert before
    resume_training(folder)
    assert files(folder) == files(whole)
    assert all((folder / "states" / name).stat().st_mtime_ns == written for name, written in before.items())


def test_a_killed_training_goes_on_to_the_same_bytes(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    code = KILLED_AT.format(step=1500, folder=str(folder), asked=json.dumps(small()))
    done = subprocess.run([sys.executable, "-c", code], timeout=120, check=False, stderr=subprocess.DEVNULL)
    assert done.returncode == -signal.SIGKILL
    resume_training(folder)
    assert files(folder) == files(whole)


def test_a_finished_training_is_not_run_again(whole: Path) -> None:
    before = files(whole)
    resume_training(whole)
    assert files(whole) == before


def test_without_a_probe_it_drains_by_the_tunables_that_there_are(whole: Path, tmp_path: Path) -> None:
    assert files(run(tmp_path / "all", **small({"probe": None}))) == files(whole)
    of_paper = {"action": {"tunables": ["bbq_alpha_us"]}}
    own = files(run(tmp_path / "own", **small({"probe": {}}, **of_paper)))
    assert files(run(tmp_path / "none", **small({"probe": None}, **of_paper))) == own


@pytest.mark.parametrize(
    ("changed", "others", "message"),
    [
        ({}, {"world": "ns3"}, "world: is ns3, expected one that can be saved: twin"),
        ({}, {"action": "relative"}, "expected absolute ones without levels, max_change and hold_intervals"),
        ({}, {"action": {"hold_intervals": 2}}, "'hold_intervals': 2}, expected absolute ones"),
        ({"search_share": 0.7, "cross_share": 0.3}, {}, "agent.cross_share: is 0.3 beside agent.search_share 0.7,"),
        ({"again_share": 0.9}, {}, "agent.refine_share 0.15 and agent.again_share 0.9, expected a sum below 1"),
        (
            {"again_share": 0.2},
            {},
            "agent.probe_s: are 2 control intervals, twice because of agent.again_share",
        ),
        ({"probe_s": 2.0}, {}, "agent.probe_s: are 4 control intervals, expected less than a run's 4"),
        ({"probe": {"bbr_cwnd_gian": 1.24}}, {}, "agent.probe.bbr_cwnd_gian: is none of the tunables to set; did you"),
        ({"probe": {"bbr_cwnd_gain": 9.0}}, {}, "agent.probe.bbr_cwnd_gain: is 9, out of its range: the nearest value"),
        (
            {"search_trials": 400},
            {},
            "total_steps: stage search has 600 of them, which are 0 draws, expected",
        ),
        ({"fit": {"folds": 1}}, {}, "agent.fit.folds: is 1, expected a number >= 2"),
        ({"change": {"ratio": 1.0}}, {}, "agent.change.ratio: is 1"),
    ],
)
def test_what_cannot_be_trained_is_refused(
    changed: dict[str, Any], others: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(bbrgym.ConfigError) as error:
        train(output_dir=tmp_path / "run", **small(changed, **others))
    assert message in str(error.value)
    assert not (tmp_path / "run").exists()


def test_flows_too_short_for_a_probe_are_refused(tmp_path: Path) -> None:
    late = {**SCENARIO, "flows": [{**flow, "start_s": 1.6} for flow in SCENARIO["flows"]]}
    with pytest.raises(bbrgym.ConfigError, match=r"for which flows of 0 draws last, expected at least 2"):
        train(output_dir=tmp_path / "run", **small(env="multi", scenario=late))


def test_a_damaged_part_is_named(whole: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(whole, tmp_path / "run"))
    (folder / "checkpoints" / "last.pt").unlink()
    (folder / "states" / "cross-00000.parquet").write_bytes(b"no table")
    with pytest.raises(bbrgym.ConfigError, match=r"cross-00000\.parquet', it is damaged or missing"):
        resume_training(folder)


# ---- the agent -----------------------------------------------------------------------------------------------


def test_it_probes_then_holds_a_setting_of_its_library(whole: Path) -> None:
    agent, arguments = load_agent(whole)
    assert isinstance(agent, PortfolioAgent)
    assert (arguments["view"], arguments["stack"]) == ("each", 1)
    assert tuple(arguments["features"]) == FEATURE_LISTS["memory"]
    tuner = agent.tuner([1, 2])
    generator = np.random.default_rng(1)
    width = agent.routine.width
    begun, going = np.array([True, True]), np.array([False, False])
    actions = [tuner.act(generator.random((2, width), np.float32), begun if turn == 0 else going) for turn in range(6)]
    for turn in range(2):
        assert (actions[turn] == agent.routine.setting).all()
    for turn in range(2, 6):
        assert (actions[turn] == actions[2]).all()
        assert all(any((row == setting).all() for setting in agent.library) for row in actions[turn])
    again = tuner.act(generator.random((2, width), np.float32), np.array([False, True]))
    assert (again[0] == actions[2][0]).all()
    assert (again[1] == agent.routine.setting).all()  # a new episode begins with a probe


def test_its_library_is_a_file_for_actions(whole: Path) -> None:
    library = load_library(whole / "library.yaml", "bbq")
    agent, _ = load_agent(whole)
    assert isinstance(agent, PortfolioAgent)
    assert len(library.settings) == len(agent.library) <= 3
    env = TuneEnv(scenario="steady", world="twin", variant="bbq", action_kind="library", library=whole / "library.yaml")
    assert env.action_space.n == len(agent.library)
    env.close()


def test_the_exported_network_chooses_as_the_agent_does(whole: Path, tmp_path: Path) -> None:
    agent, _ = load_agent(whole)
    assert isinstance(agent, PortfolioAgent)
    exported = torch.jit.load(export(whole, "torchscript", output=tmp_path / "agent.pt"))
    history = np.random.default_rng(3).random((5, 2, agent.routine.width), np.float32)
    chosen = exported(torch.from_numpy(history.reshape(5, -1))).numpy()
    for row, setting in zip(history, chosen, strict=True):
        assert (agent.choose(list(row)) == setting).all()


TREES = {"fit": {"model": "trees", "trees": 4, "leaf_draws": 1, "folds": 2}}


def test_an_agent_of_trees_acts_and_is_exported(tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason="NO SCIKIT-LEARN: agent.fit.model=trees; pip install '.[trees]'")
    folder = run(tmp_path / "run", **small(TREES))
    agent, _ = load_agent(folder)
    assert isinstance(agent, PortfolioAgent)
    history = np.random.default_rng(3).random((20, 2, agent.routine.width), np.float32)
    chosen = [agent.choose(list(row)) for row in history]
    assert len(np.unique(chosen, axis=0)) > 1
    exported = torch.jit.load(export(folder, "torchscript"))
    assert (exported(torch.from_numpy(history.reshape(20, -1))).numpy() == chosen).all()


def test_without_scikit_learn_no_stage_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.setitem(sys.modules, "sklearn.ensemble", None)
    with pytest.raises(MissingExtraError, match=r"agent\.fit\.model=trees needs .*'\.\[trees\]'"):
        run(tmp_path / "run", **small(TREES))
    assert not list((tmp_path / "run").rglob("search-*"))


AGAIN = {"again_share": 0.2, "probe_s": 0.5}


@pytest.fixture(scope="module")
def looking_again(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(tmp_path_factory.mktemp("again") / "run", **small(AGAIN))


def test_it_looks_again_whenever_a_probes_time_has_passed(looking_again: Path) -> None:
    agent, _ = load_agent(looking_again)
    assert isinstance(agent, PortfolioAgent)
    assert len(agent.looks) == 2
    generator = np.random.default_rng(4)
    views = generator.random((4, agent.routine.width), np.float32)
    tuner = agent.tuner([1])
    actions = [tuner.act(view[None], np.array([turn == 0]))[0] for turn, view in enumerate(views)]
    assert (actions[0] == agent.routine.setting).all()
    assert (actions[1] == agent.choose([views[1]])).all()
    assert (actions[2] == agent.choose([views[2]], look=1)).all()
    assert (actions[3] == agent.choose([views[3]], look=1)).all()


def test_a_second_look_is_fitted_on_what_the_first_one_holds(looking_again: Path) -> None:
    curve = pl.read_parquet(looking_again / "metrics.parquet")
    assert {"fit/gain", "fit/again_gain"} <= set(curve.columns)
    agent, _ = load_agent(looking_again)
    assert isinstance(agent, PortfolioAgent)
    parts = sorted((looking_again / "states").glob("again-*.parquet"))
    history, _ = histories(pl.concat(map(pl.read_parquet, parts)), 1, agent.routine.width)
    features = agent.looks[1].features(history)
    held = settings_held(features, torch.from_numpy(agent.library))
    coordinates = history[:, -1, -agent.library.shape[1] :].numpy() * 2.0 - 1.0
    assert np.allclose(coordinates, agent.library[held], atol=1e-6)


def test_a_second_look_ends_in_the_same_bytes_when_interrupted(looking_again: Path, tmp_path: Path) -> None:
    again = files(run(tmp_path / "again", **small(AGAIN, threads=2)))
    assert again == files(looking_again)
    folder = Path(shutil.copytree(looking_again, tmp_path / "cut"))
    (folder / "summary.json").unlink()
    for path in [*(folder / "checkpoints").iterdir(), folder / "states" / "again-00000.parquet"]:
        path.unlink()
    resume_training(folder)
    assert files(folder) == again


def test_two_looks_are_exported_as_one_network(looking_again: Path, tmp_path: Path) -> None:
    agent, _ = load_agent(looking_again)
    assert isinstance(agent, PortfolioAgent)
    exported = torch.jit.load(export(looking_again, "torchscript", output=tmp_path / "agent.pt"))
    history = np.random.default_rng(3).random((6, 1, agent.routine.width), np.float32)
    looks = np.arange(6) % 2
    chosen = exported(torch.from_numpy(history[:, 0]), torch.from_numpy(looks[:, None].astype(np.float32))).numpy()
    for row, look, setting in zip(history, looks.tolist(), chosen, strict=True):
        assert (agent.choose(list(row), look=look) == setting).all()


@pytest.mark.parametrize("view", ["each", "host"])
def test_one_of_each_flow_probes_from_the_start_of_its_flow(view: str, tmp_path: Path) -> None:
    folder = run(tmp_path / "run", **small(env={"name": "multi", "view": view}))
    assert files(run(tmp_path / "again", **small(env={"name": "multi", "view": view}, threads=2))) == files(folder)
    if view == "host":
        with pytest.raises(bbrgym.ConfigError, match=r"view: 'host' needs the measurements of other flows"):
            export(folder, "c")
    agent, arguments = load_agent(folder)
    assert isinstance(agent, PortfolioAgent)
    assert agent.is_per_flow
    assert arguments["view"] == view
    scenario = load_scenario(
        {
            **read_scenario("rtt_fairness"),
            "duration_s": 4.0,
            "flows": [
                {"name": "early", "rtt_ms": 10, "role": "learner"},
                {"name": "late", "rtt_ms": 50, "role": "learner", "start_s": 1.2},
            ],
        }
    )
    rollout = make_rollout(options_for(agent, **{**arguments, "world": "twin", "scenario": [scenario]}), [3])
    held: dict[int, list[Any]] = {}

    def watched(seeds: Any) -> Any:
        return Watched(agent.tuner(seeds), held.setdefault(len(held), []))

    rollout.begin(watched)
    while not rollout.advance().all():
        pass
    rollout.close()
    for actions, intervals in zip(held.values(), (8, 6), strict=True):
        assert len(actions) == intervals
        assert all((action[0] == agent.routine.setting).all() for action in actions[:2])
        assert any((actions[2][0] == setting).all() for setting in agent.library)
        assert all((action == actions[2]).all() for action in actions[2:])
    references = ("knowing", "library-best", "library-oracle")
    agents = [str(folder), *(f"{name}:{folder}" for name in references)]
    outcome = run_evaluation(SCENARIO, {"variants": ["bbq"], "world": "twin", "draws": 2}, agent=agents)
    assert sorted(outcome.rankings[0].scores.names) == sorted(
        ["bbq", "portfolio-multi bbq", *(f"{name} bbq" for name in references)]
    )


def test_a_fixed_setting_is_the_same_for_each_flow_and_for_all() -> None:
    flows = [{"name": "early", "rtt_ms": 10, "role": "learner"}]
    flows += [{"name": "late", "rtt_ms": 50, "role": "learner", "start_s": 1.2}]
    scenario = load_scenario({**read_scenario("rtt_fairness"), "duration_s": 4.0, "flows": flows})
    action = np.full(TunableScaling("bbq").space.shape, 0.25, np.float32)
    scores = []
    for is_per_flow in (False, True):
        agent = Constant("constant", action, is_per_flow=is_per_flow)
        options = options_for(agent, variant="bbq", scenario=[scenario], world="twin", view="each")
        rollout = make_rollout(options, [1])
        scores.append(rollout.scores(agent.tuner).tolist())
        rollout.close()
    assert scores[0] == scores[1]
    assert np.isfinite(scores).all()


# ---- evaluation ----------------------------------------------------------------------------------------------


def test_it_is_evaluated_beside_its_references(whole: Path) -> None:
    agents = [str(whole), *(f"{name}:{whole}" for name in ("library-best", "library-oracle", "knowing")), "oracle"]
    settings = {"variants": ["bbq"], "variant": "bbq", "world": "twin", "draws": 3, "oracle_budget": 3}
    outcome = run_evaluation(SCENARIO, {**settings, "split": "train", "jobs": 2}, agent=agents)
    (ranking,) = outcome.rankings
    names = ["bbq", "portfolio bbq", "library-best bbq", "library-oracle bbq", "knowing bbq"]
    assert ranking.scores.names == [*names, "oracle bbq", "oracle-in-run bbq"]
    assert ranking.oracle == "oracle bbq"
    assert ranking.best_fixed in ("bbq", "library-best bbq")
    alone = run_evaluation(SCENARIO, {**settings, "split": "train", "draws": 1, "variants": []}, agent=agents[:4])
    for name in names[1:]:
        assert alone.rankings[0].scores[name][0, 0] == ranking.scores[name][0, 0]


def test_only_a_portfolio_has_references(tmp_path: Path) -> None:
    folder = run(tmp_path / "run", {"name": "grid", "draws": 1, "levels": 2}, action={"tunables": ["bbr_up_gain"]})
    with pytest.raises(bbrgym.ConfigError, match="whose run holds agent grid, expected a portfolio"):
        bbrgym.evaluate(SCENARIO, [], agent=f"knowing:{folder}", world="twin", draws=1)
    with pytest.raises(bbrgym.ConfigError, match="there is no such run folder or model's file"):
        bbrgym.evaluate(SCENARIO, [], agent=f"knowing:{tmp_path / 'none'}", world="twin", draws=1)


# ---- the map -------------------------------------------------------------------------------------------------


class Watched:
    """A tuner that keeps its actions."""

    def __init__(self, tuner: Any, actions: list[Any]) -> None:
        self.tuner, self.actions = tuner, actions

    def act(self, observations: Any, begun: Any) -> Any:
        self.actions.append(self.tuner.act(observations, begun))
        return self.actions[-1]


def test_its_map_shows_what_it_holds_on_each_network(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).resolve().parents[3] / "benchmarks")
    portfolio_map = importlib.import_module("portfolio_map")
    agent, arguments = load_agent(whole)
    assert isinstance(agent, PortfolioAgent)
    library = load_library(whole / "library.yaml")
    scenarios, seeds = [load_distribution(SCENARIO)(seed) for seed in (3, 4, 5)], [3, 4, 5]
    chosen = portfolio_map.choices(whole, library, scenarios, seeds)
    for scenario, seed, number in zip(scenarios, seeds, chosen.tolist(), strict=True):
        rollout = make_rollout(Options(**{**arguments, "world": "twin", "scenario": [scenario]}), [seed])
        held: list[Any] = []

        def watched(seeds: Any, held: list[Any] = held) -> Any:
            return Watched(agent.tuner(seeds), held)

        rollout.begin(watched)
        while not rollout.advance().all():
            pass
        rollout.close()
        assert (held[-1][0] == agent.library[number]).all()
    names, families, shares = portfolio_map.shares_of(chosen, scenarios, len(agent.library))
    assert families[0] == "all"
    assert np.allclose(np.sum(shares, axis=0), 1.0)
    assert shares[0][0] == max(np.bincount(chosen)) / 3 == max(row[0] for row in shares)
    assert names[0] == str(np.bincount(chosen).argmax() + 1)


# ---- the gap -------------------------------------------------------------------------------------------------


def test_its_gap_is_told_step_by_step(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).resolve().parents[3] / "benchmarks")
    portfolio_gap = importlib.import_module("portfolio_gap")
    agent, arguments = load_agent(whole)
    assert isinstance(agent, PortfolioAgent)
    draws = list(islice(training_draws(load_distribution(SCENARIO), 5), 3))
    conditions = TrainingConditions(Options(**{**arguments, "world": "twin"}), WorldSettings(), 0.5)
    rows = portfolio_gap.rows_of(agent, draws, conditions)
    held, other, after, other_after, told, chosen, fixed = rows.values()
    assert (held >= np.maximum(other, fixed)).all()  # luck never costs
    assert (after >= np.max([other_after, told, chosen], axis=0)).all()
    options = Options(**{**arguments, "world": "twin", "scenario": [draw.scenario for draw in draws]})
    rollout = make_rollout(options, [draw.run_seed(0) for draw in draws])
    rollout.begin(agent.tuner)
    while not rollout.advance().all():
        pass
    worlds = rollout.worlds
    own = [
        score_of_run(draw.scenario, worlds.flow_summary_fields, worlds.summary(index)[0])
        for index, draw in enumerate(draws)
    ]
    rollout.close()
    assert np.allclose(chosen, own)  # it is what the agent does


# ---- trainings beside each other -----------------------------------------------------------------------------


def test_a_training_is_compared_with_its_own_librarys_references(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).resolve().parents[3] / "benchmarks")
    portfolio_seeds = importlib.import_module("portfolio_seeds")
    found = portfolio_seeds.gains(whole, argparse.Namespace(scenario=SCENARIO, draws=2, first_draw=1, world="twin"))
    agents = [str(whole), *(f"{name}:{whole}" for name in portfolio_seeds.REFERENCES)]
    settings = {"variants": [], "world": "twin", "split": "test", "draws": 2, "first_draw": 1, "interval_s": 0.5}
    scores = run_evaluation(SCENARIO, settings, agent=agents).rankings[0].scores
    for name in ("portfolio", "knowing", "library-oracle"):
        assert (found[name] == scores[f"{name} bbq"] - scores["library-best bbq"]).all()
    assert not found[portfolio_seeds.FIXED].any()
