# SPDX-License-Identifier: GPL-2.0-only
"""Runs on this machine's kernel: what they do and show, never how fast."""

import ctypes
import fcntl
import gc
import itertools
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from kernel_world import ANY_LATENESS, needs_bpf, needs_kernel, scenario, summary_of
from owners import another_owner, nothing_left, open_files, thread_ids
from processes import ends_within, workers
from waiting import PATIENCE_S, wait_until

import bbrgym
from bbrgym.errors import ConfigError

pytestmark = needs_kernel

CLONE_NEWNET, TUNGETDEVNETNS = 0x40000000, 0x54E3
TCP_ESTABLISHED = 1
TCPI_OPT_TIMESTAMPS = 1
PAYLOAD_RATIO = 1448 / 1488


@pytest.mark.parametrize(
    ("cc", "unprivileged"),
    [("kernel-bbr", False), ("kernel-cubic", True), pytest.param("kernel-reno", False, marks=pytest.mark.slow)],
)
def test_a_controller_of_the_kernels_uses_the_link(cc, unprivileged):
    # From the start on: what becomes readable in a later window may have left the link before it.
    (flow,), link = summary_of(scenario({"cc": cc}) | {"warmup_s": 0.0}, user_namespace=unprivileged)
    assert link["capacity_mbps"] == pytest.approx(20.0)
    assert 0.3 < link["utilisation"] <= 1.01
    assert flow["rtt_min_ms"] >= 40.0
    assert flow["goodput_mbps"] <= flow["throughput_mbps"] * PAYLOAD_RATIO
    assert flow["sent_pkts"] > 150


@needs_bpf
@pytest.mark.parametrize("cc", ["bbq", "bbr3"])
def test_ours_run_in_the_kernel_and_show_their_state(cc):
    with bbrgym.make_world("linux", scenario({"cc": cc}), options=ANY_LATENESS) as world:
        world.advance(1.0)
        stats = dict(zip(world.flow_fields, world.flow_stats()[0], strict=True))
    assert stats["sent_pkts"] > 150
    assert stats["min_rtt_ms"] >= 40.0
    assert min(stats["bw_mbps"], stats["pacing_mbps"]) > 1.0
    assert stats["phase"] < 16


@pytest.mark.parametrize("cc", ["cubic", "reno"])
def test_the_kernel_runs_its_own_for_a_model_of_it(cc):
    kinds = [bbrgym.worlds.world_spec("linux").has_controller(name) for name in (cc, "vegas")]
    assert kinds == [True, False]
    (flow,), _ = summary_of(scenario({"cc": cc}))
    assert flow["sent_pkts"] > 100


@pytest.mark.parametrize(
    ("flows", "problem"),
    [
        ([{"cc": "vegas"}], "0].cc: is 'vegas', which world 'linux' does not have; it needs world .*twin"),
        ([{"cc": "reno", "stack": {"hystart": False}}], "0].stack.hystart: is .*: the sockets are this machine's ker"),
        ([{"stack": {"delayed_ack_ms": 10}}], "0].stack.delayed_ack_ms: is 10, expected 40, that of linux-6"),
        ([{"stack": {"pacing": "none"}}], "0].stack.pacing: is 'none', expected 'internal', that of"),
        ([{"stack": {"gso_max_segs": 1}}, {}], "1].stack.gso_max_segs: is 65535, expected 1 as of the other flows"),
        ([{}, {"stack": {"timestamps": True}}], "1].stack.timestamps: is true, expected false as of .*: it belongs to"),
    ],
)
def test_what_the_kernel_fixes_or_does_not_have_cannot_be_chosen(flows, problem):
    with pytest.raises(ValueError, match=r"flows\[" + problem.replace("].", r"\]\.")):
        bbrgym.make_world("linux", scenario(*flows))


