# SPDX-License-Identifier: GPL-2.0-only
"""External flows, by scripted ends: what goes in comes out once, at its time, in its order."""

import math
import traceback
from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twin_harness import flow, scenario

import bbrgym
from bbrgym import quic

MS = 1_000_000


@dataclass
class Script:
    """Ends that send when a plan says so, [(time_ns, end, size_bytes)], and note what happens."""

    port: object
    plan: list[tuple[int, int, int]]
    sent: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    seen: list[tuple] = field(default_factory=list)

    def write(self, now_ns, size_bytes):
        self.seen.append(("write", now_ns, size_bytes))
        for end in (0, 1):
            self.due(now_ns, end)

    def due(self, now_ns, end):
        for at_ns, sender, size in [one for one in self.plan if one[0] <= now_ns and one[1] == end]:
            self.plan.remove((at_ns, sender, size))
            self.sent[len(self.sent)] = (now_ns, end, size)
            self.port.send(end, size, len(self.sent) - 1)
        self.port.set_timer(end, min((at_ns for at_ns, sender, _ in self.plan if sender == end), default=None))

    def delivered(self, now_ns, end, tag):
        self.seen.append(("delivered", now_ns, end, tag))

    def dropped(self, now_ns, tag):
        self.seen.append(("dropped", now_ns, None, tag))

    def state(self):
        return (math.nan,) * 5


def open_scripts(patch, kind=Script):
    """Make ``quic: script`` a stack; return its plan and what it opened."""
    plan: list[tuple[int, int, int]] = []
    made: list[Script] = []
    opens = quic.Stack(("reno",), lambda *given: made.append(kind(given[-1], plan[:])) or made[-1])
    patch.setitem(quic.STACKS, "script", opens)
    return plan, made


@pytest.fixture
def opened(monkeypatch):
    return open_scripts(monkeypatch)


def run(mapping, steps=1, seed=1):
    with bbrgym.make_world("twin", mapping, seed=seed) as world:
        while not world.done:
            world.advance(mapping["duration_s"] / steps)
        return world.summary()


EXTERNAL = {"cc": "reno", "quic": "script"}


def test_a_datagram_alone_arrives_after_its_way(opened):
    plan, made = opened
    plan += [(5 * MS, 0, 1222), (30 * MS, 1, 100)]
    run(scenario(flow(**EXTERNAL), duration_s=1.0))
    there = ("delivered", 25 * MS + 1_000_000, 1, 0)  # 20 ms, and 1,250 bytes of IP at 10 Mbit/s
    back = ("delivered", 50 * MS, 0, 1)
    assert made[0].seen == [("write", 0, None), there, back, ("write", 1_000 * MS, 0)]


@given(data=st.data())
def test_what_is_sent_arrives_once_or_is_dropped_once_in_order(data):
    times = st.integers(0, 900 * MS)
    plan = data.draw(st.lists(st.tuples(times, st.integers(0, 1), st.integers(1, 4000)), max_size=60))
    links = [{}, {"reverse": {"rate_mbps": 1.0, "delay_ms": 10.0, "queue": {"size_packets": 3}}}]
    link = {
        "loss": {"kind": "bernoulli", "rate": 0.1},
        "queue": {"size_packets": 5},
        **data.draw(st.sampled_from(links)),
    }
    mapping = scenario(flow("a"), flow("q", **EXTERNAL), duration_s=3.0, **link)
    steps = data.draw(st.integers(1, 7))
    seen, rows = [], []
    for cut in (1, steps):
        with pytest.MonkeyPatch.context() as patch:
            planned, made = open_scripts(patch)
            planned += plan
            rows.append(run(mapping, cut))
        seen.append((made[0].sent, made[0].seen))
    assert seen[0] == seen[1], "the size of the steps changes nothing"
    assert [row.tobytes() for row in rows[0]] == [row.tobytes() for row in rows[1]]
    sent, events = seen[0]
    ends = [event for event in events if event[0] != "write"]
    assert Counter(tag for *_, tag in ends) == Counter(range(len(sent)))
    times_ns = [event[1] for event in events]
    assert times_ns == sorted(times_ns)
    for end in (0, 1):
        tags = [tag for kind, _, at, tag in ends if kind == "delivered" and at == end]
        assert tags == sorted(tags)
        assert all(sent[tag][1] == 1 - end for tag in tags)
    names = bbrgym.World.flow_summary_fields
    row = dict(zip(names, rows[0][0][1], strict=True))
    there = [tag for tag, (now_ns, end, _) in sent.items() if end == 0 and now_ns >= 0.75e9]  # after the warm-up
    dropped = [tag for kind, now_ns, _, tag in ends if kind == "dropped" and sent[tag][1] == 0 and now_ns >= 0.75e9]
    assert row["sent_pkts"] == len(there)
    assert row["dropped_pkts"] == len(dropped)
    assert math.isnan(row["retransmit_rate"])


