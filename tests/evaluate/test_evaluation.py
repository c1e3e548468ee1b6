# SPDX-License-Identifier: GPL-2.0-only
"""bbrgym.evaluate on the real world: its records, and that nothing but the question decides them."""

import dataclasses
import inspect
import logging
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from omegaconf import OmegaConf

import bbrgym
from bbrgym import worlds
from bbrgym.cli.composition import compose_config
from bbrgym.evaluate import evaluation, runner
from bbrgym.evaluate.check_results import CHECKS_SCHEMA, verdicts_of
from bbrgym.evaluate.entrants import preset
from bbrgym.evaluate.evaluation import prepare_evaluation
from bbrgym.evaluate.evaluation_settings import Evaluation, parse_settings
from bbrgym.evaluate.records import SUMMARY_SCHEMA, TIMING_SCHEMA
from bbrgym.report.output_settings import OutputSettings, taken_output_settings
from bbrgym.report.report import write_report
from bbrgym.report.tables import checks_table, plain_text
from bbrgym.worlds import LateRunError, WorldError, WorldSettings, registered_worlds

COLUMNS = [
    *("scenario", "world", "variant", "agent", "seed", "flow", "cc", "role", "rtt_ms", "start_s", "stop_s"),
    *("goodput_mbps", "throughput_mbps", "share", "retransmit_rate", "loss_rate", "rtt_mean_ms", "rtt_p95_ms"),
    *("queue_delay_mean_ms", "utilisation", "jain"),
    *("score", "own_score", "share_of_fair", "harm", "harm_rtt_p95", "harm_loss"),
    *("in_order_arrival_mbps", "out_of_order_rate", "busy_share", "rwnd_limited_share", "sndbuf_limited_share"),
    *("completed", "completion_s", "slowdown", "frame_delay_p50_ms", "frame_delay_p99_ms", "late_frame_share"),
    *("late_p50_us", "late_p99_us", "late_p999_us", "late_share", "late_repeats"),
]

SHORT: dict[str, Any] = {
    "name": "short",
    "duration_s": 3.0,
    "warmup_s": 1.0,
    "link": {"rate_mbps": 10.0, "queue": {"size_bdp": 1.0}, "loss": {"kind": "bernoulli", "rate": 0.005}},
    "flows": [
        {"name": "tuned", "rtt_ms": 20.0, "role": "tuned"},
        {"name": "other", "cc": "cubic", "rtt_ms": 30.0, "role": "background", "stop_s": 2.5},
    ],
}


FLOW = {"name": "a", "role": "fixed", "rtt_ms": 20.0}


def test_the_summary_has_the_agreed_columns_and_rows() -> None:
    summary = bbrgym.evaluate(SHORT, ["bbr", "ns3-bbr"], seeds=[1, 2])
    assert summary.columns == COLUMNS
    assert summary.schema == SUMMARY_SCHEMA
    assert summary.select("variant", "seed", "flow", "cc", "role").rows() == [
        (variant, seed, *flow)
        for variant in ("bbr", "ns3-bbr")
        for seed in (1, 2)
        for flow in (("tuned", variant, "tuned"), ("other", "cubic", "background"))
    ]
    assert set(summary["scenario"]) == {"short"}
    assert set(summary["world"]) == {"ns3"}
    assert set(summary["agent"]) == {"fixed"}
    tuned_flow, other = summary.rows(named=True)[:2]
    assert (tuned_flow["start_s"], tuned_flow["stop_s"], other["stop_s"]) == (1.0, 3.0, 2.5)
    assert 0.0 < tuned_flow["goodput_mbps"] < tuned_flow["throughput_mbps"] * 1.01 < 10.1
    assert tuned_flow["rtt_ms"] <= tuned_flow["rtt_mean_ms"] <= tuned_flow["rtt_p95_ms"] * 1.01
    assert 0.5 < tuned_flow["utilisation"] <= 1.0
    assert 0.5 <= tuned_flow["jain"] <= 1.0
    assert tuned_flow["loss_rate"] > 0
    assert tuned_flow["score"] == other["score"]  # the run's
    assert tuned_flow["own_score"] == tuned_flow["score"]  # a background flow counts in neither
    assert summary.filter(pl.col("role") == "tuned")["harm"].is_nan().all()
    assert other["share_of_fair"] > 0