@needs_bpf
def test_the_acks_of_ours_are_traced():
    flows = ({"cc": "bbq"}, {"cc": "kernel-bbr"})
    with bbrgym.make_world("linux", scenario(*flows), isolation="none", options=ANY_LATENESS) as world:
        world.trace_acks(0, 100)
        world.advance(1.0)
        trace = world.ack_trace(0)
        assert len(trace) == 100
        assert (np.diff(trace["time_us"]) >= 0).all()
        assert (np.diff(trace["delivered_pkts"]) >= 0).all()
        assert 40_000 < trace["time_us"][0] < 1_000_000
        assert (trace["rtt_us"][trace["rtt_us"] >= 0] >= 40_000).all()
        with pytest.raises(ValueError, match=r"ack trace: flows\[1\]\.cc is 'kernel-bbr', of whose ACKs"):
            world.trace_acks(1, 100)


@needs_bpf
def test_what_was_in_flight_when_a_packet_left_is_known_of_each_ack():
    lossy = scenario({"cc": "bbr3"}, duration_s=2.0, loss={"kind": "bernoulli", "rate": 0.01})
    with bbrgym.make_world("linux", lossy, isolation="none", options=ANY_LATENESS) as world:
        world.trace_acks(0, 100_000)
        world.advance(2.0)
        trace = world.ack_trace(0)
    out, lost, arrived = (trace[name].astype(int) for name in ("tx_in_flight_pkts", "lost_since_pkts", "sample_pkts"))
    known = arrived > 0
    assert known.sum() > 500
    assert lost.max() > 0
    assert out[known].min() > 0
    # What was in flight has arrived by now, and the packet itself, or was lost.
    assert np.quantile(np.abs(out - lost - arrived)[known], 0.95) <= 2


@needs_bpf
def test_both_generations_run_beside_each_other():
    flows, _ = summary_of(scenario({"cc": "bbr"}, {"cc": "bbr3"}, {"cc": "bbr3-mix"}))
    assert min(flow["sent_pkts"] for flow in flows) > 50


@needs_bpf
@pytest.mark.parametrize("beside", ["cubic", pytest.param("kernel-cubic", marks=pytest.mark.slow)])
def test_an_agent_is_evaluated_beside_the_kernels_own(beside):
    flows = ({"cc": "bbr", "role": "tuned"}, {"cc": beside, "role": "background"})
    rows = bbrgym.evaluate(
        scenario(*flows) | {"warmup_s": 0.0},
        ["kernel-bbr"],
        agent="random",
        world={"linux": {"options": ANY_LATENESS}},
    )
    assert rows["variant"].to_list() == ["kernel-bbr", "kernel-bbr", "bbr-mix", "bbr-mix"]
    assert rows["cc"].to_list() == ["kernel-bbr", beside, "bbr-mix", beside]
    assert np.isfinite(rows["score"].to_numpy()).all()
    assert (rows["goodput_mbps"].to_numpy() > 0).all()


def test_an_evaluation_keeps_the_lateness_of_its_runs():
    worlds = {"linux": {"options": ANY_LATENESS}, "ns3": {}}
    flows = [{"cc": cc, "role": "tuned"} for cc in ("bbr", "cubic")]
    rows = bbrgym.evaluate(scenario(*flows), ["cubic"], world=worlds)
    lateness = rows.select("late_p50_us", "late_p99_us", "late_p999_us", "late_share", "late_repeats")
    of_kernel, of_ns3 = (lateness.filter(rows["world"] == world) for world in worlds)
    assert len(of_kernel) == len(of_ns3) == 2
    p50_us, p99_us, p999_us, share, repeats = of_kernel.row(0)
    assert 0.0 <= p50_us <= p99_us <= p999_us
    assert 0.0 <= share <= 1.0
    assert repeats == 0
    assert of_ns3.row(0) == (None,) * 5


@needs_bpf
@pytest.mark.parametrize(
    ("cc", "tunable", "first", "value"), [("bbr-mix", "bbr_cwnd_gain", 2.0, 1.0), ("bbr3", "bbr3_cwnd_gain", 3.0, 1.5)]
)
def test_tunables_are_set_while_the_flow_runs(cc, tunable, first, value):
    lossless = scenario({"cc": cc, "tunables": {tunable: first}}, duration_s=2.0, queue={"size_bdp": 5.0})
    with bbrgym.make_world("linux", lossless, options=ANY_LATENESS) as world:
        cwnd = world.flow_fields.index("cwnd_pkts")
        world.advance(1.0)
        before = world.flow_stats()[0, cwnd]
        world.set_tunables(0, {tunable: value})
        world.advance(1.0)
        assert world.tunables()[0, world.tunable_names.index(tunable)] == value
        assert world.flow_stats()[0, cwnd] < 0.8 * before


