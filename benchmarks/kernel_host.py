# SPDX-License-Identifier: GPL-2.0-only
"""Hold `bbrgym kernel` to its promises, between two hosts of the world linux: other programs use its emulator.

iperf3, curl and many connections use a control; they take what is set with their next ACK; loads, unloads and killed
commands leave nothing in the kernel; our bbr does as the kernel's, in turn. As root, with iperf3, curl and bpftool.

usage: python benchmarks/kernel_host.py [MEASURE...]
"""

import ctypes
import fcntl
import http.server
import json
import os
import random
import re
import socket
import socketserver
import statistics
import subprocess
import sys
import threading
import time
import timeit
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import bbrgym
from bbrgym.host import controls
from bbrgym.host.pins import FOLDER
from bbrgym.host.system import available_controls

CYCLES, KILLS, CONNECTIONS, PAIRS, RUN_S, PATIENCE_S = 100, 50, (20, 200), 6, 12, 60
SECONDS = 3600.0
NARROW = {"rate_mbps": 20, "delay_ms": 1, "queue": {"size_bytes": 25_000}}  # half a BDP is more, so BBR loses
WIDE = {"rate_mbps": 100, "delay_ms": 1, "queue": {"size_bytes": 2_000_000}}  # room for many connections' windows
SILENT = {"name": "silent", "cc": "kernel-reno", "rtt_ms": 40, "start_s": SECONDS - 1}
OPTIONS = {"max_late_share": 1.0, "timestamps": True}
NEWNET, TUNGETDEVNETNS = 0x40000000, 0x54E3
SENDER, RECEIVER, PORT, IPERF3_PORT = "198.18.0.1", "198.18.0.2", 8000, "8001"
NAME = f"{controls.PREFIX}bench"
KERNEL = (sys.executable, "-m", "bbrgym", "kernel")
PAGE = bytes(10_000_000)


def run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout


# ---- the path -----------------------------------------------------------------------------------------------


def enter(namespace: str) -> None:
    """Let this thread, and what it starts, be in a network namespace."""
    with Path(namespace).open() as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), NEWNET):
            raise OSError(ctypes.get_errno(), "setns")


def namespaces() -> dict[str, str]:
    """Return the files of the network namespaces of this process's TUN devices, by their address."""
    tuns = [int(one.name) for one in Path("/proc/self/fd").iterdir() if str(one.resolve()) == "/dev/net/tun"]
    files = [f"/proc/{os.getpid()}/fd/{fcntl.ioctl(tun, TUNGETDEVNETNS)}" for tun in tuns]
    addresses = [run("nsenter", f"--net={file}", "ip", "-brief", "address", "show", "bbrgym") for file in files]
    return {text.split()[2].split("/")[0]: file for text, file in zip(addresses, files, strict=True)}


