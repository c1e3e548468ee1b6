# SPDX-License-Identifier: GPL-2.0-only
"""The interface, the same in every world, in a worker and in this process."""

import copy
import dataclasses
import math
import pickle
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from processes import workers

import bbrgym
from bbrgym.worlds import registered_worlds, specs
from bbrgym.worlds.last_hop import record_last_hop

NAMES = ["ns3", "twin"]
ISOLATIONS = ["process", "none"]
WORLDS = [(name, isolation) for name in NAMES for isolation in ISOLATIONS]


@pytest.fixture(params=WORLDS, ids="-".join)
def world(request, short_scenario):
    name, isolation = request.param
    with bbrgym.make_world(name, short_scenario, seed=3, isolation=isolation) as world:
        yield world


@pytest.fixture
def twin(short_scenario):
    with bbrgym.make_world("twin", short_scenario, seed=3) as world:
        yield world


def run(world, interval_s=0.1):
    """Everything that a run shows, as bytes."""
    shown = [world.flow_stats().tobytes(), world.link_stats().tobytes(), world.tunables().tobytes()]
    while not world.done:
        world.advance(interval_s)
        shown += [world.flow_stats().tobytes(), world.link_stats().tobytes(), str(world.now_s).encode()]
    return b"".join([*shown, *(table.tobytes() for table in world.summary())])


def test_a_run_has_the_declared_tables(world):
    assert world.name in NAMES
    assert world.seed == 3
    assert world.scenario.name == "short"
    assert world.flow_names == ("tuned", "other")
    assert world.tunable_names == tuple(bbrgym.TUNABLES)
    assert world.tunables().shape == (2, len(world.tunable_names))
    assert world.flow_stats().shape == (2, len(world.flow_fields))
    assert world.link_stats().shape == (len(world.link_fields),)
    flows, link = world.summary()
    assert flows.shape == (2, len(world.flow_summary_fields))
    assert link.shape == (len(world.link_summary_fields),)
    assert {"goodput_mbps", "rtt_mean_ms"} <= set(world.flow_fields)
    assert "queue_delay_mean_ms" in world.link_fields


def test_time_runs_to_the_scenarios_end_and_no_further(world):
    assert (world.now_s, world.done) == (0.0, False)
    world.advance(2.9)
    assert (world.now_s, world.done) == (2.9, False)
    world.advance(1e12)
    assert (world.now_s, world.done) == (3.0, True)
    world.advance(1.0)
    assert (world.now_s, world.flow_stats()[0, world.flow_fields.index("sent_pkts")]) == (3.0, 0.0)


def test_views_are_read_only_and_summaries_are_the_callers(world):
    for view in (world.tunables(), world.flow_stats(), world.link_stats()):
        with pytest.raises(ValueError, match="read-only"):
            view[:] = 0
    flows, link = world.summary()
    flows[:] = link[:] = 7.0
    assert not np.array_equal(world.summary()[0], flows)


def test_the_same_seed_gives_the_same_bytes_and_another_one_others(world, short_scenario):
    first = run(world)
    world.reset()
    assert run(world) == first
    world.reset(seed=4)
    assert run(world) != first
    world.reset("steady")  # another number of flows between
    world.advance(1.0)
    world.reset(short_scenario, seed=3)
    assert run(world) == first


@pytest.mark.parametrize("name", NAMES)
def test_worker_and_this_process_give_the_same_bytes(short_scenario, name):
    shown = []
    for isolation in ISOLATIONS:
        with bbrgym.make_world(name, short_scenario, seed=5, isolation=isolation) as world:
            world.set_tunables("tuned", {"bbq_alpha_us": 1000.0})
            shown.append(run(world))
    assert shown[0] == shown[1]


def test_a_scenario_larger_than_the_last_one_fits(world):
    world.advance(0.1)
    assert len(bbrgym.load_scenario("cellular").resolved_json()) > 100_000  # its trace
    world.reset("cellular")
    world.advance(0.5)
    assert world.now_s == 0.5
    world.reset({**bbrgym.load_scenario("crowd").model_dump(), "duration_s": 31.0})
    world.advance(0.1)
    assert world.flow_stats().shape[0] == len(world.flow_names) == 21


def memory_of_900_steps(world):
    """Return by how many bytes the interpreter's memory grew in the end, and at most."""
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for _ in range(900):
        world.advance(0.001)
    after, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return after - before, peak - before


def test_stepping_keeps_nothing(world):
    for _ in range(100):
        world.advance(0.001)
    views = (world.flow_stats(), world.link_stats(), world.tunables())
    grown, at_most = zip(*(memory_of_900_steps(world) for _ in range(3)), strict=True)
    assert min(grown) < 1000  # other threads of this process may have taken some meanwhile
    assert min(at_most) < 4000
    assert world.flow_stats() is views[0]
    assert world.link_stats() is views[1]
    assert world.tunables() is views[2]


