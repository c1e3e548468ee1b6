# SPDX-License-Identifier: GPL-2.0-only
"""Distributions: what they draw, and what is wrong with one."""

import itertools
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import plain_envs
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st

import bbrgym
from bbrgym.errors import ScenarioError
from bbrgym.scenario.distribution import (
    MAX_MIX_DEPTH,
    MAX_PARTS,
    SPLITS,
    Distribution,
    is_distribution,
    load_distribution,
    split_seeds,
)
from bbrgym.scenario.families import families_of
from bbrgym.scenario.files import load_scenario

SHIPPED = bbrgym.distribution_names()


FLOW = {"name": "flow", "rtt_ms": 9}


def small(**changes):
    fields = {
        "name": "small",
        "variables": {"rate_mbps": {"log_uniform": [1, 100]}},
        "duration_s": 2.0,
        "link": {"rate_mbps": {"value": "rate_mbps"}, "queue": {"size_packets": {"integer": [10, 20]}}},
        "flows": [{"name": "flow", "number": {"integer": [1, 3]}, "rtt_ms": {"uniform": [10, 50]}}],
    }
    return {**fields, **changes}


# ---- laws --------------------------------------------------------------------------------------------------------


@given(st.sampled_from(SHIPPED), st.integers(0, 2**32 + 999_999))
def test_every_seed_draws_a_scenario_and_always_the_same(name, seed):
    distribution = load_distribution(name)
    scenario = distribution(seed)
    assert scenario.resolved_json() == load_distribution(name)(seed).resolved_json()
    tuned = [flow for flow in scenario.resolved().flows if flow.role == "tuned"]
    assert 1 <= len(tuned) <= distribution.max_tuned
    assert len(scenario.resolved().flows) <= distribution.max_flows
    assert scenario.name in {f"{part}-{seed}" for part in [one.name for one in distribution._parts] or [name]}


def test_ranges_are_drawn_from_evenly():
    scenarios = [Distribution(small())(seed) for seed in range(1500)]
    rtts_ms = [scenario.flows[0].rtt_ms for scenario in scenarios]
    assert scipy.stats.kstest(rtts_ms, "uniform", args=(10, 40)).pvalue > 1e-3
    rates = [math.log(scenario.link.rate_mbps) / math.log(100) for scenario in scenarios]
    assert scipy.stats.kstest(rates, "uniform").pvalue > 1e-3
    sizes = [scenario.link.queue.size_packets for scenario in scenarios]
    assert set(sizes) == set(range(10, 21))
    assert scipy.stats.chisquare([sizes.count(size) for size in range(10, 21)]).pvalue > 1e-3


def test_choices_are_drawn_by_their_weights_and_may_hold_ranges():
    loss = {"choice": [{"kind": "none"}, {"kind": "bernoulli", "rate": {"uniform": [0.1, 0.2]}}], "weights": [3, 1]}
    link = {"rate_mbps": 10.0, "queue": {"size_packets": 10}, "loss": loss}
    distribution = Distribution(small(link=link))
    losses = [distribution(seed).link.loss for seed in range(2000)]
    lossy = [loss.rate for loss in losses if loss.kind == "bernoulli"]
    assert 0.25 - 0.04 < len(lossy) / 2000 < 0.25 + 0.04  # four standard deviations
    assert all(0.1 <= rate <= 0.2 for rate in lossy)
    assert len(set(lossy)) > 300


def test_modifiers_apply_in_order():
    queue = {"size_bytes": {"value": 100.4, "times": ["rate", 2], "low": 50_000, "high": 60_000, "whole": True}}
    for rate, size in ((1.0, 50_000), (270.0, 54_216), (1000.0, 60_000)):
        fields = small(variables={"rate": {"value": rate}}, link={"rate_mbps": 10.0, "queue": queue})
        assert Distribution(fields)(1).link.queue.size_bytes == size


