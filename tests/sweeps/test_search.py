# SPDX-License-Identifier: GPL-2.0-only
"""Searches: what is proposed, that an interruption changes nothing, and what is pruned."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hydra.types import RunMode
from omegaconf import OmegaConf
from small import NO_LEVELS, multirun, running_below, scenario, started, states, step_of, summary
from waiting import wait_until

from bbrgym.cli.composition import Loader, compose_config
from bbrgym.config.overrides import parse_override
from bbrgym.errors import ConfigError, SweepError
from bbrgym.sweeps.jobs import TIMEOUT, job_limit_s
from bbrgym.sweeps.multirun import MultirunFolder, metric_of
from bbrgym.sweeps.pruning import watched
from bbrgym.sweeps.search import TRIAL, settings_of
from bbrgym.sweeps.study import Study, distributions, without_password

pytestmark = pytest.mark.usefixtures("undrawn_file")

optuna = pytest.importorskip("optuna", reason="NO OPTUNA: what searches; pip install '.[train]'")

PRESETS = sorted((Path(__file__).parents[2] / "conf" / "experiment").glob("search_*.yaml"))
PARAMS = {
    "rate": "tag(log, interval(1e-5, 1e-2))",
    "share": "interval(0.5, 2)",
    "epochs": "int(interval(3, 20))",
    "size": "range(16, 64, 16)",
    "hidden": "choice([64,64], [128])",
}
SETTINGS: dict[str, Any] = {"direction": "maximize", "n_trials": 13, "batch": 3, "n_startup_trials": 4, "seed": 1}
SETTINGS |= {"pruner": None, "metric": None, "storage": None, "study_name": "bbrgym", "shared": False, "params": PARAMS}


def value(parameters: dict[str, str]) -> float:
    return -abs(float(parameters["share"]) - 1) + float(parameters["rate"])


def proposed(path: Path, settings: dict[str, Any], *, breaks_at: int = -1) -> list[dict[str, str]]:
    """Runs a study; stops when a trial of this number is to be told."""
    found = []
    with closing(Study(f"sqlite:///{path}", settings)) as study:
        for batch in study.batches():
            for trial in batch:
                if trial.number == breaks_at:
                    return found
                study.tell(trial, value(trial.parameters) if trial.number % 7 else None)
                found.append(dict(trial.parameters))
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
    """It can grow at the same time."""
    assert proposed(tmp_path / "study.db", {**SETTINGS, "n_trials": at + 1}, breaks_at=at) == whole[:at]
    assert proposed(tmp_path / "study.db", SETTINGS) == whole
    assert proposed(tmp_path / "other.db", {**SETTINGS, "n_trials": 1, "seed": 2})[0] != whole[0]


def test_what_is_told_counts(tmp_path: Path) -> None:
    found = proposed(tmp_path / "study.db", {**SETTINGS, "n_trials": 30, "n_startup_trials": 10})
    far = [abs(float(one["share"]) - 1) for one in found]
    assert sum(far[20:]) < 0.6 * sum(far[:10])  # nearer to the best than what was drawn anywhere
    study = optuna.load_study(study_name="bbrgym", storage=f"sqlite:///{tmp_path / 'study.db'}")
    assert [trial.state.name for trial in study.trials[:3]] == ["FAIL", "COMPLETE", "COMPLETE"]


def test_a_damaged_study_is_one_clear_error_without_the_password(tmp_path: Path) -> None:
    path = tmp_path / "study.db"
    path.write_bytes(b"no database" * 1000)
    for address in (f"sqlite:///{path}", "sqlite://me:secret@here/nowhere"):
        shown = re.escape(address.replace("secret", "***"))
        with pytest.raises(SweepError, match=f"cannot use study 'bbrgym' of {shown}: ") as caught:
            Study(address, SETTINGS)
        assert "\n" not in str(caught.value)
        assert "secret" not in str(caught.value)
    shown = without_password("storage: postgresql://me:secret@host/db\n- 'hydra.sweeper.storage=mysql://a:secret@b/c'")
    assert shown == "storage: postgresql://me:***@host/db\n- 'hydra.sweeper.storage=mysql://a:***@b/c'"
    assert without_password(f"sqlite:///{tmp_path}/a@b: 3") == f"sqlite:///{tmp_path}/a@b: 3"


def test_studies_of_a_database_are_apart(tmp_path: Path) -> None:
    for name in ("one", "three"):
        found = proposed(tmp_path / "study.db", {**SETTINGS, "n_trials": 3, "study_name": name, "seed": len(name)})
        assert len(found) == 3
    assert len(optuna.study.get_all_study_names(f"sqlite:///{tmp_path / 'study.db'}")) == 2


@pytest.mark.parametrize("text", ["1h", "nan", "0", "-3"])
def test_a_wrong_limit_of_a_job_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TIMEOUT, text)
    with pytest.raises(ConfigError, match=f"BBRGYM_JOB_TIMEOUT_S: is '{text}', expected a number of seconds above 0"):
        job_limit_s()


def test_processes_share_the_trials_of_a_study(tmp_path: Path) -> None:
    """Two at once, of which one is interrupted and goes on with its own trials."""
    address, shared = f"sqlite:///{tmp_path / 'study.db'}", {**SETTINGS, "shared": True, "n_trials": 11}
    with closing(Study(address, shared, "a")) as one, closing(Study(address, shared, "b")) as two:
        batches = {"a": one.batches(), "b": two.batches()}
        lost = next(batches["a"])
        taken = [next(batches["b"])]
        batches["a"] = one.batches()  # a process that begins again
        assert next(batches["a"]) == lost
        taken += [lost, *batches["b"], *batches["a"]]
        for trial in (trial for batch in taken for trial in batch):
            one.tell(trial, value(trial.parameters))
    trials = [trial for batch in taken for trial in batch]
    assert sorted(trial.number for trial in trials) == list(range(11))
    assert len({tuple(trial.parameters.values()) for trial in trials}) == 11
    with pytest.raises(ConfigError, match=r"hydra.sweeper.shared: is None, was True in study 'bbrgym'"):
        Study(address, SETTINGS)


# ---- its settings -------------------------------------------------------------------------------------


def settings(*overrides: str) -> tuple[dict[str, Any], list[str]]:
    """Return the settings of a command line, and the options that are not searched."""
    config = Loader().load_configuration("train", list(overrides), RunMode.MULTIRUN)
    own = [one for one in map(parse_override, overrides) if not one.is_hydra_override()]
    found, options = settings_of(config, own)
    return found, [str(one.input_line) for one in options]


@pytest.mark.parametrize("path", PRESETS, ids=lambda path: path.stem)
def test_the_shipped_searches_are_of_options_that_there_are(path: Path) -> None:
    found, _ = settings(f"experiment={path.stem}")
    assert (found["metric"], found["direction"]) == ("best_score", "maximize")
    own = compose_config("train", [f"experiment={path.stem}"])["agent"]
    assert own["name"] == path.stem.removeprefix("search_")
    for name in found["params"]:
        assert name.removeprefix("agent.") in own, name
    for end in (0, -1):  # both ends of each range can be asked for
        ends = {
            name: (getattr(distribution, "choices", None) or (distribution.low, distribution.high))[end]
            for name, distribution in distributions(found["params"]).items()
        }
        asked = compose_config("train", [f"experiment={path.stem}", *(f"{name}={one}" for name, one in ends.items())])
        for name, one in ends.items():
            assert asked["agent"][name.removeprefix("agent.")] == parse_override(f"{name}={one}").value()


def test_the_command_line_counts_more_than_a_search_s_file() -> None:
    given = ["agent=recurrent_ppo", "agent.gamma=0.9", "agent.clip_range=interval(0.2,0.3)", "seed=1,2"]
    found, options = settings("experiment=search_ppo", *given)
    assert "agent.gamma" not in found["params"]
    assert found["params"]["agent.clip_range"] == "interval(0.2,0.3)"
    assert "agent.learning_rate" in found["params"]
    assert options == ["experiment=search_ppo", "agent=recurrent_ppo", "agent.gamma=0.9", "seed=1,2"]
    assert compose_config("train", ["experiment=search_ppo", given[0]])["agent"]["name"] == "recurrent_ppo"


# ---- with jobs ----------------------------------------------------------------------------------------


def search(trials: int, *, at_once: int = 1) -> list[str]:
    own = {"n_trials": trials, "batch": at_once, "n_startup_trials": 1}
    return ["hydra/sweeper=bbrgym_optuna", *(f"hydra.sweeper.{name}={value}" for name, value in own.items())]


LEVELS = "agent.levels=int(interval(2,9))"


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], Path]:
    """Options of a search of two trials, one after the other, and its folder."""
    folder = tmp_path_factory.mktemp("searched")
    options = [*search(2), scenario(folder), *NO_LEVELS, LEVELS]
    done = multirun(*options, f"hydra.sweep.dir={folder / 'out'}")
    assert done.returncode == 0, done.stderr
    assert "best best_score of a job" in done.stdout
    return options, folder / "out"


def test_a_search_leaves_its_trials_and_the_best_and_is_not_another_one(searched: tuple[list[str], Path]) -> None:
    options, out = searched
    jobs = ["trial-0000", "trial-0001"]
    assert list(states(out)) == jobs
    assert summary(out)["job"].to_list() == jobs
    best = OmegaConf.load(out / "optimization_results.yaml").best
    assert best.value == pytest.approx(summary(out)["best_score"].max())
    wrong = {
        "hydra.sweeper.seed=7": "hydra.sweeper.seed: is 7, was 1 in",
        "hydra.sweeper.metric=weather": "hydra.sweeper.metric: is 'weather', was None in",
        "seed=1,2": "hydra.sweeper.pruner: is given with several jobs for each trial",
    }
    pruner = "hydra.sweeper.pruner={_target_: optuna.pruners.MedianPruner}"
    for option, says in wrong.items():
        own = [option, pruner] if option == "seed=1,2" else [option]
        refused = multirun(*options, *own, f"hydra.sweep.dir={out}")
        assert refused.returncode == 2
        assert says in refused.stderr
    with pytest.raises(ConfigError, match=r"hydra.sweeper.metric: is 'weather', expected one of "):
        metric_of(out / jobs[0], "train", "weather")
    folder = MultirunFolder(out)
    folder.open(resume=True)
    with closing(folder):  # one process searches at a time
        refused = multirun(*options, f"hydra.sweep.dir={out}")
    assert refused.returncode == 2
    assert "is in use by bbrgym -m, process" in refused.stderr


@pytest.mark.slow
def test_a_search_goes_on_after_a_kill_to_the_same_trials(searched: tuple[list[str], Path], tmp_path: Path) -> None:
    (options, whole), out = searched, tmp_path / "out"
    with started(*options, f"hydra.sweep.dir={out}"):
        wait_until(lambda: "trial-0000" in states(out) if out.exists() else False)
    wait_until(lambda: not running_below(out))
    assert multirun(*options, f"hydra.sweep.dir={out}").returncode == 0
    assert summary(out).equals(summary(whole))


@pytest.mark.slow
def test_a_search_has_its_metric_its_direction_its_storage_and_jobs_side_by_side(tmp_path: Path) -> None:
    """Each of two trials that run at once has two seeds, whose mean is its score."""
    own = f"hydra.sweeper.storage=sqlite:///{tmp_path}/mine.db"
    out = tmp_path / "out"
    less = ["hydra.sweeper.metric=step", "hydra.sweeper.direction=minimize", "seed=1,2"]
    options = [scenario(tmp_path), *NO_LEVELS, LEVELS]
    done = multirun(*search(2, at_once=2), own, *less, *options, f"hydra.sweep.dir={out}")
    assert done.returncode == 0, done.stderr
    study = optuna.load_study(study_name="bbrgym", storage=f"sqlite:///{tmp_path}/mine.db")
    table = summary(out)
    assert table["job"].to_list() == [f"trial-000{trial}_seed-{seed}" for trial in range(2) for seed in (1, 2)]
    steps = table["step"].to_list()
    assert [trial.value for trial in study.trials] == [sum(steps[:2]) / 2, sum(steps[2:]) / 2]
    assert not (out / "study.db").exists()
    assert "mine.db" not in (out / "search.json").read_text()
    assert f"best step of a job: {min(steps):.4f} with" in done.stdout


def test_a_hopeless_trial_is_pruned_by_its_validation_score(tmp_path: Path) -> None:
    out = tmp_path / "out"
    pruner = "hydra.sweeper.pruner={_target_: optuna.pruners.ThresholdPruner, lower: 1000}"
    long = [one for one in NO_LEVELS if "_steps" not in one] + ["total_steps=1_000_000", "checkpoint_steps=200"]
    levels = "agent.levels=int(interval(900,999))"
    done = multirun(*search(1), pruner, scenario(tmp_path), *long, levels, f"hydra.sweep.dir={out}")
    assert done.returncode == 0, done.stderr
    assert [state["status"] for state in states(out).values()] == ["pruned"]
    study = optuna.load_study(study_name="bbrgym", storage=f"sqlite:///{out / 'study.db'}")
    assert [trial.state.name for trial in study.trials] == ["PRUNED"]
    assert step_of(out, "trial-0000") < 1_000_000


def test_a_pruner_closes_its_study_and_tells_a_broken_database_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "study.db"
    address = f"sqlite:///{file}"
    with closing(Study(address, SETTINGS)) as study:
        next(study.batches())
    assert file not in open_files()
    pruner = {"_target_": "optuna.pruners.ThresholdPruner", "lower": 1000}
    hydra = OmegaConf.create({"sweeper": {"pruner": pruner, "study_name": "bbrgym", "storage": address}})
    monkeypatch.setenv(TRIAL, "0")
    with watched(hydra, tmp_path) as is_hopeless:
        assert not is_hopeless()  # no score yet
        (tmp_path / "summary.json").write_text('{"step": 1, "score": -1.0}')
        assert is_hopeless()
        assert file in open_files()
        (tmp_path / "summary.json").write_text('{"step": 2, "score": -1.0}')
        with sqlite3.connect(file) as database:
            database.execute("DROP TABLE trial_intermediate_values")
        database.close()
        with pytest.raises(SweepError, match=r"cannot use study 'bbrgym' of sqlite:///.*no such table"):
            is_hopeless()
    assert file not in open_files()
    hydra.sweeper.study_name = "another"
    with pytest.raises(SweepError, match="cannot use study 'another'"), watched(hydra, tmp_path):
        pass
    monkeypatch.delenv(TRIAL)
    with watched(hydra, tmp_path) as is_hopeless:
        assert not is_hopeless()


def open_files() -> set[Path]:
    return {file.resolve() for file in Path("/proc/self/fd").iterdir()}


@pytest.mark.slow
def test_a_trial_whose_job_fails_has_failed_and_the_search_goes_on(tmp_path: Path) -> None:
    out = tmp_path / "out"
    levels = "agent.levels=int(interval(0,3))"
    done = multirun(*search(3, at_once=3), scenario(tmp_path), *NO_LEVELS, levels, f"hydra.sweep.dir={out}")
    study = optuna.load_study(study_name="bbrgym", storage=f"sqlite:///{out / 'study.db'}")
    expected = ["FAIL" if trial.params["agent.levels"] < 2 else "COMPLETE" for trial in study.trials]
    assert [trial.state.name for trial in study.trials] == expected
    assert set(expected) == {"FAIL", "COMPLETE"}
    assert done.returncode == 1
    assert f"{expected.count('FAIL')} of 3 jobs are not done" in done.stderr