def test_an_open_connection_switches_between_the_kernels_own():
    with bbrgym.make_world("linux", scenario({"cc": "switch"}, duration_s=2.0), options=ANY_LATENESS) as world:
        phases = []
        for arm in (0, 2, 1):  # cubic, bbr, reno
            world.set_tunables(0, {"switch_arm": arm})
            world.advance(0.5)
            phases.append(world.flow_stats()[0, world.flow_fields.index("phase")] < 16)
        assert phases == [False, True, False]
        world.set_tunables(0, {"switch_arm": 3})
        with pytest.raises(
            ConfigError, match="switch_arm is bbr3, which no kernel has of its own, expected arms cubic"
        ):
            world.advance(0.5)


def test_other_threads_go_on_while_a_network_is_built():
    ended, turns = threading.Event(), 0

    def turn():
        nonlocal turns
        while not ended.is_set():
            turns += 1
            time.sleep(0)  # gives the lock away; nobody takes it from a thread before the interval is over

    before = sys.getswitchinterval()
    thread = threading.Thread(target=turn)
    with bbrgym.make_world("linux", scenario(), isolation="none") as world:
        sys.setswitchinterval(100.0)
        try:
            thread.start()
            turns_before = turns
            world.reset()
            assert turns > turns_before
        finally:
            sys.setswitchinterval(before)
            ended.set()
            thread.join()


def test_an_interval_ends_where_the_next_begins():
    with bbrgym.make_world("linux", scenario(), options=ANY_LATENESS) as world:
        assert (world.now_s, world.done) == (0.0, False)
        sent = world.flow_fields.index("sent_pkts")
        total, times = 0.0, [0.0]
        while not world.done:
            world.advance(0.15)
            total += world.flow_stats()[0, sent]
            times.append(world.now_s)
        assert all(later - earlier > 0.149 for earlier, later in itertools.pairwise(times[:-1]))
        assert times[-1] == 1.0
        assert total > 500
        assert np.isfinite(world.flow_stats()).all()
        assert np.isfinite(world.link_stats()).all()
        world.reset()
        assert (world.now_s, world.done) == (0.0, False)
        with pytest.raises(ConfigError, match="cannot"):
            world.save()


def test_a_caller_who_is_late_gets_a_longer_interval_without_a_gap():
    with bbrgym.make_world("linux", scenario(), options=ANY_LATENESS) as world:
        world.advance(0.1)
        began_s = time.monotonic()
        wait_until(lambda: time.monotonic() > began_s + 0.5)
        world.advance(0.1)
        assert world.now_s >= 0.5


def test_each_flow_has_its_own_rtt_start_and_stop():
    flows, _ = summary_of(
        scenario({"rtt_ms": 20.0}, {"rtt_ms": 120.0}, {"start_s": 0.5, "stop_s": 0.7}, duration_s=1.5)
    )
    assert [flow["start_s"] for flow in flows[:2]] == pytest.approx([0.75, 0.75])
    assert 20.0 <= flows[0]["rtt_min_ms"] < 120.0 <= flows[1]["rtt_min_ms"]
    assert np.isnan(flows[2]["goodput_mbps"])  # it stopped before the warm-up ended


@pytest.mark.parametrize(
    "app", [{"kind": "cbr", "rate_mbps": 2.0}, {"kind": "onoff", "rate_mbps": 4.0, "on_s": 0.2, "off_s": 0.2}]
)
def test_an_application_sends_what_it_writes(app):
    with bbrgym.make_world("linux", scenario({"app": app}, duration_s=2.0), options=ANY_LATENESS) as world:
        world.advance(2.0)
        stats = dict(zip(world.flow_fields, world.flow_stats()[0], strict=True))
    written_pkts = 2.0 * 2e6 / 8 / 1448
    assert stats["sent_pkts"] - stats["retransmitted_pkts"] == pytest.approx(written_pkts, abs=30)
    assert stats["busy_share"] < 1.0