def test_tunables_start_at_the_preset_and_act(world):
    tunables = dict(zip(world.tunable_names, world.tunables()[0], strict=True))
    assert {name for name, value in tunables.items() if not np.isnan(value)} == set(bbrgym.VARIANTS["bbq"].preset)
    assert tunables["bbq_alpha_us"] == 3000.0
    assert np.isnan(world.tunables()[1]).all()

    world.advance(1.0)
    world.set_tunables(0, {"bbr_cwnd_gain": 1.0, "bbr_probe_rtt_interval_us": 2_000_000})
    assert world.tunables()[0, world.tunable_names.index("bbr_cwnd_gain")] == 1.0
    changed = run(world)
    world.reset()
    world.advance(1.0)
    assert run(world) != changed


@pytest.mark.parametrize(
    ("flow", "values", "text"),
    [
        ("tuned", {"bbq_alfa_us": 1.0}, r"flow 'tuned': tunables\.bbq_alfa_us .*did you mean bbq_alpha_us"),
        ("tuned", {"plus_alpha": 1.0}, r"plus_alpha is not a tunable of bbq"),
        ("tuned", {"bbq_alpha_us": 1e6}, r"tunables\.bbq_alpha_us is 1e\+06, expected 500 to 50000 \(us\)"),
        ("tuned", {"bbq_alpha_us": float("nan")}, r"bbq_alpha_us is nan, expected 500 to 50000"),
        ("tuned", {"bbq_latch": 0.5}, r"bbq_latch is 0\.5, expected a whole number"),
        ("tuned", {"bbr_up_gain": 1.5, "bbq_alpha_us": 0.0}, r"bbq_alpha_us is 0, "),
        ("other", {"bbr_up_gain": 1.5}, r"flow 'other': tunables\.bbr_up_gain is not a tunable of cubic"),
        ("tunde", {"bbr_up_gain": 1.5}, r"flow 'tunde': did you mean tuned\?"),
        (-1, {"bbr_up_gain": 1.5}, r"flow: -1, allowed are 0 to 1"),
    ],
)
def test_a_wrong_tunable_is_refused_and_nothing_is_set(twin, flow, values, text):
    before = twin.tunables().tobytes()
    with pytest.raises(bbrgym.ConfigError, match=text):
        twin.set_tunables(flow, values)
    assert twin.tunables().tobytes() == before


def test_a_closed_world_says_so(world):
    world.close()
    world.close()
    for use in (world.reset, world.flow_stats, world.summary, lambda: world.advance(1.0), lambda: world.now_s):
        with pytest.raises(ValueError, match=f"<world '{world.name}': scenario 'short', seed 3> is closed"):
            use()


def test_a_world_is_not_copied(world):
    for copying in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="a world cannot be copied or pickled: call make_world"):
            copying(world)


def test_one_ns3_in_this_process_at_a_time(short_scenario):
    with bbrgym.make_world("ns3", short_scenario, isolation="none") as first:
        with pytest.raises(bbrgym.WorldError, match=r"scenario 'short', seed 8, at 0 s: .*ns-3 allows one"):
            bbrgym.make_world("ns3", short_scenario, seed=8, isolation="none")
        first.advance(1.0)
        assert first.now_s == 1.0
    with bbrgym.make_world("ns3", short_scenario, isolation="none") as second:
        second.advance(1.0)


def stock(name="stock"):
    """A scenario with one of ns-3's own controls."""
    return {
        "name": name,
        "duration_s": 2.0,
        "link": {"rate_mbps": 5.0, "queue": {"size_bdp": 1.0}},
        "flows": [{"name": "ours", "rtt_ms": 20.0}, {"name": "theirs", "cc": "ns3-bbr", "rtt_ms": 20.0}],
    }


@pytest.mark.usefixtures("own_children")
@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_a_controller_that_a_world_does_not_have_is_refused_before_anything_runs(short_scenario, isolation):
    lacks = r"scenario stock: flows\[1\]\.cc: is 'ns3-bbr', which world 'twin' does not have; "
    says = lacks + "it needs world ns3, ns3gym$"
    with pytest.raises(bbrgym.ScenarioError, match=says):
        bbrgym.make_world("twin", stock(), isolation=isolation)
    assert workers() == []
    with bbrgym.make_world("twin", short_scenario, isolation=isolation) as world:
        world.advance(0.5)
        with pytest.raises(bbrgym.ScenarioError, match=says):
            world.reset(stock())
        world.advance(0.5)
        assert (world.now_s, world.scenario.name) == (1.0, "short")
    with bbrgym.make_world("ns3", stock(), isolation=isolation) as world:
        world.advance(0.5)