TWO_KINDS: dict[str, Any] = {
    **SHORT,
    "name": "two_kinds",
    "duration_s": 12.0,
    "flows": [
        {"name": "flow", "rtt_ms": 20.0},
        {"name": "reno", "cc": "reno", "rtt_ms": 20.0},
        {"name": "call", "cc": "cubic", "rtt_ms": 20.0, "app": {"kind": "cbr", "rate_mbps": 1.0}},
        {"name": "late", "cc": "reno", "rtt_ms": 20.0, "start_s": 6.0},
    ],
}


def test_harm_is_against_each_flows_own_control_in_place_of_the_tuned_flows(tmp_path: Path) -> None:
    """Two kinds of flows: one limited, one that starts late."""
    summary = bbrgym.evaluate(TWO_KINDS, ["bbr", "cubic"], world="twin", output_dir=tmp_path)
    references = pl.read_parquet(tmp_path / "references.parquet")
    assert references["variant"].unique(maintain_order=True).to_list() == ["cubic", "bbr", "reno"]
    runs = {run.name.rsplit(".", 2)[0] for run in (tmp_path / "jobs").iterdir()}
    assert len(runs) == 3, "a reference that is an entrant runs once"
    of_reno = bbrgym.evaluate(TWO_KINDS, ["reno"], world="twin")
    bbr, own = summary.filter(pl.col("variant") == "bbr"), {"reno": of_reno, "late": of_reno, "call": summary[4:]}
    for flow, reference in own.items():
        lost, kept = (one.row(by_predicate=pl.col("flow") == flow, named=True) for one in (bbr, reference))
        expected = (1 - lost["goodput_mbps"] / kept["goodput_mbps"], lost["loss_rate"] - kept["loss_rate"])
        assert (lost["harm"], lost["harm_loss"]) == pytest.approx(tuple(max(0.0, one) for one in expected))
        assert lost["harm_rtt_p95"] == pytest.approx(max(0.0, 1 - kept["rtt_p95_ms"] / lost["rtt_p95_ms"]))
    assert bbr["harm"].to_list()[1] > 0.3
    assert summary.row(6, named=True)["harm"] == 0.0, "CUBIC's own in place of the tuned flow"
    shares = dict(bbr.select("flow", pl.col("goodput_mbps") / pl.col("share_of_fair")).rows())
    payload_mbps = 10.0 * 1448 / 1488 - 1.0  # that the call leaves, to two flows for 5 s and to three for 6 s
    assert shares["reno"] == pytest.approx(payload_mbps * (5 / 2 + 6 / 3) / 11)
    assert shares["late"] == pytest.approx(payload_mbps / 3)
    assert bbr.row(2, named=True)["share_of_fair"] <= 1.0


def test_scores_and_harm_of_both_worlds_are_the_same() -> None:
    summary = bbrgym.evaluate(TWO_KINDS, ["bbr"], world=["ns3", "twin"]).drop("world")
    assert summary[:4].equals(summary[4:])


def test_the_references_decide_nothing_else(tmp_path: Path) -> None:
    alone = {**TWO_KINDS, "flows": TWO_KINDS["flows"][:1]}
    bbrgym.evaluate(alone, ["bbr"], world="twin", output_dir=tmp_path)
    assert not (tmp_path / "references.parquet").exists()
    both = bbrgym.evaluate(TWO_KINDS, ["bbr", "reno"], world="twin")
    assert both.filter(pl.col("variant") == "bbr").equals(bbrgym.evaluate(TWO_KINDS, ["bbr"], world="twin"))


