# SPDX-License-Identifier: GPL-2.0-only
"""The frozen benchmark: its draws, its file of results, and the check of such a file."""

import dataclasses
import functools
import json
import re
import tempfile
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from repository import ROOT

import bbrgym
from bbrgym.agents.shipped import SHIPPED
from bbrgym.cli.main import main
from bbrgym.envs.library import load_library
from bbrgym.envs.scaling import TunableScaling
from bbrgym.errors import ConfigError
from bbrgym.evaluate.agent_entrants import Learned
from bbrgym.evaluate.agent_option import trained
from bbrgym.evaluate.bench import entries, results, tasks
from bbrgym.evaluate.bench.tasks import Alone, Benchmark, Task, load_benchmark, task_runs
from bbrgym.evaluate.entrants import preset
from bbrgym.evaluate.evaluation import Draw
from bbrgym.report.bench_table import bench_tables
from bbrgym.scenario.distribution import load_distribution
from bbrgym.scenario.files import load_scenario

ZERO = "0" * 64
SHORT: dict[str, Any] = {"duration_s": 8.0, "link": {"changes": []}}


def frozen(task: dict[str, Any]) -> Task:
    """Return a task with the hash of its draws."""
    made = Task(**{**task, "sha256": ZERO})
    if made.seeds:
        draws = [Draw(load_scenario(made.scenario), seed) for seed in made.seeds]
    else:
        seeds = range(2**32 + made.first_draw, 2**32 + made.first_draw + (made.draws or 0))
        draws = [Draw(load_distribution(made.source())(seed), seed) for seed in seeds]
    return made.model_copy(update={"sha256": tasks.hash_of(draws)})


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Benchmark:
    """A benchmark of few runs in place of the one that takes minutes."""
    whole = load_benchmark()
    deployment = {
        name: frozen({**task.model_dump(), "draws": 2, "fields": {**task.fields, **SHORT}})
        for name, task in whole.deployment.items()
    }
    made = Benchmark(
        name="small",
        world="twin",
        score_delta=0.5,
        scored=(
            frozen({"scenario": "rtt_pairs", "first_draw": 3, "draws": 10}),
            frozen({"scenario": "with_cubic", "first_draw": 3, "draws": 10, "fields": {"duration_s": 8.0}}),
        ),
        deployment=deployment,
        alone=Alone(commit="0" * 7, fixed=(-1.0, -1.0), gain=0.5),
        checked=(frozen({"scenario": "rfc9743_data_center", "seeds": [1]}),),
    )
    for module in (entries, results):
        monkeypatch.setattr(module, "load_benchmark", lambda: made)
    return made


def test_the_draws_are_those_that_were_frozen() -> None:
    benchmark = load_benchmark()
    for task in benchmark.tasks.values():
        task_runs(benchmark, task, preset("bbr"))
    assert benchmark.draws_sha256 == "a4f6b416566065f37ace398ec375ac740933e116d0b974b4be50ac7edebfc2ae"
    assert len(benchmark.alone.fixed) == benchmark.deployment["alone"].draws


def test_a_changed_draw_is_an_error_by_its_hash(small: Benchmark) -> None:
    task = small.scored[0].model_copy(update={"first_draw": 4})
    with pytest.raises(ConfigError, match=r"the draws of rtt_pairs have the hash [0-9a-f]{64}, expected"):
        task_runs(small, task, preset("bbr"))


def test_a_changed_check_changes_the_hash() -> None:
    scenario = load_scenario("rfc9743_data_center")
    draw = Draw(scenario, 1)
    other = dataclasses.replace(draw, scenario=scenario.model_copy(update={"checks": ()}))
    assert tasks.hash_of([draw]) != tasks.hash_of([other])


def test_the_file_is_the_same_each_time_and_passes_its_check(small: Benchmark, tmp_path: Path) -> None:
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    for path in (first, second):
        results.write_results(results.bench(["bbr", "cubic"]), path)
    assert first.read_bytes() == second.read_bytes()
    assert results.check_results(first) == results.read_results(first)
    lines = first.read_text(encoding="utf-8").splitlines()
    assert [line[:16] for line in lines if line.startswith('{"')] == ['{"entrant":"bbr"', '{"entrant":"cubi']
    ranking, deployability = bench_tables({"first.json": results.read_results(first)})
    assert [line.split("|")[1].strip() for line in ranking.splitlines()[2:]] == ["1", "2"]
    assert len(deployability.splitlines()) == 4
    with pytest.raises(ConfigError, match="an entrant has two entries"):
        bench_tables({"a.json": results.read_results(first), "b.json": results.read_results(second)})


@functools.cache
def written() -> str:
    """Return a file of bbr's results in the small benchmark."""
    with tempfile.TemporaryDirectory() as folder:
        results.write_results(results.bench(["bbr"]), path := Path(folder) / "results.json")
        return path.read_text(encoding="utf-8")


