# SPDX-License-Identifier: GPL-2.0-only
"""Loads controls into the running kernel many times, kills commands, and compares our bbr with the kernel's in turn.

It needs root, iperf3 and bpftool, and makes its own path of TUN devices: the world linux carries its own flows alone.
"""

import ctypes
import fcntl
import json
import os
import random
import re
import select
import socket
import statistics
import struct
import subprocess
import sys
import time
import timeit
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import Process

from bbrgym.host import controls
from bbrgym.host.pins import FOLDER
from bbrgym.host.system import available_controls

CYCLES, KILLS, PAIRS, RUN_S, PATIENCE_S = 100, 50, 6, 12, 60
RATE_BPS, ONE_WAY_S, QUEUE_BYTES = 20e6, 0.02, 25_000  # half a BDP is more than the queue holds, so BBR loses
NEWNET, TUNSETIFF, TUN_WITHOUT_INFO = 0x40000000, 0x400454CA, 0x1001
RECEIVER = "10.9.0.2"
KERNEL = (sys.executable, "-m", "bbrgym", "kernel")


def run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout


def host(address: str) -> int:
    """Enter a new network namespace with a TUN device; return the device."""
    if ctypes.CDLL(None, use_errno=True).unshare(NEWNET):
        raise OSError(ctypes.get_errno(), "unshare")
    tun = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", b"path", TUN_WITHOUT_INFO))
    for command in (f"addr add {address}/24 dev path", "link set path mtu 1500 up", "link set lo up"):
        run("ip", *command.split())
    return tun


def relay(sender: int, receiver: int) -> None:
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
    due: dict[int, deque[tuple[float, bytes]]] = {sender: deque(), receiver: deque()}
    free_s = 0.0
    while True:
        wait_s = min((queue[0][0] for queue in due.values() if queue), default=1e12) - time.monotonic()
        readable, _, _ = select.select([sender, receiver], [], [], min(max(wait_s, 0.0), 1.0))
        now_s = time.monotonic()
        for tun in readable:
            packet = os.read(tun, 2000)
            if tun == receiver:
                due[sender].append((now_s + ONE_WAY_S, packet))
            elif (free_s - now_s) * RATE_BPS / 8 <= QUEUE_BYTES:
                free_s = max(free_s, now_s) + len(packet) * 8 / RATE_BPS
                due[receiver].append((free_s + ONE_WAY_S, packet))
        for tun, queue in due.items():
            while queue and queue[0][0] <= now_s:
                os.write(tun, queue.popleft()[1])


def held() -> list[str]:
    pins = map(str, FOLDER.rglob("*")) if FOLDER.exists() else ()
    maps = re.findall(rf'"name": "({controls.PREFIX}\w+)"', run("bpftool", "struct_ops", "dump"))
    return [*filter(controls.is_name, available_controls()), *pins, *maps]


def print_held() -> None:
    began_s = time.monotonic()
    while held() and time.monotonic() - began_s < PATIENCE_S:
        time.sleep(0.1)
    print(f"  after {time.monotonic() - began_s:.1f} s the kernel holds of ours: {held()}", flush=True)


@contextmanager
def connection(name: str) -> Iterator[None]:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as sender:
        sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
        sender.connect(listener.getsockname())
        with listener.accept()[0]:
            sender.sendall(bytes(1 << 16))
            yield


def cycle() -> None:
    for _ in range(CYCLES):
        control = controls.load("bbr3", {})
        with connection(control.name):
            controls.unload(control.name, is_forced=True)
    print(f"{CYCLES} loads and unloads under traffic")


def kill() -> None:
    actions = (("load", "bbq"), ("set", "gym_bbq", "bbq_alpha_us=9"), ("watch",), ("unload", "gym_bbq", "--force"))
    longest_s = timeit.timeit(lambda: run(*KERNEL, "load", "bbq"), number=1)
    generator, hit = random.Random(1), 0
    for at in range(KILLS):
        if at % 4 and not controls.loaded_names():
            controls.load("bbq", {})
        with subprocess.Popen([*KERNEL, *actions[at % 4]], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as one:
            with suppress(subprocess.TimeoutExpired):
                one.wait(generator.uniform(longest_s / 2, longest_s))
            hit += one.poll() is None
            one.kill()
    print(f"{hit} of {KILLS} commands killed, in the second half of what one takes")
    run(*KERNEL, "unload", "all", "--force")


def iperf3(name: str) -> tuple[float, float, float]:
    """Return goodput (Mbit/s), mean RTT (ms) and retransmissions."""
    end = json.loads(run("iperf3", "-c", RECEIVER, "-C", name, "-t", str(RUN_S), "--json"))["end"]
    sent = end["streams"][0]["sender"]
    return end["sum_received"]["bits_per_second"] / 1e6, sent["mean_rtt"] / 1e3, sent["retransmits"]


def compare() -> None:
    run(*KERNEL, "load", "bbr")
    runs = {name: [] for name in ("gym_bbr", "bbr")}
    for at in range(PAIRS):
        for name in sorted(runs, reverse=at % 2 == 0):
            runs[name].append(iperf3(name))
            time.sleep(1)  # until the server is free
    means = {name: [statistics.mean(column) for column in zip(*rows, strict=True)] for name, rows in runs.items()}
    for what, ours, theirs in zip(("Mbit/s", "ms", "retransmissions"), *means.values(), strict=True):
        print(f"gym_bbr {ours:.2f} {what}, bbr {theirs:.2f}: {ours / theirs - 1:+.1%}")
    run(*KERNEL, "unload", "gym_bbr", "--force")


def main() -> None:
    receiver = host(RECEIVER)
    server = subprocess.Popen(["iperf3", "-s"], stdout=subprocess.DEVNULL)
    Process(target=relay, args=(host("10.9.0.1"), receiver), daemon=True).start()
    for measure in (cycle, kill, compare):
        measure()
        print_held()
    server.kill()


if __name__ == "__main__":
    main()