def test_the_time_series_agrees_with_the_summary(tmp_path: Path) -> None:
    summary = bbrgym.evaluate(SHORT, ["bbr"], seeds=[1], output_dir=tmp_path / "run", interval_s=0.25)
    series = pl.read_parquet(tmp_path / "run" / "timeseries.parquet")
    assert series.columns[:7] == ["scenario", "world", "variant", "agent", "seed", "time_s", "flow"]
    assert series.filter(pl.col("flow") == "tuned")["time_s"].to_list() == pytest.approx(np.arange(1, 13) * 0.25)
    measured = series.filter((pl.col("flow") == "tuned") & (pl.col("time_s") > 1.0))
    assert measured["goodput_mbps"].mean() == pytest.approx(summary["goodput_mbps"][0])
    assert measured["link_utilisation"].mean() == pytest.approx(summary["utilisation"][0], rel=1e-3)


@pytest.mark.usefixtures("undrawn")
def test_the_run_folder_is_complete(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "run"
    results = evaluation.run_evaluation(SHORT, {"variants": ["bbr", "bbq"]}, output_dir=folder)
    write_report(folder, results)
    summary = results.summary
    assert pl.read_parquet(folder / "summary.parquet").equals(summary)
    assert "short on ns3, one seed" in (folder / "summary.txt").read_text()
    config = OmegaConf.to_container(OmegaConf.load(folder / "config.yaml"))
    assert isinstance(config, dict)
    scenario = config.pop("scenario")
    assert bbrgym.load_scenario(scenario).resolved_json() == bbrgym.load_scenario(SHORT).resolved_json()
    assert bbrgym.evaluate(scenario, **config).equals(summary)  # the config alone repeats the run
    assert list(folder.rglob("*.partial")) == []


def test_finished_runs_are_not_run_again(tmp_path: Path) -> None:
    """Their wall times stay, too."""
    began_s = time.perf_counter()
    bbrgym.evaluate(SHORT, ["bbr"], output_dir=tmp_path, jobs=1)
    took_s = time.perf_counter() - began_s
    timing = pl.read_csv(tmp_path / "timing.csv", schema=TIMING_SCHEMA)
    assert timing.drop("wall_s").rows() == [("short", "ns3", "bbr", "fixed", 1, 3.0)]
    assert 0 < timing["wall_s"].item() < took_s
    jobs = {path: path.stat().st_mtime_ns for path in (tmp_path / "jobs").iterdir()}
    summary = bbrgym.evaluate(SHORT, ["bbr", "bbq"], output_dir=tmp_path, resume=True)
    assert {path: path.stat().st_mtime_ns for path in jobs} == jobs
    assert len(list((tmp_path / "jobs").iterdir())) == 3 / 2 * len(jobs)  # the first has the reference, CUBIC, too
    of_both = pl.read_csv(tmp_path / "timing.csv", schema=TIMING_SCHEMA)
    assert of_both["variant"].to_list() == ["bbr", "bbq"]
    assert of_both.head(1).equals(timing)
    assert summary.equals(bbrgym.evaluate(SHORT, ["bbr", "bbq"]))
    next(path for path in jobs if path.name.startswith("short-ns3-bbr")).write_text("not Parquet")
    with pytest.raises(bbrgym.ConfigError, match="output_dir: cannot read run short-ns3-bbr-1-"):
        bbrgym.evaluate(SHORT, ["bbr", "bbq"], output_dir=tmp_path, resume=True)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"scenario": {**SHORT, "duration_s": 4.0}}, r"scenario.duration_s: is 4.0, was 3.0 in"),
        ({"variants": ["bbq"]}, r"variants: is \['bbq'\], was \['bbr'\] in"),
        ({"world": "twin"}, r"world: is \['twin'\], was \['ns3'\] in"),
        ({"tunables": {"bbr_up_gain": 1.1}}, r"tunables.bbr_up_gain: is 1.1, was not given in"),
        ({"interval_s": 0.2}, r"interval_s: is 0.2, was 0.1 in"),
    ],
)
def test_another_question_cannot_go_on_in_a_folder(finished: Path, changes: dict[str, Any], says: str) -> None:
    before = {path: path.read_bytes() for path in finished.rglob("*") if path.is_file()}
    with pytest.raises(bbrgym.ConfigError, match=says) as caught:
        bbrgym.evaluate(
            **{"scenario": SHORT, "variants": ["bbr"], "seeds": [1, 2], "output_dir": finished, "resume": True}
            | changes
        )
    assert f"in the evaluation that {str(finished)!r} holds; expected the same, or a new output_dir" in str(
        caught.value
    )
    assert {path: path.read_bytes() for path in finished.rglob("*") if path.is_file()} == before


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("finished")
    bbrgym.evaluate(SHORT, ["bbr"], seeds=[1, 2], output_dir=folder)
    return folder