#: Those of the small benchmark, which running it again gives again (test_the_file_is_the_same_each_time).
entries_of = functools.cache(lambda *names: entries.run_entrants(names))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            lambda one: one["entries"][0]["tasks"]["rtt_pairs"]["scores"].__setitem__(2, 9.0),
            "1 scores differ in rtt_pairs",
        ),
        (lambda one: one["entries"][0]["tasks"]["rtt_pairs"]["scores"].pop(), "has 9 scores in rtt_pairs, expected 10"),
        (lambda one: one["entries"][0]["score"].update(mean=1.0), "bbr: score, which follow from the runs"),
        (lambda one: one["entries"][0]["deployment"]["alone"].update(mean=1.0), "bbr: deployment, which follow from"),
        (lambda one: one["entries"][0]["harm"].update(mean=0.0), "bbr: harm, which follow from"),
        (lambda one: one["entries"][0].update(label="mine"), "has entries of"),
        *(
            (
                lambda one, code=code: one["entries"][0].update(entrant=code),
                f"^agent: is '{code}', code that only a file",
            )
            for code in ("mine:act", "builtins:input", "sys:exit", "bbrgym:evaluate", f"{__name__}:draws_of")
        ),
        (lambda one: one.update(entries=[]), "entries: is .., expected at least 1"),
        (lambda one: one.update(draws_sha256=ZERO), "with draws 0000"),
        (lambda one: one.update(more=1), "more"),
    ],
)
def test_a_tampered_file_is_refused(
    small: Benchmark, tmp_path: Path, change: Any, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "run_entrants", lambda names, _=None: entries_of(*names))
    path = tmp_path / "results.json"
    content = json.loads(written())
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(ConfigError, match=problem):
        results.check_results(path)


def test_a_key_that_stands_twice_is_refused_and_claims_are_shown_as_such(
    small: Benchmark, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "results.json"
    text = written().replace('"commit": "', '"commit": "claim-of-')
    path.write_text(text, encoding="utf-8")
    assert main(["bench", "check", str(path)]) == 0
    assert re.search(
        r"claimed, not checked: version '.*', commit 'claim-of-\w+', .*cores \d+$", capsys.readouterr().out, re.M
    )
    path.write_text(text.replace('"bbr"', '"cubic", "entrant": "bbr"', 1), encoding="utf-8")
    assert main(["bench", "check", str(path)]) == 2
    assert capsys.readouterr().err == f"bbrgym: cannot read '{path}': a key stands twice\n"


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_agent_scores_what_its_entry_says(name: str) -> None:
    """On the first three draws of a task, as its run folder does."""
    entered = results.read_results(ROOT / "bench" / "shipped.json")
    entry = next(one for one in entered.entries if one.entrant == name)
    of = {"draws": 3, "first_draw": 5200, "split": "test", "world": "twin", "variants": []}
    found = bbrgym.evaluate("rtt_pairs", agent=name, **of).group_by("seed", maintain_order=True).first()["score"]
    assert found.round(entries.DIGITS).to_list() == list(entry.tasks["rtt_pairs"].scores[:3])


def test_an_entry_says_what_its_evaluations_say(small: Benchmark) -> None:
    (entry,) = entries.run_entrants(["bbq"])
    where = {"split": "test", "world": "twin"}
    of_task = {
        task.scenario: bbrgym.evaluate(
            task.source(), ["bbq"], draws=task.draws, first_draw=task.first_draw, **where
        ).group_by("seed", maintain_order=True)
        for task in small.scored
    }
    found = {task: rows.agg(pl.col("score", "own_score").first()) for task, rows in of_task.items()}
    for task, rows in found.items():
        assert rows["score"].round(entries.DIGITS).to_list() == list(entry.tasks[task].scores)
    own = pl.concat(found.values())["own_score"]
    assert entry.own_score.mean == pytest.approx(own.mean(), abs=1e-4)
    assert entry.score.mean < entry.own_score.mean  # beside CUBIC
    harm = of_task["with_cubic"].agg(pl.col("harm").fill_nan(None).mean())["harm"]
    assert entry.harm.mean == pytest.approx(harm.mean(), abs=1e-4)
    task = small.deployment["deployed_90"]
    rows = [
        bbrgym.evaluate(task.source(), [one], draws=2, first_draw=task.first_draw, **where)["own_score"]
        for one in ("bbq", "bbr")
    ]
    assert entry.deployment["gain_90"].mean == pytest.approx(rows[0].mean() - rows[1].mean(), abs=1e-4)


def test_an_entrant_is_given_once(small: Benchmark) -> None:
    with pytest.raises(ConfigError, match="expected each once"):
        entries.run_entrants(["bbr", "bbr"])


def test_the_shipped_agents_are_small_and_say_how_they_were_trained() -> None:
    files = [path for folder in SHIPPED.values() for path in folder.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files if path.suffix != ".o") < 1.5 * 2**20
    # The build makes it: 760 kB by clang 14, 866 kB by the clang 22 of zig 0.17.
    assert all(path.stat().st_size < 2**20 for path in files if path.suffix == ".o")
    for folder in SHIPPED.values():
        about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
        assert {"command", "commit", "data", "validation_score"} <= set(about)
    wan = trained(SHIPPED["shipped/wan"])
    library = load_library(SHIPPED["shipped/wan"] / "library.yaml", wan.variant)
    scaling = TunableScaling(wan.variant)
    assert (
        scaling.from_values(dict(zip(scaling.names, library.values(scaling.names)[0], strict=True)))
        == wan.controller.library[0]
    ).all()
    flow = trained(SHIPPED["shipped/flow"])
    assert isinstance(flow, Learned)
    assert flow.kind == "learned"
    assert flow.controller.is_per_flow
