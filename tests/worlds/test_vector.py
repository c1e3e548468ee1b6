# SPDX-License-Identifier: GPL-2.0-only
import copy
import pickle
import signal
import threading
from contextlib import ExitStack

import numpy as np
import pytest
from odd_engine import odd_scenario
from waiting import wait_until

import bbrgym
from bbrgym.worlds import make_vector_world

WAYS = {"looped": {"isolation": "process"}, "engine": {"isolation": "none"}}


def scenario(flows=2, duration_s=2.0, loss=0.01):
    return {
        "name": f"flows-{flows}",
        "duration_s": duration_s,
        "link": {"rate_mbps": 5.0, "queue": {"size_bdp": 1.0}, "loss": {"kind": "bernoulli", "rate": loss}},
        "flows": [{"name": f"flow-{i}", "cc": "bbq" if i % 2 else "bbr", "rtt_ms": 20.0 + i} for i in range(flows)],
    }


@pytest.fixture(params=WAYS)
def make(request, closed):
    """Makes three worlds of 2, 1 and 3 flows in every way there is."""

    def make_worlds(scenarios=None, **options):
        scenarios = [scenario(2), scenario(1), scenario(3)] if scenarios is None else scenarios
        options = {"seeds": 7, **WAYS[request.param], **options}
        return closed(make_vector_world("twin", len(scenarios), scenarios, **options))

    return make_worlds


def one(scenario, seed):
    return bbrgym.make_world("twin", scenario, seed=seed)


def assert_is(worlds, index, world):
    """The same bytes, and NaN behind them."""
    flows = len(world.flow_names)
    assert worlds.flow_names(index) == world.flow_names
    assert worlds.flow_stats[index, :flows].tobytes() == world.flow_stats().tobytes()
    assert worlds.tunables[index, :flows].tobytes() == world.tunables().tobytes()
    assert worlds.link_stats[index].tobytes() == world.link_stats().tobytes()
    assert np.isnan(worlds.flow_stats[index, flows:]).all()
    assert np.isnan(worlds.tunables[index, flows:]).all()
    assert (worlds.now_s[index], worlds.done[index]) == (world.now_s, world.done)
    assert [table.tobytes() for table in worlds.summary(index)] == [table.tobytes() for table in world.summary()]


def test_each_is_what_it_is_alone_also_with_tunables_that_are_written(make):
    worlds = make()
    column = worlds.tunable_names.index("bbr_cwnd_gain")
    with one(scenario(2), 7) as first, one(scenario(1), 8) as second, one(scenario(3), 9) as third:
        for world, index in zip((first, second, third), range(3), strict=True):
            assert_is(worlds, index, world)
        for mask in ([True, True, True], [True, False, True], [False, True, False], [True, True, True]):
            worlds.tunables[:, 0, column] += 0.25
            seconds = np.array([0.7, 0.4, 1.3])
            worlds.advance(seconds, np.array(mask))
            for index, world in enumerate((first, second, third)):
                world.set_tunables("flow-0", {"bbr_cwnd_gain": float(worlds.tunables[index, 0, column])})
                if mask[index]:
                    world.advance(seconds[index])
                assert_is(worlds, index, world)


def test_a_wrong_tunable_is_an_error_and_the_others_run(make):
    worlds = make()
    worlds.tunables[1, 0, worlds.tunable_names.index("bbr_cwnd_gain")] = 99.0
    with pytest.raises(ValueError, match="bbr_cwnd_gain"):
        worlds.advance(0.5)
    assert worlds.now_s.tolist() == [0.5, 0.0, 0.5]


def test_a_reset_is_of_one(make):
    worlds = make()
    worlds.advance(1.0)
    worlds.reset(1, seed=99)
    with one(scenario(2), 7) as first, one(scenario(1), 99) as second:
        first.advance(1.0)
        assert_is(worlds, 0, first)
        worlds.advance(0.3, np.array([False, True, False]))
        second.advance(0.3)
        assert_is(worlds, 1, second)
    worlds.reset(1, scenario(3, loss=0.0))
    worlds.reset(2, scenario(1), seed=5)
    with one(scenario(3, loss=0.0), 99) as second, one(scenario(1), 5) as third:
        assert_is(worlds, 1, second)
        assert_is(worlds, 2, third)
    assert [each.name for each in worlds.scenarios] == ["flows-2", "flows-3", "flows-1"]
    assert worlds.seeds == [7, 99, 5]


def test_what_has_too_many_flows_needs_room(make):
    worlds = make()
    worlds.advance(0.6)
    with pytest.raises(bbrgym.ConfigError, match="'flows-5' has 5 flows, there is room for 3: give flow_capacity"):
        worlds.reset(1, scenario(5))
    with one(scenario(1), 8) as world:
        world.advance(0.6)
        assert_is(worlds, 1, world)
    assert make(flow_capacity=5).flow_stats.shape[:2] == (3, 5)


@pytest.fixture
def twins():
    """Worlds that can be saved."""
    with make_vector_world("twin", 3, [scenario(2), scenario(1), scenario(3)], 7) as worlds:
        yield worlds


def test_room_is_made_while_they_run(twins):
    twins.advance(0.6)
    twins.reserve(2)
    assert twins.flow_capacity == 3
    twins.reserve(6)
    assert twins.flow_stats.shape[:2] == (3, 6)
    with one(scenario(2), 7) as world:
        world.advance(0.6)
        assert_is(twins, 0, world)
        world.advance(0.6)
        twins.advance(0.6)
        assert_is(twins, 0, world)
        twins.reset(0)
        world.reset()
        assert_is(twins, 0, world)


