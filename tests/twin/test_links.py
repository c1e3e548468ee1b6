# SPDX-License-Identifier: GPL-2.0-only
"""Several links, against closed forms and a brute-force solver of max-min fairness."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from native_simulation import LINK_STATS, MSS_BYTES, PACKET_BYTES
from twin_harness import Mapping, Simulation, flow, life

import bbrgym
from bbrgym import _ns3, _twin
from bbrgym.worlds.score import fair_shares_mbps, max_min_of_paths, max_min_shares

OF_PAYLOAD = MSS_BYTES / PACKET_BYTES


def link(rate_mbps: float, **changes: Any) -> Mapping:
    return {"rate_mbps": rate_mbps, "delay_ms": 5.0, "queue": {"size_bdp": 1.0}, **changes}


def network(links: Mapping, *flows: Mapping, duration_s: float = 20.0, **changes: Any) -> Mapping:
    return {"name": "test", "duration_s": duration_s, "stack": "linux-6", "links": links, "flows": flows, **changes}


def over(*path: str, cc: str = "cubic", name: str | None = None, **changes: Any) -> Mapping:
    return flow(name or "-".join(path), cc, path=list(path), **changes)


# ---- max-min shares ----------------------------------------------------------------------------------------

STEP = 0.01


def filled(capacity: list[int], demands: list[float], paths: list[list[int]]) -> list[float]:
    """Return max-min shares as their definition has it: all grow together, one stops where it cannot go on."""
    shares, growing = [0.0] * len(paths), set(range(len(paths)))
    while growing:
        for one in sorted(growing):
            grown = [share + STEP * (other in growing) for other, share in enumerate(shares)]
            loads = [sum(grown[other] for other, path in enumerate(paths) if link in path) for link in paths[one]]
            is_full = any(load > capacity[link] + 1e-9 for load, link in zip(loads, paths[one], strict=True))
            if is_full or grown[one] > demands[one] + 1e-9:
                growing.discard(one)
                break
        else:
            shares = grown
    return shares


@st.composite
def networks(draw: st.DrawFn) -> tuple[list[int], list[float], list[list[int]]]:
    links = draw(st.integers(1, 4))
    capacity = draw(st.lists(st.integers(1, 8), min_size=links, max_size=links))
    paths = draw(
        st.lists(st.lists(st.integers(0, links - 1), min_size=1, unique=True), min_size=1, max_size=5),
    )
    demand = st.one_of(st.just(float("inf")), st.integers(0, 8).map(float))
    return capacity, draw(st.lists(demand, min_size=len(paths), max_size=len(paths))), paths


@given(networks())
@settings(max_examples=60, deadline=None)
def test_shares_are_those_of_brute_force(case: tuple[list[int], list[float], list[list[int]]]) -> None:
    capacity, demands, paths = case
    shares = max_min_of_paths(np.array(capacity, float), np.array(demands), paths)
    assert shares == pytest.approx(filled(capacity, demands, paths), abs=STEP * len(paths) * len(capacity))


@given(st.integers(1, 100), st.lists(st.one_of(st.just(float("inf")), st.floats(0, 50)), min_size=1, max_size=8))
def test_on_one_link_they_are_those_of_one_link(capacity: int, demands: list[float]) -> None:
    alone = max_min_shares(np.array([float(capacity)]), np.array(demands)[:, None])[:, 0]
    assert max_min_of_paths(np.array([float(capacity)]), np.array(demands), [[0]] * len(demands)) == pytest.approx(
        alone, abs=1e-9
    )


@given(networks())
@settings(max_examples=25, deadline=None)
def test_worlds_measure_these_shares(case: tuple[list[int], list[float], list[list[int]]]) -> None:
    """All flows run all the time: the shares of an interval, of the summary and of the score are the same."""
    capacity, _, paths = case
    crossed = sorted({number for path in paths for number in path})
    links = {f"link-{number}": link(float(capacity[number])) for number in crossed}
    flows = [
        over(*(f"link-{number}" for number in path), name=f"flow-{i}", rtt_ms=80.0) for i, path in enumerate(paths)
    ]
    expected = max_min_of_paths(np.array(capacity, float) * OF_PAYLOAD, np.full(len(paths), np.inf), paths)
    mapping = network(links, *flows, duration_s=0.3, warmup_s=0.1)
    simulation = Simulation(mapping)
    simulation.advance(0.2)
    simulation.advance(0.1)
    of_summary = [simulation.summary().flow("fair_share_mbps", index) for index in range(len(paths))]
    assert of_summary == pytest.approx(expected)
    assert [simulation.flow("fair_share_mbps", index) for index in range(len(paths))] == pytest.approx(expected)
    windows = np.full(len(paths), 0.1), np.full(len(paths), 0.3)
    assert fair_shares_mbps(bbrgym.load_scenario(mapping), *windows) == pytest.approx(expected)


@pytest.mark.parametrize("engine", [_twin, _ns3], ids=["twin", "ns3"])
def test_shares_follow_flows_and_links_through_time(engine: Any) -> None:
    """10 s alone on 4; 5 s with one beside it on the link of 12, which has 8; 5 s with 10 on the first link."""
    links = {"a": link(4.0, changes=[{"at_s": 15.0, "rate_mbps": 10.0}]), "b": link(12.0)}
    flows = [over("a", "b"), over("b", start_s=10.0)]
    result = Simulation(network(links, *flows, warmup_s=0.0), 1, engine)
    result.advance()
    summary = result.summary()
    long = (15.0 * 4.0 + 5.0 * 6.0) / 20.0
    other = (5.0 * 8.0 + 5.0 * 6.0) / 10.0
    assert summary.flow("fair_share_mbps", 0) == pytest.approx(long * OF_PAYLOAD)
    assert summary.flow("fair_share_mbps", 1) == pytest.approx(other * OF_PAYLOAD)
    result.native.close()


# ---- packets -----------------------------------------------------------------------------------------------


def test_a_path_of_empty_links_is_as_long_as_its_parts() -> None:
    """The least RTT is the propagation, and a packet's transmission on each link: 1.1904 ms at 10 Mbit/s."""
    links = {name: link(10.0) for name in ("a", "b", "c")}
    simulation = Simulation(network(links, over("a", "b", "c", app={"kind": "cbr", "rate_mbps": 0.1})))
    simulation.advance()
    transmission_ms = PACKET_BYTES * 8e-3 / 10.0
    assert simulation.summary().flow("rtt_min_ms") == pytest.approx(40.0 + 3 * transmission_ms, abs=0.002)
    assert simulation.summary().flow("queue_delay_mean_ms") == pytest.approx(0.0, abs=1e-6)