class Sink(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        with suppress(OSError):
            while self.request.recv(1 << 16):
                pass


@contextmanager
def hosts(link: dict[str, Any]) -> Iterator[str]:
    """Enter the senders' host of a run with a silent flow; yield the namespace of the receivers' host, which serves."""
    scenario = {"name": "path", "duration_s": SECONDS, "warmup_s": 0, "link": link, "flows": [SILENT]}
    with (
        closing(bbrgym.make_world("linux", scenario, 1, isolation="none", options=OPTIONS)) as world,
        ExitStack() as stack,
    ):
        has_ended = threading.Event()

        def go_on() -> None:
            while not has_ended.is_set():
                world.advance(0.5)

        clock = threading.Thread(target=go_on)
        clock.start()
        stack.callback(clock.join)
        stack.callback(has_ended.set)
        found = namespaces()
        command = ["nsenter", f"--net={found[RECEIVER]}", "iperf3", "--server", "--port", IPERF3_PORT]
        stack.callback(subprocess.Popen(command, stdout=subprocess.DEVNULL).kill)
        enter(found[RECEIVER])
        sink = stack.enter_context(socketserver.ThreadingTCPServer((RECEIVER, PORT), Sink))
        enter(found[SENDER])
        threading.Thread(target=sink.serve_forever, daemon=True).start()
        stack.callback(sink.shutdown)
        yield found[RECEIVER]


@contextmanager
def connections(name: str, number: int) -> Iterator[None]:
    """Send all the time over so many connections."""

    def send(one: socket.socket) -> None:
        with suppress(OSError):
            while True:
                one.sendall(PAGE)

    with ExitStack() as stack:
        for _ in range(number):
            one = stack.enter_context(socket.socket())
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
            one.connect((RECEIVER, PORT))
            stack.callback(one.shutdown, socket.SHUT_RDWR)
            threading.Thread(target=send, args=(one,), daemon=True).start()
        yield


# ---- what is measured ---------------------------------------------------------------------------------------


def held() -> list[str]:
    pins = map(str, FOLDER.rglob(f"*{NAME}*")) if FOLDER.exists() else ()
    maps = re.findall(rf'"name": "({NAME})"', run("bpftool", "struct_ops", "dump"))
    return [*(one for one in available_controls() if one == NAME), *pins, *maps]


def programs(receiver: str) -> None:
    """iperf3 and curl."""
    controls.load("bbq", {}, name=NAME)
    goodput_mbps, rtt_ms, retransmissions = iperf3(NAME)
    print(f"iperf3 -C {NAME}: {goodput_mbps:.2f} Mbit/s, {rtt_ms:.1f} ms, {retransmissions} retransmissions")
    used: list[bytes] = []

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(PAGE)
            used.append(self.connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0"))

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer((SENDER, PORT), Page) as server:
        server.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, NAME.encode())
        threading.Thread(target=server.serve_forever, daemon=True).start()
        told = ("--silent", "--output", "/dev/null", "--write-out", "%{size_download} bytes in %{time_total} s")
        print(f"curl: {run('nsenter', f'--net={receiver}', 'curl', *told, f'http://{SENDER}:{PORT}/')} under {used}")
        server.shutdown()
    controls.unload(NAME, is_forced=True)


def change(_: str) -> None:
    """A tunable that is set under load, seen with the first ACK after it."""
    control = controls.load("bbq", {}, name=NAME)
    for number, alpha_us in zip(CONNECTIONS, (1234, 4321), strict=True):
        with connections(NAME, number):
            time.sleep(10)
            controls.set_values(NAME, {"bbq_alpha_us": alpha_us})
            began_s = look_s = time.monotonic()
            acks = {row["cookie"]: row["acks"] for row in control.connections()}
            first: dict[int, tuple[float, float, bool, bool]] = {}
            while len(first) < number and time.monotonic() - began_s < PATIENCE_S:
                before_s, look_s = look_s, time.monotonic()
                for row in control.connections():
                    if row["cookie"] not in first and row["acks"] > acks.get(row["cookie"], 0):
                        is_in_time = before_s - began_s <= row["srtt_us"] / 1e6  # it came after the look before
                        has_it = row["tunables"]["bbq_alpha_us"] == alpha_us
                        first[row["cookie"]] = (look_s - began_s, row["srtt_us"] / 1e6, is_in_time, has_it)
                time.sleep(0.002)
        after_s, rtt_s, is_in_time, has_it = zip(*first.values(), strict=True)
        print(
            f"set beside {number} connections: {len(first)} had an ACK since, {sum(has_it)} the new value with it; "
            f"{sum(is_in_time)} within their RTT, of {statistics.median(rtt_s) * 1e3:.0f} ms in the middle; "
            f"half after {statistics.median(after_s) * 1e3:.0f} ms, all after {max(after_s) * 1e3:.0f} ms"
        )
    controls.unload(NAME, is_forced=True)


def cycle(_: str) -> None:
    """Loads and unloads under traffic."""
    for _ in range(CYCLES):
        controls.load("bbr3", {}, name=NAME)
        with connections(NAME, 3):
            controls.unload(NAME, is_forced=True)
    print(f"{CYCLES} loads and unloads under traffic")


def kill(_: str) -> None:
    """Commands that are killed."""
    load = ("load", "bbq", f"name={NAME}")
    actions = (load, ("set", NAME, "bbq_alpha_us=900"), ("unload", NAME, "--force"))
    takes_s = [timeit.timeit(lambda one=one: run(*KERNEL, *one), number=1) for one in actions]
    actions, takes_s = (*actions, ("watch",)), [*takes_s, takes_s[0]]
    generator, hit, tried = random.Random(1), 0, 0
    while hit < KILLS:
        at, tried = tried % len(actions), tried + 1
        if (NAME in controls.loaded_names()) != (at > 0):
            controls.load("bbq", {}, name=NAME) if at else controls.unload(NAME)
        with subprocess.Popen([*KERNEL, *actions[at]], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as one:
            with suppress(subprocess.TimeoutExpired):
                one.wait(generator.uniform(takes_s[at] / 2, takes_s[at]))
            hit += one.poll() is None
            one.kill()
    print(f"{hit} of {tried} commands killed, in the second half of what each takes")
    if NAME not in controls.loaded_names():
        controls.load("bbq", {}, name=NAME)
    run(*KERNEL, "unload", NAME, "--force")


def iperf3(name: str) -> tuple[float, float, float]:
    """Return goodput (Mbit/s), mean RTT (ms) and retransmissions."""
    end = json.loads(run("iperf3", "-c", RECEIVER, "-p", IPERF3_PORT, "-C", name, "-t", str(RUN_S), "--json"))["end"]
    sent = end["streams"][0]["sender"]
    return end["sum_received"]["bits_per_second"] / 1e6, sent["mean_rtt"] / 1e3, sent["retransmits"]


def compare(_: str) -> None:
    """Our bbr and the kernel's, in turn."""
    controls.load("bbr", {}, name=NAME)
    runs: dict[str, list[tuple[float, float, float]]] = {name: [] for name in (NAME, "bbr")}
    for at in range(PAIRS):
        for name in sorted(runs, reverse=at % 2 == 0):
            runs[name].append(iperf3(name))
            time.sleep(1)  # until the server is free
    means = {name: [statistics.mean(column) for column in zip(*rows, strict=True)] for name, rows in runs.items()}
    for what, ours, theirs in zip(("Mbit/s", "ms", "retransmissions"), *means.values(), strict=True):
        print(f"{NAME} {ours:.2f} {what}, bbr {theirs:.2f}: {ours / theirs - 1:+.1%}")
    controls.unload(NAME, is_forced=True)


MEASURES = {one.__name__: one for one in (programs, change, cycle, kill, compare)}


def main(names: list[str]) -> None:
    for name in names or MEASURES:
        with hosts(WIDE if name == "change" else NARROW) as receiver:
            MEASURES[name](receiver)
            began_s = time.monotonic()
            while held() and time.monotonic() - began_s < PATIENCE_S:
                time.sleep(0.1)
            print(f"  after {time.monotonic() - began_s:.1f} s the kernel holds of ours: {held()}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
