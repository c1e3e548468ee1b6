# SPDX-License-Identifier: GPL-2.0-only
"""bbrgym-opengym, the ns-3 world as an ns3-gym simulation, driven by an agent over the protocol."""

import json
import re
import socket
import subprocess

import numpy as np
import psutil
import pytest
import zmq
from build_tree import program
from driving import drive
from gymnasium import spaces
from owners import children
from waiting import wait_until

import bbrgym
from bbrgym.ns3gym import messages as pb
from bbrgym.ns3gym.data import pack
from bbrgym.tunables import TUNABLES
from bbrgym.worlds.fields import FLOW_FIELDS, FLOW_SUMMARY_FIELDS, LINK_FIELDS, LINK_SUMMARY_FIELDS
from bbrgym.worlds.score import flow_scores, run_score

SCENARIO = {
    "name": "served",
    "duration_s": 2.05,  # no whole number of intervals
    "warmup_s": 0.5,
    "link": {"rate_mbps": 8, "queue": {"size_bdp": 1.5}, "loss": {"kind": "bernoulli", "rate": 0.003}},
    "flows": [
        {"name": "mix", "cc": "bbr-mix", "rtt_ms": 20.2, "role": "tuned", "stop_s": 1.7},
        {"name": "late", "cc": "bbq", "rtt_ms": 45, "start_s": 0.45, "role": "tuned"},
        {"name": "rival", "cc": "cubic", "rtt_ms": 33.3, "role": "fixed"},
        {"name": "stock", "cc": "ns3-linux-reno", "rtt_ms": 25, "role": "background"},
    ],
}
SECONDS = 0.1
FLOWS = len(SCENARIO["flows"])
SPACE = spaces.Dict(
    {
        "tunables": spaces.Box(-np.inf, np.inf, (FLOWS, len(TUNABLES)), np.float64),
        "seconds": spaces.Box(-np.inf, np.inf, (1,), np.float64),
    },
    sort_keys=False,
)
COLUMNS = {name: i for i, name in enumerate(TUNABLES)}


@pytest.fixture(scope="module")
def opengym():
    return program("bbrgym-opengym")


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "scenario.json"
    path.write_text(bbrgym.load_scenario(SCENARIO).resolved_json(), encoding="utf-8")
    return path


class Keep:
    """Acts with the tunables that the flows begin with."""

    def __call__(self, state):
        if flows := state.info.get("initial_tunables"):
            self.tunables = np.array([[flow.get(name, np.nan) for name in TUNABLES] for flow in flows])
        return {"tunables": self.tunables.copy(), "seconds": np.array([SECONDS])}


def test_it_says_what_its_numbers_are(opengym, path):
    states, done = drive([opengym, f"--scenario={path}", "--simSeed=7"], lambda state: None)
    assert (len(states), done.returncode, done.stderr) == (1, 0, "")  # it ends where the agent stops it
    info = states[0].info
    assert json.loads(json.dumps(info, allow_nan=False)) == info
    assert (info["scenario"], info["seed"], info["flows"]) == ("served", 7, ["mix", "late", "rival", "stock"])
    for name, fields in (
        ("flow_stats", FLOW_FIELDS),
        ("link_stats", LINK_FIELDS),
        ("flow_summary", FLOW_SUMMARY_FIELDS),
        ("link_summary", LINK_SUMMARY_FIELDS),
    ):
        assert list(info["fields"][name].items()) == [(field, unit) for field, unit, *_ in fields]
        assert states[0].observation[name].shape[-1] == len(fields)
    assert list(info["tunables"].items()) == [(name, tunable.unit) for name, tunable in TUNABLES.items()]
    with bbrgym.make_world("ns3", SCENARIO) as world:
        initial = [[values.get(name, np.nan) for name in TUNABLES] for values in info["initial_tunables"]]
        assert np.array(initial).tobytes() == np.array(world.tunables()).tobytes()


def test_the_reward_is_the_score_s_formula(opengym, path):
    states, _ = drive([opengym, f"--scenario={path}"], Keep())
    columns = [field[0] for field in FLOW_FIELDS]
    flows = bbrgym.load_scenario(SCENARIO).resolved().flows
    before_s = 0.0
    assert states[0].reward == 0.0
    for state in states[1:]:
        column = dict(zip(columns, state.observation["flow_stats"].T, strict=True))
        length_s = state.info["now_s"] - before_s
        before_s = state.info["now_s"]
        rtt_ms = column["rtt_mean_ms"]
        scores = flow_scores(
            column["goodput_mbps"],
            column["fair_share_mbps"],
            np.where(column["active"] > 0, length_s, 0.0),
            np.where(rtt_ms > 0, rtt_ms, np.nan),
            np.array([flow.rtt_ms for flow in flows]),
            mss_bytes=1448,
            delta=0.5,
        )
        scores[column["active"] == 0] = np.nan
        expected = run_score(scores, [flow.role for flow in flows])
        assert state.reward == pytest.approx(expected, rel=1e-6)
    assert len({state.reward for state in states}) > 10


