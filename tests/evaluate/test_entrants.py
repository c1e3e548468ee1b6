# SPDX-License-Identifier: GPL-2.0-only
"""Entrants beside the presets: their actions reach the flows, and only the settings decide their records."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import bbrgym
from bbrgym.envs.scaling import TunableScaling
from bbrgym.evaluate import evaluation
from bbrgym.evaluate.agent_entrants import Learned
from bbrgym.evaluate.entrant_list import entrants_of
from bbrgym.evaluate.evaluation_settings import parse_settings
from bbrgym.evaluate.records import SUMMARY_SCHEMA, TUNABLE_PREFIX
from bbrgym.scenario.distribution import load_distribution, split_seeds

SHORT: dict[str, Any] = {
    "name": "short",
    "duration_s": 3.0,
    "link": {"rate_mbps": 10.0, "queue": {"size_bdp": 1.0}, "loss": {"kind": "bernoulli", "rate": 0.005}},
    "flows": [
        {"name": "near", "rtt_ms": 20.0},
        {"name": "far", "rtt_ms": 60.0, "start_s": 0.5, "stop_s": 2.5},
        {"name": "other", "cc": "cubic", "rtt_ms": 30.0, "role": "background"},
    ],
}
SMALL: dict[str, Any] = {
    "name": "small",
    "variables": {"rate_mbps": {"log_uniform": [2, 20]}},
    "duration_s": 1.5,
    "link": {"rate_mbps": {"value": "rate_mbps"}, "queue": {"size_packets": {"integer": [10, 40]}}},
    "flows": [{"name": "flow", "number": {"integer": [1, 3]}, "rtt_ms": {"uniform": [10, 50]}}],
}
TUNABLES = ["bbr_up_gain", "bbq_alpha_us"]
ACTION = np.array([0.3, -0.4], np.float32)


class Script:
    """Acts by a list, from its beginning in each run, whatever the observations; its last entry stays."""

    is_per_flow = False

    def __init__(self, *actions: Any) -> None:
        self.name = "script"
        self._actions = np.array(actions, np.float32)

    def make_policy(self, seeds: Any) -> "Script":
        return Script(*self._actions)

    def act(self, observations: Any, episode_starts: Any) -> Any:
        assert len(observations) == len(episode_starts)
        self._at = 0 if episode_starts.all() else min(self._at + 1, len(self._actions) - 1)
        return np.tile(self._actions[self._at], (len(episode_starts), 1))


def scripted(*actions: Any, digest: str = "1", **arguments: Any) -> Learned:
    asked = {"tunables": TUNABLES, "control_interval_s": 0.1, **arguments}
    return Learned("script", "bbq", "script bbq", asked, Script(*actions), digest)


def evaluate(agent: Any, scenario: Any = SHORT, variants: Any = (), **settings: Any) -> pl.DataFrame:
    return bbrgym.evaluate(scenario, variants, agent=agent, **{"world": "twin", **settings})


@pytest.mark.parametrize("world", ["twin", "ns3"])
def test_a_constant_action_is_the_preset_with_the_values_it_means(world: str, tmp_path: Path) -> None:
    values = TunableScaling("bbq", TUNABLES).to_values(ACTION)
    both = evaluate(scripted(ACTION), variants=["bbq"], tunables=values, world=world, output_dir=tmp_path)
    preset, tuned = (both.filter(pl.col("agent") == agent).drop("agent") for agent in ("fixed", "script"))
    assert preset.equals(tuned)
    assert not preset.equals(evaluate("fixed", variants=["bbq"], world=world).drop("agent"))  # and they matter
    series = pl.read_parquet(tmp_path / "timeseries.parquet")
    rows = [series.filter(pl.col("agent") == agent) for agent in ("fixed", "script")]
    columns = [name for name in series.columns if not name.startswith(TUNABLE_PREFIX) and name != "agent"]
    assert rows[0].select(columns).equals(rows[1].select(columns))


def test_the_time_series_tells_what_was_set_when_at_each_entrant_s_own_interval(tmp_path: Path) -> None:
    script = [(-1.0, 0.0), (1.0, 0.0), (0.0, 0.5)]
    evaluate(scripted(*script), variants=["bbr"], interval_s=0.25, output_dir=tmp_path)
    series = pl.read_parquet(tmp_path / "timeseries.parquet")
    near = series.filter(pl.col("flow") == "near")
    times_s = {agent: rows["time_s"].to_list() for (agent,), rows in near.group_by("agent")}
    assert times_s["script"] == pytest.approx(np.arange(1, 31) * 0.1)
    assert times_s["fixed"] == pytest.approx(np.arange(1, 13) * 0.25)
    assert set(series.filter(pl.col("agent") == "fixed")[TUNABLE_PREFIX + "bbr_up_gain"]) == {None}
    tuned = series.filter(pl.col("agent") == "script")
    for flow in ("near", "far"):
        rows = tuned.filter(pl.col("flow") == flow)
        expected = TunableScaling("bbq", TUNABLES).values(np.array([*script, *[script[-1]] * 27], np.float32))
        assert rows.select(TUNABLE_PREFIX + name for name in TUNABLES).to_numpy().tolist() == expected.tolist()
    assert tuned.filter(pl.col("flow") == "other")[TUNABLE_PREFIX + "bbr_up_gain"].is_nan().all()


def test_presets_come_first_and_runs_of_one_agent_are_numbered() -> None:
    summary = evaluate(["random", scripted(ACTION), scripted(-ACTION, digest="2")], variants=["bbr", "cubic"])
    assert summary.schema == SUMMARY_SCHEMA
    assert summary.select("agent", "variant").unique(maintain_order=True).rows() == [
        *(("fixed", "bbr"), ("fixed", "cubic"), ("random", "bbr-mix")),
        *(("script-1", "bbq"), ("script-2", "bbq")),
    ]
    assert summary["score"].n_unique() == 5
    named = evaluate({"mine": [scripted(ACTION)], "yours": scripted(-ACTION)})
    assert named["agent"].unique(maintain_order=True).to_list() == ["mine", "yours"]


def test_neither_jobs_nor_isolation_nor_resumption_change_a_byte(tmp_path: Path) -> None:
    questions: list[dict[str, Any]] = [
        {"jobs": 1},
        {"jobs": 4},
        {"jobs": 2, "world": {"twin": {"isolation": "process"}}, "resume": True},
    ]
    files = []
    for index, how in enumerate(questions):
        folder = tmp_path / str(index)
        if how.get("resume"):
            evaluate(["random"], seeds=[3], variants=["bbr"], output_dir=folder)
        evaluate(["random", scripted(ACTION)], seeds=[3, 4], variants=["bbr"], output_dir=folder, **how)
        files.append([(folder / name).read_bytes() for name in ("summary.parquet", "timeseries.parquet")])
    assert files[0] == files[1] == files[2]


class Forgetful:
    """Keeps its intermediate values in itself, as policies do, and waits between two of them."""

    name = "forgetful"
    is_per_flow = False

    def make_policy(self, seeds: Any) -> "Forgetful":
        return self

    def act(self, observations: Any, episode_starts: Any) -> Any:
        self.action = np.full((len(episode_starts), 2), np.clip(observations.mean(), -1, 1), np.float32)
        time.sleep(1e-4)  # others run now, if they can
        return self.action


def test_runs_side_by_side_do_not_disturb_each_other_s_policy() -> None:
    def summary(jobs: int) -> pl.DataFrame:
        arguments = {"tunables": TUNABLES, "control_interval_s": 0.05, "view": "pooled"}
        agent = Learned("forgetful", "bbq", "forgetful bbq", arguments, Forgetful(), "1")
        return evaluate(agent, seeds=[1, 2, 3, 4, 5, 6], jobs=jobs)

    assert summary(1).equals(summary(4))


def test_a_run_s_key_tells_agents_apart() -> None:
    scenario = bbrgym.load_scenario(SHORT)

    def key(agent: Any, **settings: Any) -> str:
        asked = parse_settings({"variants": [], **settings})
        return evaluation.plan(entrants_of(agent, asked), evaluation.draws_of(scenario, asked), asked)[0].key

    same = key(scripted(ACTION))
    assert same == key(scripted(ACTION), jobs=3)
    others = [scripted(ACTION, digest="2"), scripted(ACTION, control_interval_s=0.2), {"mine": scripted(ACTION)}]
    assert len({same, *map(key, others), key("random"), key("random", interval_s=0.2)}) == 6


# ---- distributions ------------------------------------------------------------------------------------


def test_all_run_the_same_draws_with_the_same_seeds(tmp_path: Path) -> None:
    summary = evaluate("random", SMALL, ["bbr", "cubic"], draws=5, series_draws=2, output_dir=tmp_path)
    seeds = list(split_seeds("test", 5))
    draws = [summary.filter(pl.col("variant") == variant) for variant in ("bbr", "cubic", "bbr-mix")]
    for rows in draws:
        runs = rows.select("scenario", "seed").unique(maintain_order=True).rows()
        assert runs == [(f"small-{seed}", seed) for seed in seeds]
        assert rows.select("scenario", "flow", "rtt_ms").equals(draws[0].select("scenario", "flow", "rtt_ms"))
    distribution = bbrgym.load_distribution(SMALL)
    assert draws[0]["rtt_ms"].to_list() == [flow.rtt_ms for seed in seeds for flow in distribution(seed).flows]
    series = pl.read_parquet(tmp_path / "timeseries.parquet")
    assert series["seed"].unique().sort().to_list() == seeds[:2]
    alone = bbrgym.evaluate(distribution(seeds[3]), ["bbr"], seeds=[seeds[3]], world="twin")
    assert alone.equals(draws[0].filter(pl.col("seed") == seeds[3]))


def test_draws_may_begin_anywhere_in_the_split(tmp_path: Path) -> None:
    all_draws = evaluate("random", SMALL, ["bbr"], draws=5)
    later = evaluate("random", SMALL, ["bbr"], draws=2, first_draw=3, output_dir=tmp_path)
    assert later["seed"].unique().to_list() == list(split_seeds("test", 2, 3))
    assert later.equals(all_draws.filter(pl.col("seed").is_in(later["seed"].to_list())))
    settings = parse_settings({"variants": ["bbr"], "draws": 2, "first_draw": 3})
    assert evaluation.title_of(load_distribution(SMALL), settings) == "small, 2 test draws from number 3 on"
    with pytest.raises(bbrgym.ConfigError, match="first_draw: is 0, was 3"):
        evaluate("random", SMALL, ["bbr"], draws=2, output_dir=tmp_path, resume=True)


def test_a_distribution_s_folder_goes_on_with_more_draws(tmp_path: Path) -> None:
    evaluate("random", SMALL, ["bbr"], draws=3, series_draws=1, output_dir=tmp_path)
    jobs = {path: path.stat().st_mtime_ns for path in (tmp_path / "jobs").iterdir()}
    more = evaluate("random", SMALL, ["bbr"], draws=5, series_draws=1, output_dir=tmp_path, resume=True)
    assert {path: path.stat().st_mtime_ns for path in jobs} == jobs
    assert more.equals(evaluate("random", SMALL, ["bbr"], draws=5))


def test_an_agent_needs_room_for_all_tuned_flows() -> None:
    with pytest.raises(bbrgym.ConfigError, match="'short' has up to 2 flows with role tuned"):
        evaluate(scripted(ACTION, view="each", max_tuned=1))