@pytest.mark.parametrize("name", NAMES)
def test_acks_can_be_traced_in_this_process(short_scenario, name):
    with bbrgym.make_world(name, short_scenario, isolation="none") as world:
        world.trace_acks("tuned", 100)
        world.advance(2.0)
        trace = world.ack_trace(0)
        assert len(trace) == 100
        assert (np.diff(trace["time_us"]) >= 0).all()
        with pytest.raises(bbrgym.ConfigError, match="flow 'tunde': did you mean tuned"):
            world.ack_trace("tunde")
    with (
        bbrgym.make_world(name, short_scenario, isolation="process") as world,
        pytest.raises(bbrgym.ConfigError, match=r"ack trace: .* has none; allowed are .* isolation none"),
    ):
        world.trace_acks("tuned", 100)


def test_a_world_may_have_options_of_its_own(make_odd):
    world = make_odd("none", options={"deed": "raise"})
    world.advance(1.0)
    with pytest.raises(bbrgym.WorldError, match="the model broke"):
        world.advance(1.0)
    make_odd("none", options={"deed": None}, isolation="none").advance(2.0)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("odd", "options: 'dead' is not an option of world 'odd'; did you mean deed"),
        ("twin", "options: 'dead' is not an option of world 'twin'; allowed are policy"),
        ("plain", "'plain'; it has none"),
    ],
)
def test_an_unknown_option_is_refused(name, text, monkeypatch):
    plain = dataclasses.replace(registered_worlds()["twin"], name="plain", options=())
    monkeypatch.setitem(specs._SPECS, "plain", plain)
    with pytest.raises(bbrgym.ConfigError, match=text):
        bbrgym.make_world(name, "steady", options={"dead": 1})


# ---- snapshots ----------------------------------------------------------------------------------------


def test_a_world_whose_reset_failed_can_be_restored_and_reset(twin):
    twin.advance(1.0)
    state = twin.save()
    expected = run(twin)
    for again in (lambda: twin.restore(state), lambda: (twin.reset(), twin.advance(1.0))):
        with pytest.raises(bbrgym.ScenarioError):
            twin.reset("stedy")
        again()
        assert run(twin) == expected


@pytest.mark.parametrize(("name", "isolation"), [world for world in WORLDS if world != ("twin", "none")])
def test_only_the_twin_in_this_process_has_snapshots(short_scenario, twin, name, isolation):
    state = twin.save()
    with bbrgym.make_world(name, short_scenario, seed=4, isolation=isolation) as world:
        world.advance(1.0)
        before = world.flow_stats().tobytes()
        cannot = rf"<world '{name}': scenario 'short', seed 4> cannot; allowed are worlds in this process .*: twin"
        with pytest.raises(bbrgym.ConfigError, match="save: " + cannot):
            world.save()
        with pytest.raises(bbrgym.ConfigError, match="restore: " + cannot):
            world.restore(state)
        assert (world.seed, world.now_s, world.flow_stats().tobytes()) == (4, 1.0, before)
        world.advance(1.0)
        assert world.now_s == 2.0


def test_a_pickled_or_copied_snapshot_goes_on_bit_for_bit(twin):
    for gain in (1.5, 1.5, 2.5, 1.9):
        twin.set_tunables("tuned", {"bbq_beta": 0.01 * gain, "bbr_cwnd_gain": gain})
        twin.advance(0.3)
    early = twin.save()
    twin.advance(0.1)
    twin.restore(early)
    twin._vector.tunables[0, 0, 0] = -1.0
    with pytest.raises(bbrgym.ConfigError):
        twin.advance(0.1)
    twin._vector.tunables[0, 0, 0] = 1.3
    twin.advance(0.1)
    snapshot = twin.save()
    expected = run(twin)
    for again in (pickle.loads(pickle.dumps(snapshot)), copy.deepcopy(snapshot)):
        twin.restore(again)
        assert run(twin) == expected


def test_a_snapshot_is_of_its_kind_of_world(twin):
    state = dataclasses.replace(twin.save(), world="another")
    with pytest.raises(bbrgym.ConfigError, match="snapshot: of a 'another' world, allowed is one of 'twin'"):
        twin.restore(state)
    twin.close()
    with pytest.raises(ValueError, match="is closed"):
        twin.restore(state)


# ---- arguments ----------------------------------------------------------------------------------------

NO_NUMBERS = (None, "x", [1], np.zeros((2, 2)), int, object(), True, -1, math.nan, math.inf, 10**400, 10**5000)
NO_INDICES = (*NO_NUMBERS, 1.5, 2**70)


