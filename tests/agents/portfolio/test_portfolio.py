# SPDX-License-Identifier: GPL-2.0-only
"""Trainings of the portfolio, each of some seconds."""

import itertools
import json
import math
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_portfolio import files, small
from tiny import SCENARIO, interrupt, run

import bbrgym
from bbrgym.agents.base import Policy
from bbrgym.agents.deploy.export_agent import export
from bbrgym.agents.deploy.policy_file import read_policy
from bbrgym.agents.deploy.policy_header import policy_header
from bbrgym.agents.loading import load_agent
from bbrgym.agents.oracle import presets
from bbrgym.agents.portfolio.assembly import DRAINING, FIRM, Assembly
from bbrgym.agents.portfolio.identification import IdentificationPart, moment_of
from bbrgym.agents.portfolio.identification import histories as seen_in
from bbrgym.agents.portfolio.identification_features import OBSERVED, IdentificationFeatures, settings_held
from bbrgym.agents.portfolio.policy import IdentificationRoutine, PortfolioPolicy
from bbrgym.agents.portfolio.stage_settings import StageSettings
from bbrgym.agents.portfolio.tasks import TrainingConditions
from bbrgym.agents.rollout import make_rollout, options_for
from bbrgym.agents.shipped import POLICY, shipped_setting
from bbrgym.agents.shipped.__main__ import ship
from bbrgym.agents.training import loop
from bbrgym.agents.training.draws import training_draws
from bbrgym.agents.training.settings import parse_training
from bbrgym.agents.training.train_agent import resume_training, train
from bbrgym.envs.library import load_library
from bbrgym.envs.scaling import TunableScaling
from bbrgym.envs.tune_env import TuneEnv
from bbrgym.evaluate.evaluation import run_evaluation
from bbrgym.worlds import WorldSettings
from bbrgym.worlds.score import Objective

pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning"),
    pytest.mark.usefixtures("undrawn_file"),
]

STAGES = {"refine": 1500, "late in identification": 2800}
"""Steps in the middle of each stage."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(tmp_path_factory.mktemp("whole") / "run", **small())


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Report progress after every part."""
    monkeypatch.setattr(loop, "_PROGRESS_S", -1.0)


def width_of(agent: Any, flows: int) -> int:
    """Numbers that are observed of an interval."""
    return flows * len(OBSERVED) + int(agent.library.shape[1])


# ---- training ------------------------------------------------------------------------------------------------


def test_all_steps_are_used_and_every_stage_leaves_its_table(whole: Path) -> None:
    summary = json.loads((whole / "summary.json").read_text())
    assert 3800 < summary["step"] <= 4000
    curve = pl.read_parquet(whole / "metrics.parquet")
    measured = {"search/score", "library/best_fixed", "library/coverage", "fit/gain", "fit/privileged_gain"}
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


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_the_same_seed_gives_the_same_bytes_and_another_one_others(seed: int, whole: Path, tmp_path: Path) -> None:
    assert (files(run(tmp_path / "again", **small(seed=seed, threads=2))) == files(whole)) == (seed == 1)


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


def test_a_finished_training_is_not_run_again(whole: Path) -> None:
    before = files(whole)
    resume_training(whole)
    assert files(whole) == before


@pytest.mark.parametrize("tunables", [None, ["bbq_alpha_us"]])
def test_it_drains_by_the_tunables_that_there_are(tunables: list[str] | None) -> None:
    settings = parse_training(small(action={"tunables": tunables}))
    assembly = Assembly(settings, StageSettings(identification_s=1.0))
    draining = {name: value for name, value in DRAINING.items() if tunables is None or name in tunables}
    own = bbrgym.VARIANTS["bbq"].preset
    for name, value in assembly.scaling.to_values(assembly.draining).items():
        assert value == pytest.approx(draining.get(name, own[name]), rel=1e-4)