def test_a_snapshot_goes_on_as_if_nothing_had_been(twins):
    twins.advance(0.5)
    snapshot = twins.save(0)
    with one(scenario(2), 7) as world:
        world.advance(0.5)
        for index in (0, 2, 1):
            twins.advance(0.3)
            twins.restore(index, snapshot)
            assert_is(twins, index, world)
            assert (twins.scenarios[index].name, twins.seeds[index]) == ("flows-2", 7)
        world.restore(snapshot)
        world.advance(0.4)
        twins.advance(0.4)
        assert_is(twins, 1, world)
        twins.reset(1)
        world.reset()
        assert_is(twins, 1, world)
        twins.restore(2, world.save())
        assert_is(twins, 2, world)


def test_room_is_made_while_workers_run(short_scenario):
    with (
        make_vector_world("ns3", 2, short_scenario, 3, isolation="process") as worlds,
        bbrgym.make_world("ns3", short_scenario, seed=4) as world,
    ):
        for flows in (0, 5, 9, 0):
            worlds.reserve(flows)
            worlds.advance(0.4)
            world.advance(0.4)
            assert_is(worlds, 1, world)
        worlds.reset(0, scenario(9))
        worlds.advance(0.4)
        world.advance(0.4)
        assert_is(worlds, 1, world)
        assert worlds.flow_capacity == 9


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_change_nothing(threads):
    scenarios = [scenario(1 + index % 3, 1.0 + 0.2 * index, loss=index / 100) for index in range(9)]
    column = bbrgym.worlds.TUNABLE_COLUMNS["bbr_cwnd_gain"]
    with make_vector_world("twin", 9, scenarios, 3, threads=threads) as worlds, ExitStack() as singles:
        alone = [singles.enter_context(one(each, 3 + index)) for index, each in enumerate(scenarios)]
        for step in range(30):
            for index, world in enumerate(alone):
                gain = 1.5 + (step + index) % 3 / 2
                world.set_tunables("flow-0", {"bbr_cwnd_gain": gain})
                worlds.tunables[index, 0, column] = gain
                world.advance(0.1)
            worlds.advance(0.1)
            for index, world in enumerate(alone):
                assert_is(worlds, index, world)
        assert worlds.done.all()


def test_worlds_that_run_nothing_say_so(make):
    worlds = make()
    for seconds in (0, -1.0, float("nan"), float("inf")):
        with pytest.raises(bbrgym.ConfigError, match=r"advance: .* s, allowed is a finite number of seconds above 0"):
            worlds.advance(seconds)
    assert worlds.now_s.tolist() == [0.0] * 3
    worlds.close()
    worlds.close()
    for call in (lambda: worlds.advance(1.0), lambda: worlds.reset(0), lambda: worlds.save(0)):
        with pytest.raises(ValueError, match="vector of 3 worlds 'twin'> is closed: make another"):
            call()
    for copying in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="call make_vector_world"):
            copying(worlds)


def test_a_world_that_breaks_needs_a_reset_and_the_others_go_on():
    with make_vector_world("odd", 2, [odd_scenario("exit"), odd_scenario("none")], timeout_s=60.0) as worlds:
        worlds.advance(1.0)
        with pytest.raises(bbrgym.WorldError, match="scenario 'exit', seed 1, at 1 s: the worker exited with code 7"):
            worlds.advance(1.0)
        assert worlds.now_s.tolist() == [1.0, 2.0]
        with pytest.raises(
            ValueError, match=r"world 0 of .* is not running, its run broke or was interrupted: call reset\(\) first"
        ):
            worlds.advance(0.5)
        worlds.advance(0.5, np.array([False, True]))
        worlds.reset(0)
        worlds.advance(0.5)
        assert worlds.now_s.tolist() == [0.5, 3.0]


def test_ctrl_c_ends_the_wait_for_all():
    with make_vector_world(
        "odd", 3, [odd_scenario("hang"), odd_scenario("hang"), odd_scenario("none")], threads=3
    ) as worlds:
        worlds.advance(1.0)
        calls = worlds.flow_stats[:2, 0, 0].copy()

        def interrupt():
            wait_until(lambda: (worlds.flow_stats[:2, 0, 0] > calls).all())
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

        interrupter = threading.Thread(target=interrupt)
        interrupter.start()
        with pytest.raises(KeyboardInterrupt):
            worlds.advance(0.5)
        interrupter.join()
        with pytest.raises(ValueError, match=r"is not running, .* was interrupted: call reset\(\) first"):
            worlds.advance(0.5)
        for index in range(3):
            worlds.reset(index)
        worlds.advance(0.5)
        assert worlds.now_s.tolist() == [0.5, 0.5, 0.5]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"num_worlds": 0}, "num_worlds: 0, allowed are numbers from 1"),
        ({"scenario": ["steady"]}, "2 worlds, but 1 scenarios and 2 seeds"),
        ({"seeds": [1, 2, 3]}, "2 worlds, but 2 scenarios and 3 seeds"),
        ({"seeds": 2**63 - 1}, r"seed: 9223372036854775808, allowed are integers from 0 to 2\*\*63 - 1"),
        ({"threads": 0}, "threads: 0, allowed are numbers from 1"),
        ({"flow_capacity": 0}, "flow_capacity: 0, allowed are numbers from 1, a scenario's flows"),
    ],
)
def test_wrong_arguments(arguments, text):
    with pytest.raises(bbrgym.ConfigError, match=text):
        make_vector_world(**{"name": "twin", "num_worlds": 2, "scenario": "steady", **arguments})