def test_a_range_changed_leaves_the_other_draws_as_they_were():
    one, other = Distribution(small()), Distribution(small(variables={"rate_mbps": {"log_uniform": [1, 50]}}))
    for seed in range(20):
        assert one(seed).link.rate_mbps != other(seed).link.rate_mbps
        assert one(seed).flows == other(seed).flows
        assert one(seed).link.queue == other(seed).link.queue


def test_flows_of_one_entry_are_drawn_each_for_itself():
    flows = next(s.flows for s in map(Distribution(small()), range(50)) if len(s.flows) == 3)
    assert [flow.name for flow in flows] == ["flow-0", "flow-1", "flow-2"]
    assert len({flow.rtt_ms for flow in flows}) == 3


def test_draws_are_recorded():
    """The draws of a seed are part of every result: they must never change."""
    scenario = load_distribution("wan_mix")(2**32)
    shown = (scenario.link.rate_mbps, scenario.link.queue.size_bytes, [flow.rtt_ms for flow in scenario.flows])
    assert shown == RECORDED


RECORDED = (89.3625, 8023463, [167.569, 150.396, 98.5771, 121.549])


def test_commons_has_the_paths_of_wan_mix_and_others_in_the_shares_it_says():
    draws = list(map(load_distribution("commons"), split_seeds("test", 1500)))
    for own, other in zip(draws[:50], map(load_distribution("wan_mix"), split_seeds("test", 50)), strict=True):
        times_s = [change.at_s / 3 for change in own.link.changes]
        assert times_s == pytest.approx([change.at_s for change in other.link.changes], rel=1e-4)
        same = {"changes": other.link.changes}
        assert (own.duration_s, own.link.model_copy(update=same)) == (90.0, other.link)
    kinds, tuned_of_ten = Counter(), Counter()
    for draw in draws:
        others = Counter(flow.cc for flow in draw.flows if flow.role == "fixed")
        tuned, loss_based = len(draw.flows) - others.total(), others["cubic"] + others["reno"]
        bbr, is_of_ten = others["bbr"] + others["bbr3"], len(draw.flows) == 10
        assert len(others) == bool(loss_based) + bool(bbr), "one control of each kind"
        assert is_of_ten or (tuned <= 6 and others.total() <= 3)
        tuned_of_ten[tuned] += is_of_ten
        kinds[loss_based > 0, bbr > 0, is_of_ten] += 1
    shares = {(0, 0, 0): 0.4, (1, 0, 0): 0.25, (0, 1, 0): 0.1, (0, 1, 1): 0.1, (1, 1, 0): 0.075, (1, 1, 1): 0.075}
    expected = [share * len(draws) for share in shares.values()]
    assert scipy.stats.chisquare([kinds[kind] for kind in shares], expected).pvalue > 1e-3
    assert scipy.stats.chisquare([tuned_of_ten.pop(tuned) for tuned in (1, 5, 9)]).pvalue > 1e-3
    assert not tuned_of_ten.total()


def test_seeds_in_a_row_run_each_cell_of_a_grid_once():
    variables = {"rate": {"grid": [1, 2, 5]}, "flows": {"grid": [1, 4]}, "other": {"uniform": [1, 2]}}
    link = {"rate_mbps": {"value": "rate"}, "queue": {"size_packets": 10}}
    flow = {"name": "flow", "number": {"value": "flows"}, "rtt_ms": {"value": "other", "times": 10}}
    grid = Distribution(small(variables=variables, link=link, flows=[flow]))
    assert grid.max_tuned == 4
    for first in (0, 11, 2**32):
        draws = [grid(seed) for seed in range(first, first + 6)]
        assert {(draw.link.rate_mbps, len(draw.flows)) for draw in draws} == set(itertools.product([1, 2, 5], [1, 4]))
        assert len({draw.flows[0].rtt_ms for draw in draws}) == 6
    assert grid.cell(2**32) == {"rate": draws[0].link.rate_mbps, "flows": len(draws[0].flows)}
    whole = load_distribution("harm_grid")
    assert len({tuple(whole.cell(seed).values()) for seed in split_seeds("test", 7500)}) == 7500


# ---- splits ------------------------------------------------------------------------------------------------------