def first_key(scenario: bbrgym.Scenario, settings: dict[str, Any]) -> str:
    asked = parse_settings(settings)
    draws = evaluation.draws_of(scenario, asked)
    return evaluation.plan([preset(name, asked.tunables) for name in asked.variants], draws, asked)[0].key


def test_what_a_run_depends_on_is_in_its_key() -> None:
    scenario = bbrgym.load_scenario(SHORT)

    def key(scenario: bbrgym.Scenario = scenario, **settings: Any) -> str:
        return first_key(scenario, {"variants": ["bbr"], **settings})

    others = [
        key(bbrgym.load_scenario({**SHORT, "duration_s": 4.0})),
        key(variants=["bbq"]),
        key(seeds=[2]),
        key(interval_s=0.2),
        key(score_delta=1.0),
        key(tunables={"bbr_up_gain": 1.1}),
    ]
    assert len({key(), *others}) == 1 + len(others)
    assert key() == key(jobs=7) == key(world={"ns3": {"isolation": "none"}})
    assert key() == key(variants=["bbr", "bbq"], tunables={"bbq_alpha_us": 1000.0})  # which bbr does not have


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"variants": ["bbr1"]}, r"variants\[0\]: is 'bbr1'; did you mean bbr"),
        ({"variants": []}, "variants: is .*, expected at least 1"),
        ({"variants": ["bbr", "bbr"]}, "variants: is .*, expected each once"),
        ({"seeds": [-1]}, r"seeds\[0\]: is -1, expected a number >= 0"),
        ({"world": "ns4"}, "world: is 'ns4'; did you mean ns3"),
        ({"world": ["ns3", "ns3"]}, "world: is .*, expected each once"),
        ({"world": []}, "world: is {}, expected at least 1"),
        ({"world": [3]}, r"world: is \[3\], expected a world's name or a list of them"),
        ({"world": None}, "world: is None, expected a mapping"),
        ({"world": {"ns3": {"timeout_s": 0}}}, "world.ns3.timeout_s: is 0, expected a number > 0"),
        ({"world": {"ns3": {"timeout": 3}}}, "world.ns3.timeout: is not a field; did you mean timeout_s"),
        ({"world": {"ns3": {"isolation": "vm"}}}, "world.ns3.isolation: is 'vm', expected one of 'process' or 'none'"),
        ({"tunables": {"bbq_alpha": 1}}, "tunables.bbq_alpha: is not a tunable; did you mean bbq_alpha_us"),
        ({"tunables": {"bbq_alpha_us": 1000}}, "none of the variants has it; bbq, bbr-mix, bbr3-mix have"),
        ({"tunables": {"bbr_up_gain": 9}}, r"flows\[0\].tunables.bbr_up_gain: is 9, expected 1.02 to 2"),
        ({"interval_s": 0}, "interval_s: is 0, expected a number >= 0.001"),
        ({"score_delta": float("nan")}, "score_delta: is nan"),
        ({"jobs": 0}, "jobs: is 0, expected a number >= 1"),
        ({"jobs": 2, "world": {"ns3": {"isolation": "none"}}}, "jobs: is 2, expected 1 with world.ns3.isolation none"),
        ({"sedes": [1]}, "sedes: is not a field; did you mean seeds"),
        ({"variants": ["bbr", "ns3-bbr"], "world": "twin"}, r"variants\[1\]: is 'ns3-bbr', which world twin does not"),
        ({"world": {"twin": {"options": {"speed": 2}}}}, "'speed' is not an option of world 'twin'"),
        (
            {"scenario": {**SHORT, "flows": [{**FLOW, "cc": "ns3-cubic"}]}, "world": ["ns3", "twin"]},
            r"flows\[0\]\.cc: is 'ns3-cubic', which world 'twin' does not have",
        ),
        (
            {"scenario": {**SHORT, "flows": [FLOW]}, "agent": "random", "variants": []},
            "no flow with role tuned: nothing would be",
        ),
        ({"agent": "randm"}, "agent: is 'randm'; did you mean random"),
        ({"agent": 3}, "agent: is 3; allowed are fixed, oracle, random"),
        ({"agent": [{"random": 1}]}, "agent: is {'random': 1}; did you mean random"),
        ({"agent": {"a b": "random"}}, "agent: 'a b' is not a name of an agent"),
        ({"agent": {"fixed": "random"}}, "agent: 'fixed' is not a name of an agent"),
        ({"agent": "fixed", "variants": []}, r"variants: is \[\], expected at least 1, or another agent than 'fixed'"),
        ({"agent": "random", "variant": "bbr-mx"}, "variant: is 'bbr-mx'; did you mean bbr-mix"),
        ({"agent": "random", "variant": "cubic"}, "variant 'cubic' has no tunables to set"),
        ({"scenario": "wan_mix", "draws": 0}, "draws: is 0, expected a number >= 1"),
        ({"scenario": "wan_mix", "draws": 2_000_000}, "draws: 2000000 from number 0 on, test has"),
        ({"scenario": "wan_mix", "first_draw": -1}, "first_draw: is -1, expected a number >= 0"),
        ({"scenario": "wan_mix", "first_draw": 999_999}, "draws: 100 from number 999999 on, test has"),
        ({"draws": 2}, "draws: is 2, but .* is a scenario without draws, expected seeds"),
        ({"first_draw": 2}, "first_draw: is 2, but .* is a scenario without draws, expected 0"),
        ({"scenario": "wan_mix", "split": "tset"}, "split: is 'tset', expected one of 'train'"),
        ({"scenario": "wan_mix", "seeds": [7]}, "but wan_mix is a distribution: its draws have seeds"),
    ],
)
def test_a_wrong_question_is_one_clear_error_before_anything_is_made(
    settings: dict[str, Any], says: str, tmp_path: Path
) -> None:
    with pytest.raises(bbrgym.ConfigError, match=says) as caught:
        bbrgym.evaluate(**{"scenario": SHORT, "variants": ["bbr"], **settings}, output_dir=tmp_path / "run")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_several_variants_need_a_tuned_flow() -> None:
    scenario = {**SHORT, "flows": [FLOW]}
    with pytest.raises(bbrgym.ConfigError, match="no flow of role tuned"):
        bbrgym.evaluate(scenario, ["bbr", "bbq"])
    assert len(bbrgym.evaluate(scenario, ["bbr"])) == 1