def wrong_calls(world):
    vector = world._vector
    of_indices = ("flow_names", "reset", "summary", "save", "check_running", "trace_packets", "take_packets")
    for wrong in NO_NUMBERS:
        yield from ((world.advance, wrong), (world.restore, wrong), (world.set_tunables, 0, wrong))
        yield from (
            (world.set_tunables, 0, {"bbr_up_gain": 1.5, **one}) for one in ({"bbr_cwnd_gain": wrong}, {5: 1.0})
        )
    for wrong in NO_INDICES:
        yield from ((world.trace_acks, 0, wrong), (world.trace_acks, wrong, 1), (world.ack_trace, wrong))
        yield from ((world.set_tunables, wrong, {"bbr_cwnd_gain": 2.0}), (vector.reserve, wrong))
        yield from ((getattr(vector, method), wrong) for method in of_indices)
    for wrong in NO_NUMBERS[1:]:
        yield from ((world.reset, wrong), (world.reset, None, wrong))
    yield from ((vector.advance, 0.1, wrong) for wrong in ([1], [True, True], "x", 10**400))


@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_argument_is_one_sentence_and_the_run_goes_on_as_if_nothing_had_been(short_scenario, name):
    def runs(calls):
        with bbrgym.make_world(name, short_scenario, seed=3, isolation="none") as world:
            world.advance(0.5)
            for call, *arguments in calls(world):
                with pytest.raises(bbrgym.ConfigError) as caught:
                    call(*arguments)
                assert "\n" not in str(caught.value)
            return run(world)

    assert runs(wrong_calls) == runs(lambda _: ())


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"name": "ns4"}, "world 'ns4': did you mean ns3"),
        ({"isolation": "thread"}, "isolation 'thread': .*allowed are process, none"),
        ({"seed": -1}, "seed: -1, allowed are integers from 0 to"),
        ({"seed": True}, "seed: True, allowed are"),
        ({"timeout_s": 0}, "timeout_s: 0, allowed is a finite number of seconds above 0"),
        ({"scenario": "stedy"}, "did you mean steady"),
    ],
)
def test_wrong_arguments(arguments, text):
    with pytest.raises(bbrgym.ConfigError, match=text):
        bbrgym.make_world(**{"name": "twin", "scenario": "steady", **arguments})


def test_kinds_are_listed_and_unique():
    assert registered_worlds()["ns3"].engine == "bbrgym._ns3.Vector"
    with pytest.raises(bbrgym.ConfigError, match="world 'ns3' is registered already"):
        bbrgym.worlds.register_world("ns3", "bbrgym._other.Vector", "another")


def test_a_world_error_travels_between_processes():
    error = bbrgym.WorldError("steady", 4, 1.25, "the worker was killed by SIGKILL")
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error) == "scenario 'steady', seed 4, at 1.25 s: the worker was killed by SIGKILL"
    assert (again.scenario, again.seed, again.now_s, again.reason) == ("steady", 4, 1.25, error.reason)


# ---- last hops ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["wifi", "lte"])
def test_the_twin_says_how_to_record_it(name: str) -> None:
    with bbrgym.make_world("twin", "steady") as world:
        with pytest.raises(bbrgym.ScenarioError) as caught:
            world.reset(name)
        assert f"link.last_hop: is {name}, which world 'twin' does not have; use world ns3, ns3gym, or record" in str(
            caught.value
        )
        assert "`bbrgym scenario NAME record=FILE`" in str(caught.value)
        world.reset("steady")
        world.advance(0.1)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["wifi", "lte"])
def test_a_trace_is_the_recording_that_its_scenario_names(name: str, tmp_path: Path) -> None:
    record_last_hop(bbrgym.load_scenario(name), tmp_path / "again.down", seconds=5, seed=1)
    shipped = Path(bbrgym.__path__[0]) / "conf" / "trace" / f"{name}.down"
    assert (tmp_path / "again.down").read_bytes() == shipped.read_bytes()


@pytest.mark.parametrize("name", ["wifi", "lte"])
def test_the_trace_stands_in_for_the_radio(name: str) -> None:
    def goodput_mbps(world_name: str, scenario: str) -> float:
        fields = {**bbrgym.load_scenario(scenario).model_dump(exclude_none=True), "duration_s": 4.0, "warmup_s": 1.0}
        with bbrgym.make_world(world_name, fields) as world:
            world.advance(4.0)
            flows, _ = world.summary()
            return float(flows[0, world.flow_summary_fields.index("goodput_mbps")])

    radio = goodput_mbps("ns3", name)
    assert goodput_mbps("twin", f"{name}_trace") == pytest.approx(radio, rel=0.25)
