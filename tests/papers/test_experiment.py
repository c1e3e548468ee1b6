# SPDX-License-Identifier: GPL-2.0-only
"""The model of an experiment: what it expands to, and its errors."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from small_experiment import FIELDS

from bbrgym.errors import ConfigError
from bbrgym.papers.catalogue import load_experiment, select_experiments
from bbrgym.papers.experiment import Quantity
from bbrgym.papers.names import PAPERS, experiment_names, heading_of, notes_of
from bbrgym.papers.reproduction import parse_reproduction, prepare_reproduction


@pytest.mark.parametrize("name", experiment_names())
def test_every_shipped_experiment_can_run(name: str) -> None:
    asked = parse_reproduction({"experiment": name, "seeds": 1, "world": ["twin", "ns3"]})
    (prepared,) = prepare_reproduction(asked).experiments
    experiment = prepared.experiment
    assert (experiment.name, experiment.figure, experiment.title) == (name, *heading_of(name))
    assert prepared.cases or experiment.no_run
    assert experiment.published or experiment.claims or experiment.compared or experiment.no_run


def test_every_paper_has_experiments() -> None:
    assert {name.split("/")[0] for name in experiment_names()} == set(PAPERS)
    of_bbq = select_experiments("bbq", [])
    assert [one.name for one in of_bbq] == [name for name in experiment_names() if name.startswith("bbq/")]
    assert notes_of("bbq").startswith("Not stated: when the long flow joins (5 s here, ")
    assert not any("when the long flow joins" in one.notes for one in of_bbq)
    assert notes_of("mine") == ""
    with pytest.raises(ConfigError, match="paper: is 'bbq' beside experiment"):
        select_experiments("bbq", ["bbq/fig13"])


def written(tmp_path: Path, **fields: Any) -> str:
    path = tmp_path / "mine" / "one.yaml"
    path.parent.mkdir(exist_ok=True)
    (path.parent / "numbers.csv").write_text(fields.pop("numbers.csv", ""))
    path.write_text(yaml.safe_dump({**copy.deepcopy(FIELDS), **fields}))
    return str(path)


def load(tmp_path: Path, **fields: Any) -> Any:
    return load_experiment(written(tmp_path, **fields))


def test_a_variant_and_a_point_give_the_fields_of_a_scenario(tmp_path: Path) -> None:
    experiment = load(tmp_path)
    assert (experiment.name, experiment.points) == ("mine/one", (40.0, 80.0))
    fields = experiment.fields_of("small", 80.0)
    assert fields["name"] == "mine-one.1"
    assert fields["flows"][1]["rtt_ms"] == 80.0
    assert fields["link"]["queue"] == {"size_bdp": 0.5}
    assert experiment.fields_of("bbr", 40.0)["link"]["queue"] == {"size_bdp": 2.0}

    fields = {"published": [], "claims": [], "variants": ["bbr", "cubic"]}
    assert list(load(tmp_path, **fields).variants) == ["bbr", "cubic"]


def test_an_experiment_like_another_one_has_its_scenario_and_sweep(tmp_path: Path) -> None:
    one, path = load(tmp_path), tmp_path / "mine" / "two.yaml"
    fields = {name: value for name, value in FIELDS.items() if name not in ("scenario", "sweep")}
    path.write_text(yaml.safe_dump({**fields, "like": "one"}))
    assert load_experiment(str(path)) == one.model_copy(update={"id": "two"})
    path.write_text(yaml.safe_dump({**fields, "like": "one", "scenario": {"link": {"queue": {"size_bdp": 9.0}}}}))
    differs = {**FIELDS["scenario"], "link": {**FIELDS["scenario"]["link"], "queue": {"size_bdp": 9.0}}}
    assert load_experiment(str(path)).scenario == differs
    path.write_text(yaml.safe_dump({**fields, "like": "three"}))
    with pytest.raises(ConfigError, match=r"three\.yaml"):
        load_experiment(str(path))


def test_a_claim_may_hold_at_several_points_for_each_variant(tmp_path: Path) -> None:
    claim = {"text": "{at}, {variant}: little", "less": {"metric": "goodput_mbps"}, "than": 9}
    claims = load(tmp_path, claims=[{**claim, "each_at": [40, 80]}]).claims
    assert [one.text for one in claims] == [f"{at}, {name}: little" for at in (40, 80) for name in ("bbr", "small")]
    assert {one.source for one in claims} == {"figure 1"}  # the experiment's
    assert claims[3].less == Quantity(variant="small", metric="goodput_mbps", at=80.0)


def test_a_number_has_a_point_and_says_where_it_was_read_off_and_how_exactly(tmp_path: Path) -> None:
    first, second = load(tmp_path).published
    assert first.quantity == Quantity(variant="bbr", metric="goodput_mbps", at=40.0)
    assert (second.quantity.at, second.value) == (80.0, 9.0)
    first, _ = load(tmp_path, **published(source="figure 8", read_off_figure=0.5)).published
    assert first.origin == "figure 8, read off the figure to 0.5 Mbit/s"
    assert first.precision == 0.5
    printed, _ = load(tmp_path, **published(source="figure 8", rounding=0.5)).published
    assert printed.origin == "figure 8"


RADIO: dict[str, Any] = {
    "set": {"link.rate_mbps": 200.0, "link.last_hop": {"kind": "wifi"}},
    "sweep": {"link.last_hop.queue_packets": [20, 40]},
}


def test_a_world_with_radios_has_the_receivers_behind_one(tmp_path: Path) -> None:
    variants = {"bbr": {}, "small": {"cc": "bbr", "behind_radio": {"link.last_hop": {"kind": "lte", "layers": 2}}}}
    experiment = load(tmp_path, behind_radio=RADIO, variants=variants)
    assert "last_hop" not in experiment.fields_of("bbr", 40.0)["link"]
    link = experiment.fields_of("bbr", 40.0, has_radio=True)["link"]
    assert link["rate_mbps"] == 200.0
    assert link["last_hop"] == {"kind": "wifi", "queue_packets": 20}
    small = experiment.fields_of("small", 80.0, has_radio=True)["link"]
    assert small["last_hop"] == {"kind": "lte", "layers": 2, "queue_packets": 40}
    asked = parse_reproduction({"experiment": str(tmp_path / "mine" / "one.yaml"), "world": ["twin", "ns3"]})
    (prepared,) = prepare_reproduction(asked).experiments
    assert {(case.job.world, case.job.scenario.link.last_hop is None) for case in prepared.cases} == {
        ("twin", True),
        ("ns3", False),
    }


def published(**fields: Any) -> dict[str, Any]:
    return {"published": [{**FIELDS["published"][0], **fields}]}


def test_a_paper_leaves_out_what_runs_by_name_only() -> None:
    names = [one.name for one in select_experiments("nyu", [])]
    assert names == ["nyu/10mbps-cubic"]
    assert {one.name for one in select_experiments(None, [])} == set(experiment_names())


SHARED: dict[str, Any] = {"metric": "goodput_mbps", "unit": "Mbit/s", "source": "text"}


def in_csv(rows: str, **fields: Any) -> dict[str, Any]:
    """Return the fields of an experiment with published numbers in a file."""
    return {"numbers.csv": rows, "published": [FIELDS["published"][0], {"csv": "numbers.csv", **SHARED, **fields}]}


def test_published_numbers_may_stand_in_a_csv_file(tmp_path: Path) -> None:
    rows = (
        "variant,at,value,lowest,highest,model\nsmall,40,8,7,9,\nbbr,40,9,8,10,4\nsmall,80,7,6.5,8,\nbbr,80,6,5,7,5\n"
    )
    loaded = load(tmp_path, **in_csv(rows, causes={"bbr": "luck"}))
    small = {**SHARED, "variant": "small", "at": [40, 80], "value": [8, 7], "lowest": [7, 6.5], "highest": [9, 8]}
    bbr = {**SHARED, "variant": "bbr", "at": [40, 80], "value": [9, 6], "lowest": [8, 5], "highest": [10, 7]}
    bbr |= {"model": [4, 5], "cause": "luck"}
    expected = load(tmp_path, published=[FIELDS["published"][0], small, bbr])
    assert sorted(loaded.published, key=str) == sorted(expected.published, key=str)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        (published(metric="goodput"), "published[0].metric: is 'goodput'; did you mean"),
        (published(unit="bit/s"), "published[0].unit: is 'bit/s', expected 'Mbit/s', the unit of goodput_mbps"),
        (published(variant="bbq"), "published[0].variant: is 'bbq'; did you mean bbr? allowed are bbr, small"),
        (published(at=[40]), "published[0].value: has 2 values, expected one for each of 1 points"),
        (published(spread=[2, 1]), "published[0].spread: is [2.0, 1.0], expected low and high"),
        (published(over="cubic", unit="ratio"), "published[0].over: is 'cubic'"),
        ({"behind_radio": {"set": {}}}, "behind_radio.set: "),
        (
            {"behind_radio": {**RADIO, "sweep": {"link.last_hop.queue_packets": [20]}}},
            "behind_radio.sweep.link.last_hop.queue_packets: has 1 values, expected one for each of 2",
        ),
        ({"variant": {}}, "variant: is not a field; did you mean variants?"),
        ({"variants": {}}, "variants: is missing, expected it, or no_run with the reason"),
        ({"sweep": {"title": "x", "at": [2, 1], "set": {}}}, "sweep.at: is [2.0, 1.0], expected ascending"),
        ({"sweep": {"title": "x", "at": [1], "set": {"a": [1, 2]}}}, "sweep.set.a: has 2 values, expected one for"),
        (published(lowest=[8, 8]), "published[0].highest: is missing"),
        (published(lowest=[8], highest=[9, 9]), "published[0].lowest: has 1 values, expected one for each of 2"),
        ({"compared": [{"metric": "goodput"}]}, "compared[0].metric: is 'goodput'; did you mean goodput_mbps"),
        ({"variants": {"bbr": {}, "small": {"cc": "bbx"}}}, "variants.small: is not a variant"),
        (
            {"variants": {"bbr": {"tunables": {"bbq_beta": 1}}, "small": {"cc": "bbr"}}},
            "variants.bbr.tunables.bbq_beta",
        ),
        ({"variants": {"bbr": {"set": {"flows.7.rtt_ms": 1}}, "small": {"cc": "bbr"}}}, "has no '7'"),
        ({"variants": {"bbr": {"set": {"link.rate_mbps": -1}}, "small": {"cc": "bbr"}}}, "link.rate_mbps: is -1"),
        (in_csv("variant,at\nbbr,40\n"), "numbers.csv': row 2, column value: is missing"),
        (
            in_csv("variant,at,value,hihgest\nbbr,40,9,9\n"),
            "row 1, column 4: is not a field; did you mean highest",
        ),
        (in_csv("variant,unit,value\n"), "numbers.csv': column unit stands in published[1] too"),
        (in_csv("variant,at,value\n"), "numbers.csv': has no rows, expected one for each number"),
        (in_csv("variant,at,value\nbbr,40,1,2\n"), "numbers.csv': no CSV"),
        (in_csv("variant,at,value\nbbr,40,9\nbbr,80,x\n"), "row 3, column value: is 'x', expected a number"),
        (in_csv("variant,at,value\nbbr,40,nan\n"), "row 2, column value: is nan, expected a finite number"),
        (in_csv("variant,at,value\nbbr,40,9\nbbq,40,9\n"), "row 3, column variant: is 'bbq'; did you mean bbr?"),
        (in_csv("variant,at,value\nbbr,40,9\nbbr,41,9\n"), "row 3, column at: is 41.0, expected one of 40.0, 80.0"),
        (in_csv("at,value\n40,9\n"), "row 2, column variant: is missing"),
        (in_csv("variant,at,value\nbbr,40,\n"), "row 2, column value: is missing"),
        (
            in_csv("variant,at,value\nbbr,40,9\n", causes={"bbq": "x"}),
            "published[1].causes: has variant 'bbq'; did",
        ),
        (
            in_csv("variant,at,value\nbbr,40,9\n", causes="x"),
            "and causes 'x', expected the name of a file and texts",
        ),
        (in_csv("variant,at,value\nbbr,40,9\n", csv=7), "published[1]: has csv 7 and causes {}, expected"),
        (in_csv("", csv="none.csv"), "none.csv': No such file"),
    ],
)
def test_an_error_names_the_field_the_variant_or_the_row_of_a_csv_file(
    tmp_path: Path, fields: dict[str, Any], problem: str
) -> None:
    asked = parse_reproduction({"experiment": written(tmp_path, **copy.deepcopy(fields))})
    with pytest.raises(ConfigError, match=r"^experiment ") as error:
        prepare_reproduction(asked)
    assert problem in str(error.value)
    assert "\n" not in str(error.value)
