# SPDX-License-Identifier: GPL-2.0-only
"""Scenarios of several links: what they refuse, and what they resolve to."""

import json
from typing import Any

import pytest

import bbrgym
from bbrgym.scenario.families import families_of

Mapping = dict[str, Any]


def link(rate_mbps: float = 10.0, **changes: Any) -> Mapping:
    return {"rate_mbps": rate_mbps, "delay_ms": 5.0, "queue": {"size_bdp": 1.0}, **changes}


def flow(*path: str, **changes: Any) -> Mapping:
    return {"name": "-".join(path) or "none", "rtt_ms": 40.0, "path": list(path), **changes}


def scenario(**changes: Any) -> Mapping:
    links = {"access": link(), "core": link(20.0)}
    flows = [flow("access", "core"), flow("access", rtt_ms=30.0)]
    return {"name": "lot", "duration_s": 10.0, "links": links, "flows": flows, **changes}


JITTER = {"share": 0.1, "delay_ms": 1.0, "reorder": True}
PROBLEMS: list[tuple[Mapping, str]] = [
    ({"link": link()}, "links: is given beside link, expected one of them"),
    ({"links": {}}, "link: is missing"),
    ({"links": [link()]}, "links: is [{'rate_mbps': 10.0, 'delay_ms': 5.0, 'queue': {'size_bdp': 1.0}}], expected a"),
    ({"links": {f"link-{i}": link() for i in range(9)}}, "links: has 9 links, expected at most 8"),
    ({"flows": [flow("access")]}, "links.core: is crossed by no flow, expected its name in some path or ack_path"),
    ({"flows": [flow()]}, "flows[0].path: is empty, expected some of the links: access, core"),
    ({"flows": [flow("accezz")]}, "flows[0].path: names 'accezz'; did you mean access? allowed are access, core"),
    (
        {"flows": [flow("core", "access", "core")]},
        "flows[0].path: names 'core' twice, expected each link once, ack_path included",
    ),
    ({"flows": [flow("core", ack_path=["core"])]}, "flows[0].path: names 'core' twice, expected each link once"),
    ({"flows": [flow("core", ack_path=["cor"])]}, "flows[0].ack_path: names 'cor'; did you mean core?"),
    (
        {"flows": [flow("access", "core", rtt_ms=19.0)]},
        "flows[0].rtt_ms: is 19.0, expected at least twice links.access.delay_ms + links.core.delay_ms = 10.0",
    ),
    ({"flows": [flow("core", direction="reverse")]}, "flows[0].direction: is 'reverse', expected 'forward' without"),
    (
        {"links": {"access": link(), "core": link(reverse=link())}},
        "links.core.reverse: is given, expected none in links, but only in link",
    ),
    ({"links": {"access": link(), "core": link(rat=1)}}, "links.core.rat: is not a field; did you mean rate_mbps?"),
    ({"links": {"access": link(), "core": link(-1.0)}}, "links.core.rate_mbps: is -1.0, expected a number >= 0.001"),
    (
        {"links": {"access": link(jitter=JITTER), "core": link()}, "flows": [flow("core", ack_path=["access"])]},
        "flows[0].ack_path: names 'access', whose jitter.reorder would reorder its ACKs",
    ),
]


@pytest.mark.parametrize(("changes", "sentence"), PROBLEMS, ids=[sentence[:40] for _, sentence in PROBLEMS])
def test_a_problem_is_one_sentence(changes: Mapping, sentence: str) -> None:
    with pytest.raises(bbrgym.ScenarioError) as caught:
        bbrgym.load_scenario(scenario(**changes))
    assert str(caught.value).startswith(f"scenario lot: {sentence}")
    assert ";" not in str(caught.value).replace("; did you mean", "")


def test_a_path_needs_links() -> None:
    with pytest.raises(bbrgym.ScenarioError, match="path: is \\['link'\\], expected none without links"):
        bbrgym.load_scenario({"duration_s": 10, "link": link(), "flows": [flow("link")]})


def test_it_survives_writing_and_reading() -> None:
    loaded = bbrgym.load_scenario(scenario())
    written = loaded.model_dump(exclude_none=True)
    assert "link" not in written
    assert bbrgym.load_scenario(json.loads(json.dumps(written))) == loaded
    assert bbrgym.load_scenario(written).resolved_json() == loaded.resolved_json()


def test_a_queue_is_of_the_longest_round_trip_over_its_link() -> None:
    links = {"access": link(), "core": link(20.0), "edge": link()}
    flows = [flow("access", "core"), flow("edge", rtt_ms=80.0, ack_path=["core"])]
    resolved = bbrgym.load_scenario(scenario(links=links, flows=flows)).resolved()
    assert [one.queue.size_bytes for one in resolved.links.values()] == [50_000, 200_000, 100_000]
    assert resolved.link == resolved.links["access"]


def test_each_draw_of_parking_lots_has_a_flow_over_all_links_and_one_over_each() -> None:
    lots = bbrgym.load_distribution("parking_lot")
    draws = [lots(seed) for seed in range(40)]
    assert {len(draw.links) for draw in draws} == {2, 3, 4, 5}
    for draw in draws:
        names = tuple(draw.links)
        assert [one.path for one in draw.flows] == [names, *((name,) for name in names)]
        assert "parking lot" in families_of(draw)


def test_the_kernel_world_refuses_by_name() -> None:
    with pytest.raises(bbrgym.ScenarioError, match="links: is given, which world 'linux' does not have; use world"):
        bbrgym.make_world("linux", scenario())
