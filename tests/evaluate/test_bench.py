# SPDX-License-Identifier: GPL-2.0-only
"""The frozen benchmark: its draws, its file of results, and the check of such a file."""

import dataclasses
import hashlib
import json
import re
from pathlib import Path
from typing import Any

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
from bbrgym.evaluate.bench.tasks import Benchmark, RecordedTask, Task, load_benchmark, task_runs
from bbrgym.evaluate.entrants import preset
from bbrgym.evaluate.evaluation import Draw
from bbrgym.report import bench_table as bench_table_module
from bbrgym.report.bench_table import bench_table
from bbrgym.scenario.distribution import load_distribution
from bbrgym.scenario.files import load_scenario

ZERO = "0" * 64
RECORDING = "".join(f"{time_ms}\n" for time_ms in range(1, 400, 3))
RECORDED: dict[str, Any] = {
    "scenario": "real_trace",
    "first_draw": 1,
    "draws": 2,
    "sha256": ZERO,
    "published": "https://example.org",
    "traces": {"mine.down": hashlib.sha256(RECORDING.encode()).hexdigest()},
    "fields": {
        "variables": {},
        "duration_s": 2.0,
        "link": {"queue": {"size_packets": 40}},
        "flows": [{"name": "flow", "rtt_ms": {"uniform": [20, 50]}}],
    },
}


def draws_of(task: dict[str, Any]) -> list[Draw]:
    if "seeds" in task:
        return [Draw(load_scenario(task["scenario"]), seed) for seed in task["seeds"]]
    seeds = range(2**32 + task["first_draw"], 2**32 + task["first_draw"] + task["draws"])
    return [Draw(load_distribution(task["scenario"])(seed), seed) for seed in seeds]


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """A folder with the recording of the small benchmark."""
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "mine.down").write_text(RECORDING, encoding="ascii")
    return tmp_path / "traces"


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, traces: Path) -> Benchmark:
    """A benchmark of few runs in place of the one that takes minutes."""
    drawn = RecordedTask(**RECORDED).distribution(traces)
    on_recording = tasks.hash_of([Draw(drawn(seed), seed) for seed in (2**32 + 1, 2**32 + 2)])
    chosen: list[dict[str, Any]] = [
        {"scenario": "rtt_pairs", "first_draw": 3, "draws": 10},
        {"scenario": "rfc9743_data_center", "seeds": [1]},
    ]
    found = [Task(**task, sha256=tasks.hash_of(draws_of(task))) for task in chosen]
    recorded = RecordedTask(**{**RECORDED, "sha256": on_recording})
    made = Benchmark(
        name="small", world="twin", score_delta=0.5, scored=found[:1], recorded=recorded, checked=found[1:]
    )
    for module in (entries, results, bench_table_module):
        monkeypatch.setattr(module, "load_benchmark", lambda: made)
    return made


def test_the_draws_are_those_that_were_frozen() -> None:
    benchmark = load_benchmark()
    for task in (*benchmark.scored, *benchmark.checked):
        task_runs(benchmark, task, preset("bbr"))
    assert benchmark.draws_sha256 == "d46f2565673ce5691bd763e3101be903c340247d29e430e604671e6037b8fce9"


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
    table = bench_table({"first.json": results.read_results(first)})
    assert [line.split("|")[1].strip() for line in table.splitlines()[2:]] == ["1", "2"]
    with pytest.raises(ConfigError, match="an entrant has two entries"):
        bench_table({"a.json": results.read_results(first), "b.json": results.read_results(second)})


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            lambda one: one["entries"][0]["tasks"]["rtt_pairs"]["scores"].__setitem__(2, 9.0),
            "1 scores differ in rtt_pairs",
        ),
        (lambda one: one["entries"][0]["tasks"]["rtt_pairs"]["scores"].pop(), "has 9 scores in rtt_pairs, expected 10"),
        (lambda one: one["entries"][0]["score"].update(mean=1.0), "bbr: score, which follow from the runs"),
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
        (lambda one: one.update(recorded_sha256=ZERO), "has recorded_sha256 0000"),
        (lambda one: one.update(more=1), "more"),
    ],
)
def test_a_tampered_file_is_refused(small: Benchmark, tmp_path: Path, change: Any, problem: str) -> None:
    path = tmp_path / "results.json"
    results.write_results(results.bench(["bbr"]), path)
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(ConfigError, match=problem):
        results.check_results(path)


def test_a_key_that_stands_twice_is_refused_and_claims_are_shown_as_such(
    small: Benchmark, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "results.json"
    results.write_results(results.bench(["bbr"]), path)
    text = path.read_text(encoding="utf-8").replace('"commit": "', '"commit": "claim-of-')
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


def test_recordings_are_another_column_that_does_not_count_in_the_score(
    small: Benchmark, traces: Path, tmp_path: Path
) -> None:
    with_it, without = tmp_path / "with.json", tmp_path / "without.json"
    results.write_results(results.bench(["bbr"], traces=traces), with_it)
    results.write_results(results.bench(["cubic"]), without)
    content = with_it.read_text(encoding="utf-8")
    assert str(tmp_path) not in content
    assert json.loads(content)["recorded_sha256"] == small.recorded.sha256
    (entry,) = results.read_results(with_it).entries
    assert entry.score.mean == entry.tasks["rtt_pairs"].mean
    assert len(entry.tasks["real_trace"].scores) == 2
    assert results.check_results(with_it, traces=traces).entries == (entry,)
    results.check_results(without, traces=traces)
    table = bench_table({path.name: results.read_results(path) for path in (with_it, without)})
    header, _, *rows = [[cell.strip() for cell in line.split("|")] for line in table.splitlines()]
    place = header.index("real_trace")
    assert {row[2]: bool(row[place]) for row in rows} == {"`bbr`": True, "`cubic`": False}
    with pytest.raises(ConfigError, match=r"scores on real_trace, expected --traces with the folder of mine.down"):
        results.check_results(with_it)


def test_the_best_of_a_library_on_each_draw_is_entered_without_a_rank(small: Benchmark, tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    results.write_results(results.bench(["bbr", "library-oracle:shipped/wan"]), path)
    entered = results.read_results(path)
    assert [entry.kind for entry in entered.entries] == ["fixed", "reference"]
    rows = bench_table({"results.json": entered}).splitlines()[2:]
    assert [[cell.strip() for cell in row.split("|")[1:3]] for row in rows] == [
        ["reference", "`library-oracle bbr-mix`"],
        ["1", "`bbr`"],
    ]


def test_another_recording_is_refused(small: Benchmark, traces: Path) -> None:
    (traces / "mine.down").write_text("5\n", encoding="ascii")
    with pytest.raises(ConfigError, match=r"mine.down: has the hash \w{64}, expected \w{64}, that of mine.down at"):
        results.bench(["bbr"], traces=traces)
    with pytest.raises(ConfigError, match="No such file"):
        results.bench(["bbr"], traces=traces / "none")


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