def test_progress_comes_to_its_end() -> None:
    seen: list[evaluation.EvaluationProgress] = []
    bbrgym.evaluate(SHORT, ["bbr", "cubic"], on_progress=seen.append)
    assert seen[-1] == evaluation.EvaluationProgress(6.0, 6.0, 2, 2)


def test_the_command_and_the_function_have_the_same_defaults() -> None:
    config = OmegaConf.to_container(OmegaConf.load(Path(str(bbrgym.__path__[0])) / "conf" / "evaluate.yaml"))
    assert isinstance(config, dict)
    parameters = inspect.signature(bbrgym.evaluate).parameters
    fields = Evaluation.model_fields
    assert config["agent"] == parameters["agent"].default
    assert {"scenario": parameters["scenario"].default} in config["defaults"]
    assert list(parse_settings({"variants": ["bbr"]}).world) == ["ns3"]
    assert {"world": "ns3"} in config["defaults"]
    assert tuple(config["variants"]) == parameters["variants"].default
    assert set(config) == {"defaults", "agent", "output_dir", "resume", "figures", "records", *fields} - {"world"}
    assert taken_output_settings(dict(config)) == OutputSettings()
    for name in fields.keys() - {"world", "variants"}:
        default = fields[name].get_default(call_default_factory=True)
        assert config[name] == (list(default) if isinstance(default, tuple) else default)