def test_transfers_end_and_their_completion_is_measured():
    transfer = {"size_bytes": 20_000}
    crowd = {"kind": "flows", "size_bytes": [3_000], "exponential": True, "within_s": 0.5}
    flows, _ = summary_of(
        scenario(
            {"cc": "kernel-cubic", "app": {"kind": "bulk", **transfer}},
            {"cc": "kernel-bbr", "app": {"kind": "bulk", **transfer}, "start_s": 0.2},
            {"count": 4, "app": crowd},
            {"cc": "kernel-reno"},
            duration_s=2.0,
        )
        | {"warmup_s": 0.0}
    )
    *transfers, endless = flows
    assert len(transfers) == 6
    assert [flow["completed"] for flow in transfers] == [1.0] * 6
    assert all(0.06 <= flow["completion_s"] < 2.0 and flow["slowdown"] >= 1.0 for flow in transfers)
    assert [flow["sent_pkts"] - flow["retransmitted_pkts"] for flow in transfers[:2]] == [14, 14]
    assert np.isnan([endless["completed"], endless["completion_s"]]).all()


def test_ecn_marks_what_asks_for_it():
    (asks, does_not), link = summary_of(
        scenario({"stack": {"ecn": True}}, {}, queue={"size_bdp": 2.0, "ecn_threshold_packets": 10})
    )
    assert asks["ecn_marked_pkts"] > 0
    assert does_not["ecn_marked_pkts"] == 0
    assert link["ecn_marked_pkts"] == asks["ecn_marked_pkts"]


@pytest.mark.parametrize("mss_bytes", [pytest.param(64, marks=pytest.mark.slow), 65_000])
def test_segments_are_as_small_and_as_large_as_a_scenario_may_have_them(mss_bytes):
    (flow,), _ = summary_of(
        scenario(queue={"size_bytes": 1_000_000}, duration_s=2.0) | {"mss_bytes": mss_bytes, "warmup_s": 0.0}
    )
    assert flow["goodput_mbps"] == pytest.approx(flow["throughput_mbps"] * mss_bytes / (mss_bytes + 40), rel=0.2)
    assert flow["throughput_mbps"] * 2e6 / 8 / flow["sent_pkts"] == pytest.approx(mss_bytes + 40, rel=0.5)


def test_a_small_receive_buffer_holds_the_sender_back():
    (flow,), _ = summary_of(scenario({"stack": {"receive_buffer_bytes": 20_000}}))
    assert flow["rwnd_limited_share"] > 0.5
    assert flow["goodput_mbps"] < 10.0


@pytest.mark.parametrize("unit", ["skb", "packet"])
def test_what_tso_hands_over_is_lost_together(unit):
    """A burst has two segments at least. Of single losses one in five has another among ten packets around it."""
    loss = {"kind": "bernoulli", "rate": 0.02, "unit": unit}
    mapping = scenario({"cc": "kernel-bbr"}, duration_s=2.0, loss=loss)
    lost = []
    with bbrgym.make_world("linux", mapping, seed=1, options=ANY_LATENESS) as world:
        while not world.done:
            world.advance(0.002)
            lost.append(world.link_stats()[world.link_fields.index("random_lost_pkts")])
    lost = np.array([0.0, *lost, 0.0])
    is_beside = (lost > 1) | (np.roll(lost, 1) + np.roll(lost, -1) > 0)
    assert lost.sum() > 20
    assert (lost[is_beside].sum() / lost.sum() > 0.55) == (unit == "skb")


def test_one_segment_at_a_time_is_a_choice():
    flows, _ = summary_of(scenario({"cc": "kernel-bbr", "stack": {"gso_max_segs": 1}}), timestamps=True)
    assert flows[0]["sent_pkts"] > 150


