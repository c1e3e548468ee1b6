# SPDX-License-Identifier: GPL-2.0-only
"""Repeatability, the module's and the program's borders, and errors."""

import copy
import json
import math
import subprocess
import sys

import pytest
from native_simulation import FLOW_SUMMARY
from ns3_harness import change, flow, queue, scenario

from bbrgym import _ns3
from bbrgym.worlds.fields import FLOW_FIELDS, FLOW_SUMMARY_FIELDS, LINK_FIELDS, LINK_SUMMARY_FIELDS


def mixed():
    """Everything that draws random numbers, at once."""
    onoff = {"kind": "onoff", "rate_mbps": 1.0, "on_s": 0.2, "off_s": 0.2, "random": True}
    red = {"min_bytes": 15_000, "max_bytes": 60_000, "max_probability": 0.1, "gaps": "ns3"}
    return scenario(
        flow("a", cc="bbr"),
        flow("b", cc="ns3-bbr", rtt_ms=20.0),
        flow("c", cc="cubic", app=onoff, start_s=1.0),
        duration_s=8,
        queue=queue(kind="red", size_bytes=100_000, red=red),
        loss={"kind": "bernoulli", "rate": 0.01},
    )


# ---- repeatability ---------------------------------------------------------------------------------------


def test_same_seed_same_bytes_in_one_process_whatever_ran_between_and_another_seed_others(run):
    first = run(mixed(), seed=7)
    run(scenario(flow(cc="ns3-bbr"), flow("b", cc="bbr"), duration_s=3), seed=3)
    assert run(mixed(), seed=7).bytes() == first.bytes() != run(mixed(), seed=8).bytes()


@pytest.mark.parametrize("step_s", [0.25, 0.001])
def test_the_size_of_the_steps_does_not_matter(run, step_s):
    assert run(mixed(), step_s=step_s).bytes() == run(mixed()).bytes()


def test_the_program_gives_the_same_numbers_in_its_own_process(run, program):
    result = program(json.dumps(mixed()), "--seed", "7", "--json")
    assert result.returncode == 0, result.stderr
    printed = json.loads(result.stdout)
    summary = run(mixed(), seed=7)
    for index, name in enumerate("abc"):
        for field in FLOW_SUMMARY:
            value = summary.flow(field, index)
            assert printed["flows"][name][field] == (None if math.isnan(value) else value), field
    assert all(printed["flows"][name]["sent_pkts"] > 100 for name in "abc")
    assert printed["link"]["jain"] == summary.link("jain")


# ---- borders of the module -------------------------------------------------------------------------------


def test_fields_say_what_they_are():
    for fields in (FLOW_FIELDS, LINK_FIELDS, FLOW_SUMMARY_FIELDS, LINK_SUMMARY_FIELDS):
        assert len({name for name, *_ in fields}) == len(fields)
        for _name, unit, visibility, meaning in fields:
            assert unit
            assert visibility in ("sender", "omniscient")
            assert meaning


def test_a_failed_construction_leaves_the_process_free(simulate):
    wrong = scenario(flow(cc="bbq", tunables={"bbq_alpha_us": -1}))
    with pytest.raises(ValueError, match=r"flows\[0\]\.tunables: bbq_alpha_us = -1 is outside"):
        simulate(wrong)
    simulate(scenario()).advance(1)


def test_a_process_has_one_world():
    with pytest.raises(ValueError, match="num_worlds is 2, expected 1: ns-3 is one simulation per process"):
        _ns3.Vector(2, 1, 60.0)


def test_acks_are_traced_of_ours_alone(simulate):
    simulation = simulate(scenario(flow(cc="bbr"), flow("b", cc="ns3-bbr")))
    with pytest.raises(ValueError, match="ns3-bbr shows no ACKs"):
        simulation.native.trace_acks(0, 1, 10)
    with pytest.raises(IndexError, match="flow 2 of 2"):
        simulation.native.trace_acks(0, 2, 10)