def test_the_narrowest_link_bounds_a_flow_and_holds_the_queue() -> None:
    links = {"wide": link(50.0), "narrow": link(5.0), "behind": link(20.0)}
    simulation = Simulation(network(links, over(*links), warmup_s=5.0))
    simulation.advance()
    assert simulation.summary().flow("goodput_mbps") == pytest.approx(5.0 * OF_PAYLOAD, rel=0.01)
    rows = simulation.native.links(0)
    queues = dict(zip(links, rows[:, LINK_STATS.index("queue_mean_bytes")], strict=True))
    assert queues["narrow"] > 1000 > max(queues["wide"], queues["behind"])
    used = rows[:, LINK_STATS.index("utilisation")]
    assert used == pytest.approx([0.1, 1.0, 0.25], rel=0.03)


def test_flows_of_disjoint_paths_do_not_know_of_each_other() -> None:
    """Each runs as alone on a link, to the byte: its stream of losses has another name, so there are none."""
    links = {"a": link(8.0), "b": link(3.0)}
    both = Simulation(network(links, over("a", cc="bbr"), over("b")))
    both.advance()
    for index, (name, cc) in enumerate((("a", "bbr"), ("b", "cubic"))):
        alone = Simulation(network({name: links[name]}, over(name, cc=cc)))
        alone.advance()
        assert both.summary().flow("goodput_mbps", index) == alone.summary().flow("goodput_mbps")
        assert both.summary().flow("sent_pkts", index) == alone.summary().flow("sent_pkts")


def test_a_named_link_alone_is_the_link() -> None:
    named = Simulation(network({"only": link(10.0)}, over("only", cc="bbr3")))
    short = {**network({}, flow("only", "bbr3")), "link": link(10.0)}
    assert life(named) == life(Simulation({name: value for name, value in short.items() if name != "links"}))


def test_acks_over_a_link_of_the_data_of_others_wait_there() -> None:
    """A standing queue of 100 packets drains in 119 ms; behind it ACKs of the other flow wait."""
    links = {"there": link(10.0), "back": link(10.0, queue={"size_packets": 100})}
    acks = over("there", cc="bbr", ack_path=["back"])
    alone, beside = (Simulation(network(links, *flows, duration_s=60.0)) for flows in ([acks], [acks, over("back")]))
    for one in (alone, beside):
        one.advance()
    added_ms = beside.summary().flow("rtt_mean_ms") - alone.summary().flow("rtt_mean_ms")
    assert added_ms > 0.5 * 100 * PACKET_BYTES * 8e-3 / 10.0


def test_jains_index_is_that_of_the_flows_on_all_links() -> None:
    simulation = Simulation(network({"a": link(8.0), "b": link(4.0)}, over("a"), over("b", name="other")))
    simulation.advance()
    summary = simulation.summary()
    first, second = (summary.flow("goodput_mbps", index) for index in (0, 1))
    assert first > 1.5 * second
    assert summary.link("jain") == pytest.approx((first + second) ** 2 / (2 * (first**2 + second**2)))


# ---- the world's view --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "isolation"), [("twin", "none"), ("twin", "process"), ("ns3", "process")])
def test_a_world_measures_each_link(name: str, isolation: str) -> None:
    mapping = network({"a": link(4.0), "b": link(12.0)}, over("a", "b"), over("b"), duration_s=5.0)
    with bbrgym.make_world(name, mapping, seed=1, isolation=isolation) as world:
        world.advance(5.0)
        rates = [world.link_stats(one)[world.link_fields.index("rate_mbps")] for one in ("a", "b")]
        capacity = [world.link_summary(one)[world.link_summary_fields.index("capacity_mbps")] for one in ("a", "b")]
        assert rates == pytest.approx([4.0, 12.0])
        assert capacity == pytest.approx([4.0, 12.0])
        assert world.link_stats("a").tobytes() == world.link_stats().tobytes()
        with pytest.raises(bbrgym.ConfigError, match="link 'c': allowed are a, b"):
            world.link_stats("c")


def test_a_series_has_columns_of_each_link(tmp_path: Any) -> None:
    import polars as pl

    lots = network({"a": link(4.0), "b": link(12.0)}, over("a", "b"), over("b"), duration_s=2.0)
    bbrgym.evaluate(lots, ["bbr"], world="twin", interval_s=0.5, output_dir=tmp_path / "run")
    series = pl.read_parquet(tmp_path / "run" / "timeseries.parquet")
    for name, rate_mbps in (("a", 4.0), ("b", 12.0)):
        assert series[f"link_{name}_rate_mbps"].to_list() == pytest.approx([rate_mbps] * len(series))