@pytest.mark.parametrize("has_timestamps", [False, True])
def test_a_scenario_may_turn_the_timestamps_on(has_timestamps):
    flows = scenario({}, {"cc": "kernel-bbr"}) | {"stack": {"timestamps": has_timestamps}}
    with bbrgym.make_world("linux", flows, isolation="none", options=ANY_LATENESS) as world:
        world.advance(0.5)
        assert _timestamps_of_connections() == {has_timestamps}


def test_a_late_run_is_refused_with_its_lateness():
    with bbrgym.make_world("linux", scenario(duration_s=0.5), options={"max_late_share": 0.0}) as world:
        try:
            world.advance(0.5)
        except bbrgym.WorldError as error:
            assert "packets were written more than 1 ms late" in str(error)  # noqa: PT017 - a fast machine has none
        else:
            assert world.summary()[1][world.link_summary_fields.index("late_share")] == 0.0


OWNER = """
import sys
import bbrgym
scenario = eval(sys.stdin.readline())
with bbrgym.make_world("linux", scenario, options={"max_late_share": 1.0}, isolation=ISOLATION) as world:
    world.advance(0.2)
    print("ready", flush=True)
    world.advance(1000.0)
"""


@pytest.mark.parametrize("isolation", ["process", "none"])
def test_nothing_is_left_of_a_run_that_is_killed(isolation):
    before = _seen_outside()
    with another_owner(OWNER.replace("ISOLATION", repr(isolation)), repr(scenario(duration_s=1000.0))) as owner:
        pid = workers(owner.pid)[0].pid if isolation == "process" else owner.pid
        assert _seen_outside() <= before  # nothing is seen outside either
        pid_fd = os.pidfd_open(pid)
        tuns = _tuns_of(pid)
        assert len(tuns) == 2
        os.kill(owner.pid, signal.SIGKILL)
        assert ends_within(pid_fd, PATIENCE_S)
        os.close(pid_fd)
        wait_until(lambda: not Path(f"/proc/{pid}/fd").exists() or not _tuns_of(pid))
    assert _seen_outside() <= before


def test_a_run_that_is_over_occupies_no_core_and_a_closed_one_nothing():
    gc.collect()
    before = _locked_memory_kib()
    with nothing_left():
        files, threads = open_files(), thread_ids()
        with bbrgym.make_world("linux", scenario(duration_s=0.5), options=ANY_LATENESS, isolation="none") as world:
            world.advance(0.1)
            own = thread_ids() - threads
            assert open_files() - files
            world.advance(1.0)
            assert (world.done, len(own & thread_ids())) == (True, len(own) - 1)
    assert _locked_memory_kib() <= before


NO_DESCRIPTORS = """
import os, resource
import pytest
import bbrgym
with bbrgym.make_world("linux", {scenario!r}, options={{"max_late_share": 1.0}}, isolation="none") as world:
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
    taken = []
    with pytest.raises(OSError, match="Too many open files"):
        while True:
            taken.append(os.dup(0))
    for _ in range({spare}):
        os.close(taken.pop())
    with pytest.raises(bbrgym.WorldError, match="{what}.*Too many open files"):
        world.advance(2.0)
    with pytest.raises(ValueError, match="reset"):
        world.advance(2.0)
"""


@pytest.mark.parametrize(("spare", "what"), [(0, "making an epoll"), (3, "accepting the connection of flow 'f0'")])
def test_a_run_that_gets_no_descriptors_is_an_error_and_over(spare, what):
    code = NO_DESCRIPTORS.format(scenario=scenario(), spare=spare, what=what)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr


def test_signals_do_not_end_the_building_of_a_network():
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    try:
        for _ in range(5):
            bbrgym.make_world("linux", scenario(), isolation="none").close()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")  # Python 3.12
def test_a_fork_neither_uses_nor_ends_the_run():
    with bbrgym.make_world("linux", scenario(), options=ANY_LATENESS, isolation="none") as world:
        world.advance(0.1)
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                world.advance(0.1)
            except RuntimeError as error:
                code = 0 if f"belongs to process {os.getppid()}" in str(error) else 2
            world.close()
            os._exit(code)
        pid_fd = os.pidfd_open(pid)
        assert ends_within(pid_fd, PATIENCE_S)
        os.close(pid_fd)
        assert os.waitpid(pid, 0) == (pid, 0)
        world.advance(1.0)
        assert world.done