@pytest.mark.parametrize("world", sorted(registered_worlds()))
def test_a_world_s_choice_is_its_registration(world: str) -> None:
    settings = compose_config("evaluate", [f"world={world}"])["world"][world]
    assert settings["isolation"] is None  # the world's own
    assert settings["timeout_s"] == WorldSettings().timeout_s
    assert set(settings.get("options", {})) == set(registered_worlds()[world].options)
    assert not (Path(str(bbrgym.__path__[0])) / "conf" / "world").exists()


def test_a_new_world_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = dataclasses.replace(registered_worlds()["twin"], name="other", options=("speed",))
    monkeypatch.setitem(worlds.specs._SPECS, "other", spec)
    composed = compose_config("evaluate", ["world=[twin,other]", "world.other.options.speed=2"])["world"]
    assert composed["other"] == {"isolation": None, "timeout_s": 60.0, "options": {"speed": 2}}
    assert composed["twin"] == {"isolation": None, "timeout_s": 60.0, "options": {"policy": None}}


# ---- several worlds -----------------------------------------------------------------------------------


def test_one_world_runs_alone_in_its_process_and_the_other_need_not(monkeypatch: pytest.MonkeyPatch) -> None:
    many = dataclasses.replace(registered_worlds()["ns3"], isolation="none", is_alone=False)
    monkeypatch.setitem(worlds.specs._SPECS, "many", many)
    assert parse_settings({"variants": ["bbr"], "world": ["ns3", "many"], "jobs": 3}).jobs_at_once() == 3
    alone = {"variants": ["bbr"], "world": {"many": {}, "ns3": {"isolation": "none"}}}
    assert parse_settings(alone).jobs_at_once() == 1


# ---- checks -------------------------------------------------------------------------------------------


CHECKED: dict[str, Any] = {
    "name": "checked",
    "duration_s": 3.0,
    "warmup_s": 1.0,
    "link": {"rate_mbps": 10.0, "queue": {"size_bdp": 1.0}},
    "flows": [{"name": "flow", "count": 2, "rtt_ms": 20.0}],
    "checks": [
        {"metric": "utilisation", "at_least": 0.5},
        {"metric": "goodput_mbps", "flow": "flow", "across": "sum", "at_least": 0.1, "at_most": 1.0},
    ],
}