def test_splits_are_disjoint_and_resets_draw_from_train():
    ranges = sorted(SPLITS.values(), key=lambda seeds: seeds.start)
    assert all(one.stop <= other.start for one, other in itertools.pairwise(ranges))
    env = plain_envs.make("bbrgym/Tune-v2", world="twin", scenario="rtt_pairs", variant="bbq")
    _, info = env.reset(seed=5)
    assert info["scenario"] == "rtt_pairs-5"
    for _ in range(5):
        _, info = env.reset()
        assert info["seed"] in SPLITS["train"]
        assert info["scenario"] == f"rtt_pairs-{info['seed']}"
    env.close()


def test_split_seeds():
    assert split_seeds("test", 3) == range(2**32, 2**32 + 3)
    assert split_seeds("train", 2, first=7) == range(7, 9)
    with pytest.raises(bbrgym.ConfigError, match="'tset'; did you mean test"):
        split_seeds("tset", 1)
    with pytest.raises(bbrgym.ConfigError, match="numbers 0 to 999999"):
        split_seeds("test", 2, first=999_999)


# ---- what is wrong ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "path", "problem"),
    [
        ({"variables": {"x": {"uniform": [2, 1]}}}, "variables.x.uniform", r"\[2, 1\], expected numbers in ascending"),
        ({"variables": {"x": {"log_uniform": [0, 1]}}}, "variables.x.log_uniform", "above 0"),
        ({"variables": {"x": {"uniform": [1, "y"]}}}, r"variables.x.uniform\[1\]", "'y', expected a number or a var"),
        ({"variables": {"x": {"uniform": 3}}}, "variables.x.uniform", "3, expected two numbers"),
        ({"variables": {"x": {"uniform": [0, 1], "tims": 2}}}, "variables.x", "tims"),
        ({"variables": {"x": {"choice": [1, 2], "weights": [1]}}}, "variables.x", "as many weights"),
        ({"variables": {"x": {"choice": [1, 2], "weights": [0, 0]}}}, "variables.x.weights", "one above"),
        ({"variables": {"x": {"choice": ["a"], "times": 2}}}, "variables.x", "'a', expected a number beside times"),
        ({"variables": {"x": {"grid": []}}}, "variables.x.grid", r"\[\], expected a list of values"),
        ({"duration_s": {"grid": [1, 2]}}, "duration_s", "expected a grid as a variable alone"),
        ({"variables": [1]}, "variables", "expected names"),
        ({"flows": 3}, "flows", "3, expected a list"),
        ({"flows": {"choice": [[FLOW], FLOW]}}, r"flows.choice\[1\]", "expected a list of flows, or a choice of"),
        ({"flows": {"choice": [[FLOW], [FLOW]], "weights": [1]}}, "flows", "expected a list of options, and as many"),
        ({"flows": {"choice": [[{**FLOW, "number": -1}]]}}, r"flows.choice\[0\]\[0\].number", "expected a whole"),
        ({"flows": [{**FLOW, "number": "many"}]}, r"flows\[0\].number", "'many', expected a whole"),
        ({"flows": [{**FLOW, "number": 10**9}]}, "flows", "are up to 1000000000, expected at most 1000"),
        ({"flows": [{**FLOW, "number": {"integer": [1, 2], "times": 10**9}}]}, r"flows\[0\].number", "is "),
        ({"flows": [{**FLOW, "count": "many"}]}, r"flows\[0\].count", "is 'many', expected a whole number"),
        ({"duration_s": {"uniform": [-2, -1]}}, "duration_s", "expected a number >="),
        ({"speed": 3}, "speed", "is not a field"),
    ],
)
def test_what_is_wrong_is_named(changes, path, problem):
    with pytest.raises(ScenarioError, match=f"{path}: .*{problem}"):
        Distribution(small(**changes))