@pytest.mark.skipif(os.geteuid() != 0, reason="no root, which may enter network namespaces")
@pytest.mark.parametrize("link", [{}, {"loss": {"kind": "bernoulli", "rate": 0.01, "unit": "skb"}}])
def test_connections_of_other_programs_take_the_path_of_the_first_flow(link):
    def enter(tun):
        return ctypes.CDLL(None).setns(fcntl.ioctl(tun, TUNGETDEVNETNS), CLONE_NEWNET)

    def send():
        with socket.create_connection(("198.18.0.2", 80), PATIENCE_S) as connection:
            connection.sendall(content)

    def receive(listener):
        with listener, listener.accept()[0] as connection, connection.makefile("rb") as file:
            return file.read()

    content, silent = np.random.default_rng(1).bytes(500_000), scenario({"start_s": 999.0}, duration_s=1000.0, **link)
    with (
        bbrgym.make_world("linux", silent, options=ANY_LATENESS, isolation="none") as world,
        ThreadPoolExecutor(1) as senders,
        ThreadPoolExecutor(1) as receivers,
    ):
        descriptors = Path("/proc/self/fd").iterdir()
        tuns = sorted(int(one.name) for one in descriptors if one.resolve() == Path("/dev/net/tun"))
        assert [one.submit(enter, tun).result() for one, tun in zip((senders, receivers), tuns, strict=True)] == [0, 0]
        received = receivers.submit(receive, receivers.submit(socket.create_server, ("198.18.0.2", 80)).result())
        sent, sent_pkts, began_s = senders.submit(send), 0.0, time.monotonic()
        while not received.done() and time.monotonic() < began_s + PATIENCE_S:
            world.advance(0.1)
            sent_pkts += world.flow_stats()[0][list(world.flow_fields).index("sent_pkts")]
        sent.result()
        assert received.result() == content
        assert sent_pkts == 0  # of the flow


def test_a_run_ends_at_its_timeout_and_at_ctrl_c():
    with bbrgym.make_world("linux", scenario(), isolation="none", timeout_s=0.2) as world:
        with pytest.raises(bbrgym.WorldError, match=r"no answer within 0\.2 s"):
            world.advance(1.0)
        with pytest.raises(ValueError, match="reset"):
            world.advance(1.0)
    with bbrgym.make_world("linux", scenario(duration_s=1000.0), options=ANY_LATENESS, isolation="none") as world:
        world.advance(0.1)
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            with pytest.raises(KeyboardInterrupt):
                world.advance(1000.0)
        finally:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)


def _timestamps_of_connections() -> set[bool]:
    """Whether TCP's timestamps are on, of each connection of this process."""
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        if entry.exists() and stat.S_ISSOCK(entry.stat().st_mode):
            with socket.socket(fileno=os.dup(int(entry.name))) as one:
                if (one.family, one.type) == (socket.AF_INET, socket.SOCK_STREAM):
                    info = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 8)
                    state, options = info[0], info[5]
                    if state == TCP_ESTABLISHED:
                        found.add(bool(options & TCPI_OPT_TIMESTAMPS))
    return found


def _seen_outside() -> set[str]:
    """The names of our devices and network namespaces that everyone sees."""
    folder = Path("/run/netns")
    namespaces = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    return {name for name in namespaces | {name for _, name in socket.if_nameindex()} if "bbrgym" in name}


def _locked_memory_kib() -> int:
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmLck:")]
    return int(line.split()[1])


def _tuns_of(pid: int) -> list[str]:
    """The descriptors of TUN devices that a process has."""
    try:
        entries = list(Path(f"/proc/{pid}/fd").iterdir())
        return [entry.name for entry in entries if entry.readlink() == Path("/dev/net/tun")]
    except FileNotFoundError:  # it ends meanwhile
        return []