def test_a_silent_one_changes_nothing_of_ours(opened):
    names = bbrgym.World.flow_summary_fields
    mine = [names.index(name) for name in ("sent_pkts", "dropped_pkts", "rtt_mean_ms", "goodput_mbps", "rto_count")]
    loss = {"loss": {"kind": "bernoulli", "rate": 0.01}}
    alone = run(scenario(flow("a"), duration_s=5.0, **loss))[0][0, mine]
    beside = run(scenario(flow("a"), flow("q", **EXTERNAL), duration_s=5.0, **loss))[0][0, mine]
    assert alone.tobytes() == beside.tobytes()


class Timers(Script):
    def write(self, now_ns, size_bytes):
        if size_bytes is None:
            self.port.set_timer(0, 5 * MS)
            self.port.set_timer(0, 7 * MS)  # in its place
            self.port.set_timer(1, 7 * MS)  # at the same time, but later
            self.left = 3

    def due(self, now_ns, end):
        self.seen.append((now_ns, end))
        if end == 0 and self.left:
            self.left -= 1
            self.port.set_timer(0, now_ns - self.left)


def test_timers_come_in_the_order_in_which_they_were_set(monkeypatch):
    _, made = open_scripts(monkeypatch, Timers)
    run(scenario(flow(**EXTERNAL), duration_s=1.0))
    at = 7 * MS
    assert made[0].seen == [(at, 0), (at, 1), (at + 1000, 0), (at + 2000, 0), (at + 3000, 0)]


def test_a_mistake_of_the_ends_reaches_the_user_with_its_traceback(opened, monkeypatch):
    plan, made = opened
    plan += [(400 * MS, 0, 100)]
    monkeypatch.setattr(Script, "delivered", lambda *_: 1 // 0)
    mapping = scenario(flow(**EXTERNAL), duration_s=1.0)
    with bbrgym.make_world("twin", mapping) as world:
        with pytest.raises(bbrgym.WorldError, match="ZeroDivisionError") as raised:
            world.advance(1.0)
        assert "1 // 0" in "".join(traceback.format_exception(raised.value))
        with pytest.raises(ValueError, match="is not running"):
            world.advance(1.0)
        plan.clear()
        world.reset()
        world.advance(1.0)
    with pytest.raises(RuntimeError, match="the port's run is over"):
        made[-1].port.set_timer(0, None)


def test_what_cannot_be_done_is_said(opened):
    mapping = scenario(flow(**EXTERNAL), duration_s=1.0)
    with bbrgym.make_world("twin", mapping) as world:
        for act, problem in (
            (world.save, "a run with flows of quic cannot be saved"),
            (lambda: world.trace_acks(0, 10), "the ACKs of a flow with quic cannot be traced"),
            (world.trace_packets, "the packets of a scenario of several links or with quic cannot be traced"),
            (lambda: opened[1][0].port.send(0, 5000, 0), "send: size_bytes = 5000: a datagram is empty or larger"),
            (lambda: opened[1][0].port.send(2, 50, 0), "end = 2, expected 0 or 1"),
        ):
            with pytest.raises(ValueError, match=problem):
                act()
    with pytest.raises(bbrgym.ScenarioError, match=r"flows\[0\].quic: is 'script', which world 'ns3' does not run"):
        bbrgym.make_world("ns3", mapping)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"quic": "quiche", "cc": "reno"}, "quic: is 'quiche'; did you mean aioquic? allowed are aioquic, ngtcp2"),
        ({"quic": "aioquic", "cc": "bbr"}, "cc: is 'bbr', expected one of aioquic: reno, cubic"),
        ({"quic": "aioquic", "cc": "reno", "role": "tuned"}, "quic: is 'aioquic' where role is 'tuned', expected"),
        ({"quic": "ngtcp2", "cc": "bbr", "stack": {"ecn": True}}, "stack: is given, expected none: ngtcp2 has its own"),
        ({"quic": "ngtcp2", "cc": "bbr", "tunables": {"bbr_cwnd_gain": 2.0}}, "quic: is 'ngtcp2' where tunables are"),
    ],
)
def test_a_wrong_field_is_one_sentence(fields, problem):
    with pytest.raises(bbrgym.ScenarioError) as raised:
        bbrgym.load_scenario(scenario(flow(**fields)))
    assert problem in str(raised.value)