def test_the_lock_of_the_interpreter_is_free_while_it_runs():
    """Another thread counts while a simulation runs."""
    code = """
import json, sys, threading
sys.path[:] = json.loads(sys.argv[1])
from ns3_harness import Simulation, flow, scenario
simulation = Simulation(scenario(flow(cc="ns3-bbr"), duration_s=15))
running, count = True, 0
def work():
    global count
    while running:
        count += 1
thread = threading.Thread(target=work)
sys.setswitchinterval(1e-4)
thread.start()
before = count
simulation.advance(15)
during = count - before
running = False
thread.join(120.0)
simulation.native.close()
print(during)
"""
    result = subprocess.run(
        [sys.executable, "-c", code, json.dumps(sys.path)], capture_output=True, text=True, timeout=120, check=False
    )
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) > 2_500


# ---- errors ----------------------------------------------------------------------------------------------


def edited(path, value):
    resolved = copy.deepcopy(scenario(flow("a"), flow("b")))
    place = resolved
    for key in path[:-1]:
        place = place[key]
    if value is KeyError:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return resolved


ERRORS = [
    (["duration_s"], KeyError, r"scenario: duration_s: is missing"),
    (["warmup_s"], 10.0, r"warmup_s: is 10.0, expected a number < duration_s"),
    (["mss_bytes"], 1448.5, r"mss_bytes: is 1448.5, expected a whole number"),
    (["link", "rate_mbps"], None, r"link.rate_mbps: is null, expected exactly one of rate_mbps and trace"),
    (["link", "queue", "kind"], "fifo", r'link.queue.kind: is "fifo", expected one of droptail, red, codel, fq_codel'),
    (["link", "queue", "size_packets"], 3, r"link.queue: is .*, expected exactly one of size_bytes and size_packets"),
    (
        ["link", "changes"],
        [change(2.0, rate_mbps=1.0), change(1.0, rate_mbps=2.0)],
        r"link.changes\[1\].at_s: is 1.0, expected times in ascending order",
    ),
    (["flows"], [], r"flows: has 0 entries, expected 1 to 1000$"),
    (["flows", 1, "cc"], "bbr9", r"flows\[1\].cc: is 'bbr9', expected one of bbr, bbr-plus, .*ns3-westwood"),
    (["flows", 0, "stop_s"], 0, r"flows\[0\].stop_s: is 0, expected a number > start_s"),
    (["flows", 0, "tunables"], {"bbq_alpha_us": 1000}, r"flows\[0\].tunables: reno has no tunable bbq_alpha_us"),
    (["flows", 0, "stack", "undo"], 1, r"flows\[0\].stack.undo: is 1, expected true or false"),
    (["flows", 0, "tunables"], {"x": "y"}, r'flows\[0\].tunables.x: is "y", expected a number'),
    (
        ["link", "trace"],
        {"times_ms": [2.0, 1.0], "period_ms": 10.0, "opportunity_bytes": 1500},
        r"link.trace.times_ms\[1\]: is 1.0, expected a number, not below the one before and at most period_ms",
    ),
]


@pytest.mark.parametrize(("path", "value", "message"), ERRORS)
def test_a_wrong_field_is_one_error_with_its_path(simulate, path, value, message):
    with pytest.raises(ValueError, match=message):
        simulate(edited(path, value))


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        ("{", (), "is not JSON"),
        (json.dumps(edited(["link", "rate_mbps"], -5)), (), "link.rate_mbps: is -5"),
        (json.dumps(edited(["flows", 0, "cc"], "x")), (), "flows[0].cc: is 'x'"),
        (json.dumps(scenario()), ("--seed", "x"), "--seed is 'x', expected a whole number >= 0"),
        (json.dumps(scenario()), ("--seed", "-1"), "--seed is '-1', expected a whole number >= 0"),
        (json.dumps(scenario()), ("--sed",), "unexpected '--sed'; usage:"),
    ],
)
def test_the_program_prints_one_line_and_ends_with_2(program, text, arguments, message):
    result = program(text, *arguments)
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.startswith("bbrgym-scenario: ")
    assert result.stderr.count("\n") == 1
    assert message in result.stderr


def test_the_program_prints_every_field_of_the_summary(program):
    result = program(json.dumps(scenario(flow("a", cc="bbr"), duration_s=3)))
    assert result.returncode == 0
    assert "a (bbr)" in result.stdout
    for name in FLOW_SUMMARY:
        assert f"  {name} " in result.stdout