@pytest.mark.parametrize(
    ("changed", "others", "message"),
    [
        ({}, {"world": "ns3"}, "world: is ns3, expected one that can be saved: twin"),
        ({}, {"action": "relative"}, "expected absolute ones without levels, max_change and hold_intervals"),
        ({}, {"action": {"hold_intervals": 2}}, "'hold_intervals': 2}, expected absolute ones"),
        ({"search_share": 0.7, "cross_share": 0.3}, {}, "is one of agent.search_share 0.7, agent.cross_share 0.3,"),
        ({"reselect_share": 0.9}, {}, "agent.reselect_share 0.9, expected a sum below 1"),
        ({"reselect_share": 0.2}, {}, "is tried as late as after 6 control intervals, expected less than a run's 4"),
        (
            {"reselect_share": 0.2, "reselect_s": 1.5},
            {},
            "agent.reselect_s: is 1.5, expected at most agent.identification_s, 1",
        ),
        ({"identification_s": 2.0}, {}, "is tried as late as after 4 control intervals, expected less than a run's 4"),
        ({"search_trials": 400}, {}, "total_steps: stage search has 600 of them, which are 0 draws"),
        ({"fit": {"folds": 1}}, {}, "agent.fit.folds: is 1, expected a number >= 2"),
    ],
)
def test_what_cannot_be_trained_is_refused(
    changed: dict[str, Any], others: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(bbrgym.ConfigError) as error:
        train(output_dir=tmp_path / "run", **small(changed, **others))
    assert message in str(error.value)
    assert not (tmp_path / "run").exists()


def test_a_damaged_part_is_named(whole: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(whole, tmp_path / "run"))
    (folder / "checkpoints" / "last.pt").unlink()
    (folder / "states" / "cross-00000.parquet").write_bytes(b"no table")
    with pytest.raises(bbrgym.ConfigError, match=r"cross-00000\.parquet', it is damaged or missing"):
        resume_training(folder)


# ---- the agent -----------------------------------------------------------------------------------------------


def test_it_identifies_the_path_then_holds_a_setting_of_its_library(whole: Path) -> None:
    agent, arguments = load_agent(whole)
    width = width_of(agent, 3)
    assert (arguments["view"], arguments["frame_stack"]) == ("each", 1)
    assert tuple(arguments["features"]) == OBSERVED
    policy = agent.make_policy([1, 2])
    generator = np.random.default_rng(1)
    actions = [policy.act(generator.random((2, width), np.float32), np.full(2, turn == 0)) for turn in range(6)]
    for turn in range(2):
        assert (actions[turn] == agent.routine.setting).all()
    for turn in range(2, 6):
        assert (actions[turn] == actions[2]).all()
        assert all(any((row == setting).all() for setting in agent.library) for row in actions[turn])
    again = policy.act(generator.random((2, width), np.float32), np.array([False, True]))
    assert (again[0] == actions[2][0]).all()
    assert (again[1] == agent.routine.setting).all()  # a new episode begins with an identification


@given(st.integers(0, 2**32), st.integers(1, 40), st.integers(1, 3), st.integers(1, 12))
def test_features_do_not_depend_on_the_rows_beside_them(seed: int, count: int, flows: int, intervals: int) -> None:
    rng = np.random.default_rng(seed)
    features = IdentificationFeatures(intervals, 2)
    numbers = rng.random((count, intervals, flows * len(OBSERVED) + 2), np.float32)
    histories = torch.from_numpy(
        numbers * rng.integers(0, 2, numbers.shape[1:]).astype(np.float32)
    )  # some are not known
    rows = [features(history[None])[0] for history in histories]
    assert torch.equal(features(histories), torch.stack(rows))


def test_it_chooses_by_the_flows_there_are_and_not_by_empty_places(whole: Path) -> None:
    agent, _ = load_agent(whole)
    flow, tunables = len(OBSERVED), agent.library.shape[1]
    history = np.random.default_rng(5).random((50, agent.routine.intervals, width_of(agent, 2)), np.float32)
    places = np.zeros((50, agent.routine.intervals, 7 * flow), np.float32)
    padded = np.concatenate([history[..., :-tunables], places, history[..., -tunables:]], axis=2)
    features = agent.network().features
    assert torch.allclose(*(features(torch.from_numpy(one)) for one in (history, padded)), rtol=1e-4, atol=1e-5)
    crowd = {**SCENARIO, "flows": [{"name": "flow", "number": 12, "rtt_ms": {"uniform": [10, 50]}}]}
    rows = bbrgym.evaluate(crowd, [], agent=str(whole), world="twin", draws=1)
    assert rows["score"].is_finite().to_list() == [True] * 12


def test_its_library_is_a_file_for_actions(whole: Path) -> None:
    library = load_library(whole / "library.yaml", "bbq")
    agent, _ = load_agent(whole)
    assert len(library.settings) == len(agent.library) <= 3
    env = TuneEnv(scenario="steady", world="twin", variant="bbq", action_kind="library", library=whole / "library.yaml")
    assert env.action_space.n == len(agent.library)
    env.close()


RESELECT = {"reselect_share": 0.2, "identification_s": 0.5}


@pytest.fixture(scope="module")
def reselecting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(tmp_path_factory.mktemp("reselect") / "run", **small(RESELECT))


def test_it_chooses_again_whenever_a_pause_has_passed(reselecting: Path) -> None:
    agent, _ = load_agent(reselecting)
    views = np.random.default_rng(4).random((4, width_of(agent, 1)), np.float32)
    policy = agent.make_policy([1])
    actions = [policy.act(view[None], np.array([turn == 0]))[0] for turn, view in enumerate(views)]
    assert (actions[0] == agent.routine.setting).all()
    for turn in range(1, 4):
        assert (actions[turn] == agent.choose(views[turn : turn + 1])).all()


@pytest.mark.parametrize(
    ("pause", "seen", "held"),
    [
        (
            2,
            [[1, 2, 3, 4], [3, 4, 5, 6], [5, 6, 7, 8], [11, 12, 13, 14]],
            [0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 0, 0, 0, 0, 4, 4],
        ),
        (None, [[1, 2, 3, 4], [11, 12, 13, 14]], [0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 2, 2]),
    ],
)
def test_a_later_choice_goes_by_the_last_intervals(pause: int | None, seen: list[list[float]], held: list[int]) -> None:
    histories: list[list[float]] = []

    def choose(given: Any) -> Any:
        histories.append(given[0, :, 0].tolist())
        return np.full((len(given), 1), len(histories), np.float32)

    policy = PortfolioPolicy(1, IdentificationRoutine(np.zeros(1, np.float32), 4, pause), choose)
    starts = [number in (0, 10) for number in range(16)]
    actions = [
        int(policy.act(np.array([[number]], np.float32), np.array([is_first]))[0, 0])
        for number, is_first in enumerate(starts)
    ]
    assert (histories, actions) == (seen, held)


def test_it_learns_from_what_agents_met_that_chose_so_far(reselecting: Path) -> None:
    curve = pl.read_parquet(reselecting / "metrics.parquet")
    assert {"fit/gain", "reselect/gain"} <= set(curve.columns)
    agent, _ = load_agent(reselecting)
    for turn in (1, 2):
        parts = sorted((reselecting / "states").glob(f"reselect-{turn}-*.parquet"))
        history = seen_in(pl.concat(map(pl.read_parquet, parts)), 1)
        held = settings_held(agent.network().features(history), agent.library)
        normalised = history[:, -1, -agent.library.shape[1] :].numpy() * 2.0 - 1.0
        assert np.allclose(normalised, agent.library[held], atol=1e-6)


class Watching:
    """A policy of one environment, and what it observed."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.views: list[Any] = []

    def act(self, observations: Any, episode_starts: Any) -> Any:
        self.views.append(observations[0])
        return self.policy.act(observations, episode_starts)


@pytest.mark.parametrize("fixture", ["reselecting", "per_flow"])
def test_up_to_a_moment_the_agent_acts_as_in_a_rollout(fixture: str, request: pytest.FixtureRequest) -> None:
    agent, arguments = load_agent(request.getfixturevalue(fixture))
    options = options_for(agent, **{**arguments, "threads": 1})
    draws = tuple(itertools.islice(training_draws(options.scenario, 5), 6))
    conditions = TrainingConditions(options, WorldSettings(), Objective())
    table = IdentificationPart(conditions, draws, agent.library, agent.routine, agent.network())(1)
    for draw, (_, own) in zip(draws, table.group_by("draw", maintain_order=True), strict=True):
        moment = moment_of(conditions, draw, agent.routine.intervals, is_later=True)
        watching: list[Watching] = []

        def make_policy(seeds: Sequence[int], watching: list[Watching] = watching) -> Watching:
            watching.append(Watching(agent.make_policy(seeds)))
            return watching[-1]

        rollout = make_rollout(replace(options, scenario=[draw.scenario]), [draw.run_seed(0)])
        try:
            rollout.begin(make_policy)
            for _ in range(moment + 1):
                rollout.advance()
        finally:
            rollout.close()
        last = [
            each.views[-agent.routine.intervals :] for each in watching if len(each.views) > agent.routine.intervals
        ]
        assert own["history"].to_list() == [np.concatenate(views).tolist() for views in last]


def test_a_second_choice_ends_in_the_same_bytes_when_interrupted(reselecting: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(reselecting, tmp_path / "cut"))
    (folder / "summary.json").unlink()
    for path in [*(folder / "checkpoints").iterdir(), folder / "states" / "reselect-2-00000.parquet"]:
        path.unlink()
    resume_training(folder)
    assert files(folder) == files(reselecting)


@pytest.mark.parametrize("fixture", [pytest.param("whole", marks=pytest.mark.slow), "reselecting"])
def test_the_exported_network_chooses_as_the_agent_does(
    fixture: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    folder = request.getfixturevalue(fixture)
    agent, arguments = load_agent(folder)
    width = width_of(agent, arguments["max_tuned"])
    exported = torch.jit.load(export(folder, "torchscript", output=tmp_path / "agent.pt"))
    history = np.random.default_rng(3).random((20, agent.routine.intervals, width), np.float32)
    chosen = exported(torch.from_numpy(history.reshape(20, -1))).numpy()
    assert len(np.unique(chosen, axis=0)) > 1
    for row, setting in zip(history, chosen, strict=True):
        assert (agent.choose(row) == setting).all()


# ---- each flow by itself -------------------------------------------------------------------------------------

LATE = {**SCENARIO, "flows": [{**SCENARIO["flows"][0], "start_s": {"uniform": [0, 0.4]}}]}


@pytest.fixture(scope="module")
def fixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    agent = {"name": "grid", "draws": 1, "levels": 2}
    action = {"tunables": ["bbr_up_gain"]}
    return run(tmp_path_factory.mktemp("fixed") / "run", agent, action=action)


@pytest.fixture(scope="module")
def per_flow(fixed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    settings = small({**RESELECT, "start": [str(fixed)]}, env="multi", scenario=LATE)
    return run(tmp_path_factory.mktemp("per-flow") / "run", **settings)


def test_each_flow_identifies_from_its_own_start_and_is_an_example(per_flow: Path) -> None:
    agent, _ = load_agent(per_flow)
    assert (agent.is_per_flow, agent.name) == (True, "portfolio-multi")
    assert any((agent.routine.setting == setting).all() for setting in agent.library)
    source = bbrgym.load_distribution(LATE)
    names = OBSERVED
    for stage in ("identification", "reselect"):
        table = pl.concat(map(pl.read_parquet, sorted((per_flow / "states").glob(f"{stage}-*.parquet"))))
        views = seen_in(table, agent.routine.intervals).numpy()
        for (seed,), own in table.group_by("draw"):
            assert own["controller"].to_list() == list(range(len(source(int(seed)).resolved().flows)))
            assert own["scores"].n_unique() == 1  # all flows hold the setting that is tried
        assert (views[:, :, names.index("active")] == 1).all()  # from the first interval on


def test_the_setting_that_it_starts_from_is_a_candidate(per_flow: Path) -> None:
    searched = sum(len(pl.read_parquet(path)) for path in (per_flow / "states").glob("search-*.parquet"))
    crossed = pl.read_parquet(per_flow / "states" / "cross-00000.parquet")
    scaling = TunableScaling("bbq")
    firm = math.prod(len(values) for name, values in FIRM if name in scaling.names)
    assert len(crossed["scores"][0]) == len(presets(scaling)) + 1 + firm + searched


def test_what_holds_no_settings_of_the_variant_is_no_start(tmp_path: Path) -> None:
    with pytest.raises(bbrgym.ConfigError, match=r"agent\.start: 'shipped/wan' has variant bbr-mix, allowed is bbq"):
        train(output_dir=tmp_path / "run", **small({"start": ["shipped/wan"]}, env="multi"))
    start = str(run(tmp_path / "ppo", total_steps=32))
    with pytest.raises(bbrgym.ConfigError, match=r"agent\.start: '.*' holds agent ppo, expected a portfolio"):
        train(output_dir=tmp_path / "run", **small({"start": [start]}, env="multi"))


def test_flows_by_themselves_are_evaluated_and_exported(per_flow: Path, tmp_path: Path) -> None:
    settings = {"variants": ["bbq"], "variant": "bbq", "world": "twin", "draws": 2, "split": "train"}
    outcome = run_evaluation(LATE, settings, agent=[str(per_flow), f"privileged:{per_flow}"])
    assert outcome.rankings[0].scores.names == ["bbq", "portfolio-multi bbq", "privileged bbq"]
    header = export(per_flow, "c", output=tmp_path / "agent.h").read_text()
    assert "#define POLICY_IS_PER_FLOW 1" in header
    ship(per_flow, tmp_path / "shipped", "two draws")
    assert policy_header(read_policy(tmp_path / "shipped" / POLICY)) == header
    assert (bbrgym.load_agent(tmp_path / "shipped")[0].library == bbrgym.load_agent(per_flow)[0].library).all()
    assert shipped_setting(tmp_path / "shipped") is None


# ---- evaluation ----------------------------------------------------------------------------------------------


def test_it_is_evaluated_beside_its_references(whole: Path) -> None:
    agents = [str(whole), *(f"{name}:{whole}" for name in ("library-best", "library-oracle", "privileged")), "oracle"]
    settings = {"variants": ["bbq"], "variant": "bbq", "world": "twin", "draws": 3, "oracle_budget": 3}
    outcome = run_evaluation(SCENARIO, {**settings, "split": "train", "jobs": 2}, agent=agents)
    (ranking,) = outcome.rankings
    names = ["bbq", "portfolio bbq", "library-best bbq", "library-oracle bbq", "privileged bbq"]
    assert ranking.scores.names == [*names, "oracle bbq", "oracle-in-run bbq"]
    assert ranking.oracle == "oracle bbq"
    assert ranking.best_fixed in ("bbq", "library-best bbq")
    alone = run_evaluation(SCENARIO, {**settings, "split": "train", "draws": 1, "variants": []}, agent=agents[:4])
    for name in names[1:]:
        assert alone.rankings[0].scores[name][0, 0] == ranking.scores[name][0, 0]


def test_only_a_portfolio_has_references(tmp_path: Path) -> None:
    folder = run(tmp_path / "run", {"name": "grid", "draws": 1, "levels": 2}, action={"tunables": ["bbr_up_gain"]})
    with pytest.raises(bbrgym.ConfigError, match="whose run holds agent grid, expected a portfolio"):
        bbrgym.evaluate(SCENARIO, [], agent=f"privileged:{folder}", world="twin", draws=1)
    with pytest.raises(bbrgym.ConfigError, match="there is no such run folder or model's file"):
        bbrgym.evaluate(SCENARIO, [], agent=f"privileged:{tmp_path / 'none'}", world="twin", draws=1)