@pytest.mark.usefixtures("undrawn")
def test_an_evaluation_reports_its_checks(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    settings = {"variants": ["bbr", "cubic"], "seeds": [1, 2], "world": "twin"}
    results = evaluation.run_evaluation(CHECKED, settings, output_dir=folder)
    write_report(folder, results)
    checks = pl.read_parquet(folder / "checks.parquet")
    assert checks.equals(results.checks)
    assert checks.schema == CHECKS_SCHEMA
    assert checks.select("variant", "seed", "check", "passed").rows() == [
        (variant, seed, *row)
        for variant in ("bbr", "cubic")
        for seed in (1, 2)
        for row in (("utilisation", True), ("goodput_mbps of flow, sum", False))
    ]
    of_a_run = results.summary.filter(variant="bbr", seed=1)
    assert of_a_run["checks_passed"].to_list() == [0.5, 0.5]
    assert checks["measured"][0] == of_a_run["utilisation"][0]
    assert checks["measured"][1] == pytest.approx(of_a_run["goodput_mbps"].sum())
    for text in ((folder / "summary.txt").read_text(), (folder / "report.html").read_text()):
        assert "checked: 2 of 4 checks passed (by the mean over seeds)" in text
        assert "0 of 2" in text


def test_a_scenario_without_checks_has_neither_file_nor_column(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    summary = bbrgym.evaluate({**CHECKED, "checks": []}, "bbr", world="twin", output_dir=folder)
    assert "checks_passed" not in summary.columns
    assert not (folder / "checks.parquet").exists()


def checks(rows: list[dict[str, Any]]) -> pl.DataFrame:
    blank = {"scenario": "s", "world": "w", "variant": "bbr", "agent": "fixed", "check": "share"}
    return pl.DataFrame([{**blank, **row} for row in rows], schema=CHECKS_SCHEMA)


def test_the_mean_over_seeds_decides_and_two_bounds_on_one_measurement_stay_apart() -> None:
    rows = [
        {"seed": 1, "at_least": 0.4, "measured": 0.3, "passed": False},
        {"seed": 2, "at_least": 0.4, "measured": 0.6, "passed": True},
        {"seed": 1, "at_most": 0.4, "measured": 0.3, "passed": True},
        {"seed": 2, "at_most": 0.4, "measured": float("nan"), "passed": False},
    ]
    least, most = verdicts_of(checks(rows))
    assert least.passed
    assert (least.passing, least.runs, least.measured.value) == (1, 2, pytest.approx(0.45))
    assert not most.passed
    assert [least.bounds, most.bounds] == ["at least 0.4", "at most 0.4"]
    assert "1 of 2" in plain_text([checks_table(checks(rows[:2]), "s")])


# ---- late runs ----------------------------------------------------------------------------------------


LATE = LateRunError("short", 1, 1.0, "packets were late")


def outcomes(errors: list[WorldError], monkeypatch: pytest.MonkeyPatch) -> tuple[list[runner.EvaluationJob], list[Any]]:
    """Return a job, and the list of what its runs raise or return, an error each and then a record; they are taken."""
    left: list[Any] = [*errors, "record"]

    def run_job(*arguments: Any) -> str:
        outcome = left.pop(0)
        if isinstance(outcome, WorldError):
            raise outcome
        return f"{outcome} after {arguments[-1]}"

    monkeypatch.setattr(runner, "run_job", run_job)
    return prepare_evaluation(SHORT, {"variants": ["bbr"], "world": "linux"}).jobs, left


def test_a_late_run_is_repeated(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    jobs, left = outcomes([LATE, LATE], monkeypatch)
    with caplog.at_level(logging.WARNING):
        assert runner.run_each(jobs, 1) == ["record after 2"]
    assert [record.message for record in caplog.records] == [f"{jobs[0].key} is repeated: packets were late"] * 2
    assert not left


@pytest.mark.parametrize(
    ("errors", "says"),
    [
        ([LATE, LATE, LATE], "packets were late"),
        ([LATE, WorldError("short", 1, 0.5, "the worker was killed by SIGKILL")], "SIGKILL"),
    ],
)
def test_a_third_late_run_and_a_broken_run_are_errors(
    errors: list[WorldError], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs, left = outcomes(errors, monkeypatch)
    with pytest.raises(WorldError, match=says):
        runner.run_all(dict(enumerate(jobs)), 1)
    assert left == ["record"]


# ---- what is loaded -----------------------------------------------------------------------------------


LOADED = """
import sys
from bbrgym.cli.main import main
short = ["scenario=steady", "scenario.duration_s=1", "scenario.warmup_s=0"]
code = main(["evaluate", *short, "world=twin", "variants=[bbr]", "seeds=[1]", f"output_dir={sys.argv[1]}"])
loaded = sorted(name for name in sys.modules if name.startswith(("bbrgym.agents", "bbrgym.envs")))
sys.stderr.write(f"{code} {loaded}")
"""


@pytest.mark.usefixtures("undrawn")
def test_an_evaluation_of_a_preset_loads_no_agent(tmp_path: Path) -> None:
    command = [sys.executable, "-c", LOADED, str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.stderr.endswith("0 ['bbrgym.envs']"), done.stderr  # which registers the environments, and nothing else
