# SPDX-License-Identifier: GPL-2.0-only
"""Searches: what is proposed, and that an interruption changes nothing."""

from pathlib import Path

import pytest
from small import GRID, scenario, start, states, summary, sweep
from waiting import wait_until

from bbrgym.compose import compose_config
from bbrgym.errors import ConfigError
from bbrgym.sweeps.plan import check, jobs_of, parse_options
from bbrgym.sweeps.search import SearchSettings, Study, parse_search

optuna = pytest.importorskip("optuna", reason="NO OPTUNA: what searches; pip install 'bbrgym[train]'")
pytest.importorskip("joblib", reason="NO JOBLIB: what starts the jobs; pip install 'bbrgym[train]'")

CONF = Path(__file__).parents[2] / "conf" / "hparams_search"
PARAMS = {
    "rate": "tag(log, interval(1e-5, 1e-2))",
    "share": "interval(0.5, 2)",
    "epochs": "int(interval(3, 20))",
    "size": "range(16, 64, 16)",
    "hidden": "choice([64,64], [128])",
}
SETTINGS = SearchSettings(n_trials=13, batch=3, n_startup_trials=4, params=PARAMS)


def value(parameters: dict[str, str]) -> float:
    return -abs(float(parameters["share"]) - 1) + float(parameters["rate"])


def proposed(path: Path, settings: SearchSettings, *, breaks_at: int = -1) -> list[dict[str, str]]:
    """Runs a study; stops when a trial of this number is to be told."""
    study, found = Study(path, settings), []
    try:
        for batch in study.batches():
            for trial in batch:
                if trial.number == breaks_at:
                    return found
                study.tell(trial, value(trial.parameters) if trial.number % 7 else None)
                found.append(dict(trial.parameters))
    finally:
        study.close()
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, str]]:
    """What is proposed where nothing interrupts."""
    return proposed(tmp_path_factory.mktemp("whole") / "study.db", SETTINGS)


def test_values_lie_in_their_ranges(whole: list[dict[str, str]]) -> None:
    assert len(whole) == 13
    for one in whole:
        assert list(one) == list(PARAMS)
        assert 1e-5 <= float(one["rate"]) <= 1e-2
        assert 0.5 <= float(one["share"]) <= 2
        assert int(one["epochs"]) in range(3, 21)
        assert int(one["size"]) in (16, 32, 48)  # the end of a range is not in it
        assert one["hidden"] in ("[64,64]", "[128]")
    assert len({tuple(one.values()) for one in whole}) == 13
    assert sum(float(one["rate"]) < 1e-3 for one in whole) > 3  # a tenth of them would be on a linear scale


@pytest.mark.parametrize("at", [4, 10])
def test_an_interrupted_search_proposes_what_it_would_have_proposed(
    at: int, whole: list[dict[str, str]], tmp_path: Path
) -> None:
    assert proposed(tmp_path / "study.db", SETTINGS, breaks_at=at) == whole[:at]
    assert proposed(tmp_path / "study.db", SETTINGS) == whole


def test_a_search_can_grow_and_another_seed_proposes_others(whole: list[dict[str, str]], tmp_path: Path) -> None:
    fewer = SETTINGS.model_copy(update={"n_trials": 5})
    assert proposed(tmp_path / "study.db", fewer) == whole[:5]
    assert proposed(tmp_path / "study.db", SETTINGS) == whole
    other = SETTINGS.model_copy(update={"n_trials": 1, "seed": 2})
    assert proposed(tmp_path / "other.db", other)[0] != whole[0]


def test_what_is_told_counts(tmp_path: Path) -> None:
    found = proposed(tmp_path / "study.db", SETTINGS.model_copy(update={"n_trials": 30, "n_startup_trials": 10}))
    far = [abs(float(one["share"]) - 1) for one in found]
    assert sum(far[20:]) < 0.6 * sum(far[:10])  # nearer to the best than what was drawn anywhere
    study = optuna.load_study(study_name="bbrgym", storage=f"sqlite:///{tmp_path / 'study.db'}")
    assert [trial.state.name for trial in study.trials[:3]] == ["FAIL", "COMPLETE", "COMPLETE"]


@pytest.mark.parametrize("path", sorted(CONF.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_shipped_searches_are_of_options_that_there_are(path: Path) -> None:
    asked = compose_config("sweep", [f"hparams_search={path.stem}"])["hparams_search"]
    given = parse_options(["agent.learning_rate=interval(1e-5,1e-3)"] if path.stem == "own" else [])
    settings, options = parse_search(asked, given)
    agent = compose_config("train", options.fixed)["agent"]
    for name in settings.params:
        assert name.removeprefix("agent.") in agent, name
    for end in (0, -1):  # both ends of each range can be asked for
        chosen = {
            name: text.strip().split("(")[-1].rstrip(")").split(",")[end] for name, text in settings.params.items()
        }
        chosen = {name: text.strip() for name, text in chosen.items() if "[" not in text and "]" not in text}
        check(jobs_of("train", options, chosen, "trial"))


def test_the_command_line_counts_more_than_a_search_s_file() -> None:
    asked = compose_config("sweep", ["hparams_search=ppo"])["hparams_search"]
    options = parse_options(
        ["agent=recurrent_ppo", "agent.gamma=0.9", "agent.clip_range=interval(0.2,0.3)", "seed=1,2"]
    )
    settings, of_jobs = parse_search(asked, options)
    assert "agent.gamma" not in settings.params
    assert settings.params["agent.clip_range"] == "interval(0.2,0.3)"
    assert of_jobs.fixed == ("agent=recurrent_ppo", "agent.gamma=0.9")
    assert of_jobs.swept == {"seed": ("1", "2")}


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({}, "nothing is left to search"),
        ({"a": "3"}, "a is '3', expected choice, range or interval"),
        ({"a": "interval(2, 1)"}, "a is interval"),
        ({"a": "interval("}, "is no override"),
    ],
)
def test_a_range_that_cannot_be_is_named(params: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        parse_search({"params": params}, parse_options([]))


def test_a_search_of_trainings_goes_on_after_a_kill(tmp_path: Path) -> None:
    """Each trial has two seeds, and the second is proposed when the first has its score."""
    search = ["hparams_search=own", "hparams_search.n_trials=2", "hparams_search.batch=1"]
    options = [scenario(tmp_path), *(one for one in GRID if "levels" not in one), "agent.levels=int(interval(2,9))"]
    options += ["seed=1,2", "hparams_search.n_startup_trials=1", "launcher.n_jobs=2"]
    whole, out = tmp_path / "whole", tmp_path / "out"
    done = sweep(*search, *options, f"sweep_dir={whole}")
    assert done.returncode == 0, done.stderr
    assert "best best_score of a job" in done.stdout
    assert summary(whole)["job"].to_list() == [f"trial-000{trial}_seed-{seed}" for trial in range(2) for seed in (1, 2)]
    begun = start(*search, *options, f"sweep_dir={out}")
    try:
        wait_until(lambda: "trial-0001_seed-1" in states(out) if out.exists() else False)
    finally:
        begun.kill()
        begun.communicate(timeout=120)
    resumed = sweep(f"resume={out}", "launcher.n_jobs=2")
    assert resumed.returncode == 0, resumed.stderr
    assert summary(out).equals(summary(whole))
    other = sweep(*search, *options, "hparams_search.seed=7", f"sweep_dir={out}", "resume=true")
    assert other.returncode == 2
    assert "hparams_search.seed: is 7, was 1" in other.stderr