def set_gain(flow, value):
    def change(action):
        action["tunables"][flow, COLUMNS["bbr_up_gain"]] = value
        return action

    return change


def seconds(value):
    return lambda action: {**action, "seconds": np.array([value])}


def container(change):
    """Of an action, after a change to its DictDataContainer."""

    def changed(action):
        whole = pack(SPACE, action)
        held = pb.DictDataContainer.FromString(whole.data.value)
        change(held.element)
        whole.data.Pack(held)
        return whole

    return changed


def cut(action):
    whole = pack(SPACE, action)
    whole.data.value = whole.data.value[:-3]
    return whole


def floats(elements):
    elements[1].data.Pack(pb.BoxDataContainer(dtype=pb.Dtype.FLOAT, floatData=[SECONDS]))


def few(elements):
    elements[0].data.Pack(pb.BoxDataContainer(dtype=pb.Dtype.DOUBLE, doubleData=[1, 2, 3]))


def test_seconds_may_be_float32_as_ns3_gym_s_agent_sends_them(opengym, path):
    act, change = Keep(), container(floats)
    states, done = drive([opengym, f"--scenario={path}"], lambda state: change(act(state)))
    assert done.returncode == 0, done.stderr
    assert states[1].info["now_s"] == round(float(np.float32(SECONDS)) * 1e9) / 1e9


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (seconds(0.0), "action: seconds is 0"),
        (seconds(np.nan), "action: seconds is nan"),
        (seconds(np.inf), "action: seconds is inf"),
        (set_gain(0, 99.0), r"flow 'mix': bbr_up_gain = 99 is outside \[1.02, 2\] ratio"),
        (set_gain(2, 1.0), "flow 'rival': cubic has no tunable bbr_up_gain"),
        (container(lambda elements: elements.pop()), "action: expected a Dict of tunables and seconds"),
        (container(few), f"action: tunables has 3 numbers of float or double, expected {FLOWS * len(TUNABLES)}"),
        (cut, "ends within a field"),
    ],
)
def test_a_wrong_action_ends_it_with_one_line(opengym, path, change, says):
    states, done = drive([opengym, f"--scenario={path}"], lambda state: change(Keep()(state)))
    assert (len(states), done.returncode) == (1, 2), done.stderr
    assert re.match(f"bbrgym-opengym: .*{says}.*\n$", done.stderr)


@pytest.mark.parametrize(
    ("text", "says"),
    [(None, "cannot read"), ("{", "scenario: is not JSON"), ("{}", "scenario: name: is missing")],
    ids=["none", "no JSON", "no scenario"],
)
def test_a_wrong_scenario_is_one_line(opengym, tmp_path, text, says):
    path = tmp_path / "scenario.json"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    done = subprocess.run([opengym, f"--scenario={path}"], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


def test_it_waits_for_an_agent_as_long_as_it_was_told(opengym, path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        port = taken.getsockname()[1]
        words = [opengym, f"--scenario={path}", f"--openGymPort={port}", "--timeout=0.5"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (1, f"bbrgym-opengym: no agent at port {port} within 0.5 s\n")


@pytest.mark.usefixtures("own_children")
def test_it_waits_for_an_answer_as_long_as_it_was_told(opengym, path):
    def think_till_it_has_ended(state):
        [simulation] = children(lambda child: child.name() == "bbrgym-opengym")
        wait_until(lambda: simulation.status() == psutil.STATUS_ZOMBIE)
        return Keep()(state)

    _, done = drive([opengym, f"--scenario={path}", "--timeout=3"], think_till_it_has_ended)
    assert (done.returncode, done.stderr) == (1, "bbrgym-opengym: no answer of the agent within 3 s\n")


def test_it_ends_with_its_agent(opengym, path):
    with zmq.Context() as context, context.socket(zmq.REP) as agent:
        agent.setsockopt(zmq.LINGER, 0)
        agent.setsockopt(zmq.RCVTIMEO, 120_000)
        port = agent.bind_to_random_port("tcp://127.0.0.1")
        words = [opengym, f"--scenario={path}", f"--openGymPort={port}"]
        process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
        agent.recv()
        agent.send(pb.SimInitAck(done=True).SerializeToString())
        agent.recv()
        agent.close()
        _, said = process.communicate(timeout=120)
    assert (process.returncode, said) == (1, "bbrgym-opengym: the agent has gone\n")


@pytest.mark.parametrize(
    "greeting", [b"HTTP/1.1 400 Bad Request" + bytes(64), b"\xff" + bytes(8) + b"\x7f\x01" + bytes(53)]
)
def test_who_does_not_speak_zeromq_is_not_an_agent(opengym, path, greeting):
    with socket.create_server(("127.0.0.1", 0)) as server:
        words = [opengym, f"--scenario={path}", f"--openGymPort={server.getsockname()[1]}", "--timeout=60"]
        process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
        connection, _ = server.accept()
        with connection:
            connection.sendall(greeting)
            _, said = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "is not a ZeroMQ socket without security" in said