def test_a_distribution_is_no_scenario_and_the_other_way_round():
    with pytest.raises(bbrgym.ScenarioError, match="variables: is given: a distribution"):
        bbrgym.load_scenario("wan_mix")
    with pytest.raises(bbrgym.ScenarioError, match="has no variables"):
        load_distribution("steady")
    with pytest.raises(bbrgym.ScenarioError, match="did you mean wan_mix"):
        load_distribution("wan_mxi")
    assert is_distribution("wan_mix")
    assert not is_distribution("steady")


# ---- mixes that name each other ------------------------------------------------------------------------


def mix_files(folder: Path, names: Callable[[int], list[int]]) -> Path:
    """Write ten files, each a mix of others; the first names the ninth at the end."""
    for number in range(10):
        parts = ", ".join(str(folder / f"{other}.yaml") for other in names(number)) or "steady"
        (folder / f"{number}.yaml").write_text(f"mix: [{parts}]\n")
    return folder / "0.yaml"


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (lambda number: [number], ", which is or holds this mix"),
        (lambda number: [(number + 1) % 10], ", which is or holds this mix"),
        (lambda number: [other for other in range(10) if other != number], "which is or holds this mix"),
        (lambda number: [number + 1] * 9 if number < 9 else [], f"has more than {MAX_PARTS} parts"),
    ],
)
def test_mixes_that_name_each_other_are_refused_soon(
    names: Callable[[int], list[int]], says: str, tmp_path: Path
) -> None:
    with pytest.raises(ScenarioError) as caught:
        load_distribution(mix_files(tmp_path, names))
    assert says in str(caught.value)


def test_mixes_nest_as_deep_as_a_person_writes_them(tmp_path: Path) -> None:
    chain = load_distribution(mix_files(tmp_path, lambda number: [number + 1] if number < 9 else []))
    assert chain(1) == load_scenario("steady")
    deep: dict[str, Any] = {"mix": ["steady"]}
    for _ in range(MAX_MIX_DEPTH):
        deep = {"mix": [deep]}
    with pytest.raises(ScenarioError, match=f"nested deeper than {MAX_MIX_DEPTH}"):
        load_distribution(deep)


def test_a_part_that_two_mixes_name_counts_in_both(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text("mix: [steady, lossy]\n")
    (tmp_path / "two.yaml").write_text(f"mix: [{tmp_path / 'one.yaml'}, {tmp_path / 'one.yaml'}]\n")
    both, one = load_distribution(tmp_path / "two.yaml"), load_distribution(tmp_path / "one.yaml")
    assert {both(seed).name for seed in range(40)} == {one(seed).name for seed in range(40)}


def test_a_draw_of_leo_has_a_gap_a_step_and_losses_every_15_s() -> None:
    leo = bbrgym.load_distribution("leo")
    for seed in range(30):
        draw = leo(seed)
        changes = draw.link.changes
        gaps, ends, calms = changes[::3], changes[1::3], changes[2::3]
        assert [(gap.at_s, gap.rate_mbps) for gap in gaps] == [(12.0, 0.0), (27.0, 0.0), (42.0, 0.0)]
        assert all(0.02 <= end.at_s - gap.at_s <= 0.1 for gap, end in zip(gaps, ends, strict=True))
        delays_ms = [draw.link.delay_ms, *(end.delay_ms or 0.0 for end in ends)]
        steps_ms = [abs(after - before) for before, after in itertools.pairwise(delays_ms)]
        assert all(5.0 <= step_ms <= 50.0 for step_ms in steps_ms)
        assert all(end.loss_rate and end.rate_mbps for end in ends)
        assert [calm.loss_rate for calm in calms] == [0.0] * 3
        assert "leo" in families_of(draw)


def test_leo_mix_has_leo_in_one_draw_of_ten() -> None:
    mix, wan = bbrgym.load_distribution("leo_mix"), bbrgym.load_distribution("wan_mix")
    draws = [mix(seed) for seed in range(300)]
    assert 15 < sum("leo" in families_of(draw) for draw in draws) < 48
    assert {draw.duration_s for draw in draws} == {30.0, 45.0}
    assert all(draw.duration_s == wan(0).duration_s for draw in draws if "leo" not in families_of(draw))
