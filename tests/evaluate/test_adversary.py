# SPDX-License-Identifier: GPL-2.0-only
"""The search for bad networks: what it finds, keeps and repeats."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import bbrgym
from bbrgym.cli.main import main
from bbrgym.evaluate.adversary.adversary_settings import Steps, parse_adversary
from bbrgym.evaluate.adversary.search import AdversaryFolder, FoundNetwork, search_adversary
from bbrgym.evaluate.adversary.search_space import SearchSpace
from bbrgym.evaluate.records import per_run
from bbrgym.scenario.distribution import is_distribution, load_distribution
from bbrgym.scenario.families import described
from bbrgym.scenario.files import load_scenario, read_scenario

DISTRIBUTION: dict[str, Any] = {
    "name": "small",
    "variables": {"rate_mbps": {"log_uniform": [2, 10]}},
    "duration_s": 6.0,
    "link": {
        "rate_mbps": {"value": "rate_mbps"},
        "queue": {"size_packets": {"integer": [5, 200]}},
        "loss": {"choice": [{"kind": "none"}, {"kind": "bernoulli", "rate": {"uniform": [0.001, 0.05]}}]},
    },
    "flows": [{"name": "flow", "number": {"integer": [1, 3]}, "role": "tuned", "rtt_ms": {"uniform": [10, 80]}}],
}
SMALL: dict[str, Any] = {
    "variant": "bbq",
    "budget": 24,
    "batch": 8,
    "seeds": 1,
    "check_seeds": 2,
    "keep": 2,
    "replay": None,
    "threads": 1,
}


Whole = tuple[Path, list[FoundNetwork]]


def searched(path: Path, *, resume: bool = False, on_progress: Any = None, **changed: Any) -> list[FoundNetwork]:
    folder = AdversaryFolder(path)
    with folder.opened(resume=resume):
        return search_adversary(
            load_distribution(DISTRIBUTION), parse_adversary({**SMALL, **changed}), folder, on_progress
        )


def files(path: Path) -> dict[str, bytes]:
    return {str(one.relative_to(path)): one.read_bytes() for one in sorted(path.rglob("*")) if one.is_file()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    path = tmp_path_factory.mktemp("search") / "run"
    return path, searched(path)


def test_it_keeps_networks_on_which_the_entrant_loses_on_other_seeds_too(whole: Whole) -> None:
    path, cases = whole
    assert 0 < len(cases) <= 2
    losses = [case.losses.mean() for case in cases]
    assert losses == sorted(losses, reverse=True)
    assert min(losses) > 0
    table = pl.read_csv(path / "cases.csv")
    assert table["description"][0].startswith(described(cases[0].network))
    assert table["network"].to_list() == ["against-bbq-1", "against-bbq-2"][: len(cases)]
    scenario = load_scenario(path / "cases" / "against-bbq-1.yaml")
    assert scenario.resolved_json() == cases[0].network.resolved_json()
    scores = {}
    for variant in ("bbq", "bbr"):
        means = []
        for seed in (1001, 1002):
            with bbrgym.make_world("twin", bbrgym.scenario.files.with_variant(scenario, variant), seed=seed) as world:
                world.advance(scenario.duration_s)
                rows, _ = world.summary()
                means.append(bbrgym.worlds.score.score_of_run(scenario, world.flow_summary_fields, rows))
        scores[variant] = np.array(means)
    np.testing.assert_array_equal(scores["bbr"] - scores["bbq"], cases[0].losses)


GRID: dict[str, Any] = {
    "name": "grid",
    "variables": {"size_bdp": {"grid": [0.5, 1, 2, 4]}, "rate_mbps": {"grid": [4, 8]}, "others": {"grid": [1, 2]}},
    "duration_s": 20.0,
    "link": {"rate_mbps": {"value": "rate_mbps"}, "queue": {"size_bdp": {"value": "size_bdp"}}},
    "flows": [{"name": "f", "rtt_ms": 30}, {"name": "c", "cc": "cubic", "rtt_ms": 30, "number": {"value": "others"}}],
}


@pytest.mark.parametrize("variant", ["bbr", "bbr3"])
def test_the_goal_harm_finds_a_cell_near_the_worst_of_a_grid_by_half_of_its_runs(variant: str, tmp_path: Path) -> None:
    options = {**SMALL, "goal": "harm", "variant": variant, "budget": 8, "check_seeds": 1}
    folder = AdversaryFolder(tmp_path / "run")
    with folder.opened(resume=False):
        (case, *_) = search_adversary(load_distribution(GRID), parse_adversary(options), folder)
    found = folder.read_table("trials.parquet")["loss"].to_numpy().max()
    harms = per_run(bbrgym.evaluate(GRID, variant, world="twin", draws=16, jobs=1))["harm"].to_numpy()
    assert harms.max() - 0.1 <= found <= harms.max() + 0.05  # other seeds
    assert f"{variant} does the others a harm of" in (folder.path / "cases" / f"against-{variant}-1.yaml").read_text()
    again = bbrgym.evaluate(case.network, variant, world="twin", seeds=[1001], jobs=1)
    assert case.losses[0] == again.filter(role="fixed")["harm"].mean()


def test_an_interrupted_search_goes_on_to_the_same_bytes_and_another_seed_to_others(
    whole: Whole, tmp_path: Path
) -> None:
    def interrupt(progress: Any) -> None:
        if progress.done >= 16:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        searched(tmp_path / "run", on_progress=interrupt)
    assert (tmp_path / "run" / "trials.parquet").exists()
    assert not (tmp_path / "run" / "cases.csv").exists()
    searched(tmp_path / "run", resume=True)
    assert files(tmp_path / "run") == files(whole[0])
    searched(tmp_path / "other", seed=2)
    assert files(tmp_path / "other") != files(whole[0])
    with pytest.raises(bbrgym.ConfigError, match="budget: is 25, was"):
        searched(tmp_path / "run", resume=True, budget=25)


@pytest.mark.slow
def test_the_search_proposes_worse_networks_than_chance(tmp_path: Path) -> None:
    """Over four searches, by three standard errors: each begins with 32 networks drawn at random."""
    for seed in range(1, 5):
        searched(tmp_path / str(seed), seed=seed, random_share=0.4, budget=80)
    losses = np.stack([pl.read_parquet(path)["loss"].to_numpy() for path in tmp_path.glob("*/trials.parquet")])
    drawn, proposed = losses[:, :32], losses[:, 32:]
    assert proposed.mean() > drawn.mean() + 3 * drawn.std() / drawn.size**0.5


def test_found_networks_join_a_distribution(whole: Whole) -> None:
    path, cases = whole
    mix = load_distribution([DISTRIBUTION, str(path / "found.yaml")])  # type: ignore[arg-type]
    names = [mix(seed).name for seed in range(60)]
    assert {name.partition("-")[0] for name in names} == {"small", "against"}
    assert 15 < sum(name.startswith("against") for name in names) < 45
    assert {*names} >= {case.network.name for case in cases}
    assert (mix.max_tuned, mix.max_flows) == (3, 3)
    assert [mix(seed).name for seed in range(60)] == names
    assert read_scenario(["wan_mix", "lossy_mix"])["mix"][1]["name"] == "lossy_mix"


def test_a_file_of_a_mix_needs_no_variables(whole: Whole, tmp_path: Path) -> None:
    file = tmp_path / "weighted.yaml"
    file.write_text(f"mix: [{DISTRIBUTION}, {whole[0] / 'found.yaml'}]\nweights: [0, 1]\n")
    assert is_distribution(str(file))
    assert {load_distribution(file)(seed).name.partition("-")[0] for seed in range(20)} == {"against"}
    with pytest.raises(bbrgym.ScenarioError, match="mix: is given: a distribution, expected a scenario"):
        load_scenario(file)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"mix": []}, r"mix: is \[\], expected a list of scenarios and distributions"),
        ({"mix": ["wan_mix"], "variables": {"one": 1}}, "variables: is given beside mix, expected weights alone"),
        ({"mix": ["wan_mix"], "duration_s": 3}, "duration_s: is given beside mix, expected weights alone"),
        ({"mix": ["wan_mix"], "weights": [1, 2]}, r"weights: is \[1, 2\], expected 1 numbers from 0, one above it"),
    ],
)
def test_a_wrong_mix_is_refused(changed: dict[str, Any], says: str) -> None:
    with pytest.raises(bbrgym.ScenarioError, match=says):
        load_distribution({"name": "mixed", **changed})


def test_the_capacity_may_go_in_steps() -> None:
    space = SearchSpace(load_distribution(DISTRIBUTION), Steps(count=3, ratio=4.0))
    low, middle, high = (space.network("one", lambda _, x=x: x) for x in (0.0, 0.5, 0.999))
    for network, factor in ((low, 0.25), (middle, 1.0), (high, 4.0)):
        rates = [change.rate_mbps / network.link.rate_mbps for change in network.link.changes]
        np.testing.assert_allclose(rates, factor, rtol=0.01)
        assert [change.at_s for change in network.link.changes] == [1.5, 3.0, 4.5]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["scenario=steady"], "scenario: is 'steady', a single network, expected a distribution"),
        (["reference=bbq"], "reference: is 'bbq', expected another one than the entrant"),
        (["reference=nobody"], "reference: 'nobody' is not a variant"),
        (["replay=moon"], "replay: is 'moon', expected a world"),
        (["budget=0"], "budget: is 0"),
        (["steps={count: 3, ratio: 1.0}"], "steps.ratio: is 1"),
    ],
)
def test_what_cannot_be_searched_is_said(options: list[str], says: str, tmp_path: Path, capsys: Any) -> None:
    assert main(["adversary", "budget=2", f"output_dir={tmp_path / 'run'}", *options]) == 2
    assert says in capsys.readouterr().err
