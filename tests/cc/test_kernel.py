# SPDX-License-Identifier: GPL-2.0-only
"""cc's BBR against Linux's tcp_bbr.c, event for event, on traces recorded from it (kernel_traces/README.md)."""

import csv
import functools
import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bbrgym import _cc

TRACES = Path(__file__).with_name("kernel_traces")

#: The stack that each kernel's traces are of; 4.14.64 is the file that BBR-ACD's authors changed, without their change.
STACKS: dict[str, tuple[str, dict[str, int]]] = {
    "linux-6": ("linux-6", {}),
    "linux-4.14": ("linux-4.17", {"tso_goal": 0, "delayed_ack_guard": 0}),
    "linux-4.11": ("linux-4.11", {}),
}
SEEDS = {"linux-6": (26, 64, 115), "linux-4.14": (15, 26, 102), "linux-4.11": (8, 15, 102)}
EACH = [(kernel, seed) for kernel, seeds in SEEDS.items() for seed in seeds]

ALGORITHM = [row for row in _cc.stack_facts() if row["layer"] == "algorithm" and not row["name"].startswith("bbr3_")]
OF_OTHERS = {"hystart", "hystart_rounds", "reno_friendly_rule", "bic_counts", "growth", "reno_halves"}

#: A bandwidth unit of the kernel, 2^-24 packets/us, in bytes/s at 1024 bytes a packet, times the gain of STARTUP.
INITIAL_PACING_SLACK_BPS = 180
#: Where a policer's rate, an average over whole milliseconds, has been in use: both round it in their own unit.
POLICER_SLACK_PKTS = 8
POLICER_SLACK_RATIO = 1e-3

ACK_FIELDS = (
    *("now_us", "idle_us", "delivered_pkts", "sampled_pkts", "sample_pkts", "interval_us", "rtt_us", "srtt_us"),
    *("acked_pkts", "lost_pkts", "total_lost_pkts", "prior_in_flight_pkts", "in_flight_pkts", "departure_wait_us"),
    *("ca_state", "is_app_limited", "is_ack_delayed"),
)


@dataclass
class After:
    """The kernel's state after an event; ``policed``: a policer's rate is in use."""

    cwnd_pkts: int
    pacing_Bps: int  # noqa: N815 (Bps is a unit)
    phase: int
    min_rtt_us: int
    prior_cwnd_pkts: int
    policed: int


@functools.cache
def events(kernel: str, seed: int) -> list[tuple[str, list[int], After]]:
    """Return each event: its kind, its numbers, and the kernel's state after it."""
    with gzip.open(TRACES / f"{kernel}-{seed}.csv.gz", "rt", encoding="ascii", newline="") as lines:
        rows = [(kind, list(map(int, numbers))) for kind, *numbers in csv.reader(lines)]
    return [(kind, values[:-6], After(*values[-6:])) for kind, values in rows]


def start(numbers: list[int], stack: str, facts: dict[str, int]) -> Any:
    now_us, srtt_us, min_rtt_us, mss_bytes, seed = numbers
    known = {"min_rtt_us": min_rtt_us} if min_rtt_us else {}
    return _cc.Controller(
        "bbr", now_us=now_us, srtt_us=srtt_us, mss_bytes=mss_bytes, rng_seed=seed, stack=stack, facts=facts, **known
    )


def tell(controller: Any, kind: str, numbers: list[int]) -> None:
    """Hand an event over; state: its number and whether the kernel asked for ssthresh."""
    if kind == "ack":
        sample = dict(zip(ACK_FIELDS, numbers, strict=True))
        sample["delivered_time_us"] = sample["now_us"] - sample.pop("idle_us")
        sample["prior_delivered_pkts"] = sample["delivered_pkts"] - sample.pop("sampled_pkts")
        sample |= {name: bool(sample[name]) for name in ("is_app_limited", "is_ack_delayed")}
        controller.on_ack(_cc.Sample(**sample))
    elif kind == "state":
        controller.on_loss_state(numbers[0], 0)
    elif kind == "timeout":
        is_new_episode, in_flight, total_lost = numbers
        controller.on_rto(in_flight, 0, total_lost, is_new_episode=bool(is_new_episode))
    elif kind == "restart":
        controller.on_restart(numbers[0], bool(numbers[1]))
    else:
        controller.on_undo()


def differences(kernel: str, seed: int, stack: str, facts: dict[str, int]) -> Iterator[str]:
    """Yield what differs from the kernel after each event."""
    controller: Any = None
    was_policed = False
    for index, (kind, numbers, kernels) in enumerate(events(kernel, seed)):
        if kind == "start":
            controller = start(numbers, stack, facts)
        else:
            tell(controller, kind, numbers)
        ours = controller.state
        was_policed = was_policed or bool(kernels.policed)
        slack_pkts = POLICER_SLACK_PKTS if was_policed else 0
        slack_Bps = 1 if ours["full_bw_reached"] else INITIAL_PACING_SLACK_BPS
        if was_policed:
            slack_Bps = max(slack_Bps, round(POLICER_SLACK_RATIO * kernels.pacing_Bps))
        pairs = {
            "phase": (ours["phase"], kernels.phase, 0),
            "min_rtt_us": (ours["min_rtt_us"] % (2**64 - 1), kernels.min_rtt_us, 0),
            "policed": (ours["policer_in_use"], bool(kernels.policed), 0),
            "prior_cwnd_pkts": (ours["prior_cwnd_pkts"], kernels.prior_cwnd_pkts, slack_pkts),
            "cwnd_pkts": (ours["cwnd_pkts"], kernels.cwnd_pkts, slack_pkts),
            "pacing_Bps": (ours["pacing_Bps"], kernels.pacing_Bps, slack_Bps),
        }
        for name, (our, their, slack) in pairs.items():
            if abs(our - their) > slack:
                yield f"event {index} ({kind}): {name} is {our}, the kernel's is {their}"


@pytest.mark.parametrize(("kernel", "seed"), EACH)
def test_every_event_ends_as_in_the_kernel(kernel: str, seed: int) -> None:
    assert list(differences(kernel, seed, *STACKS[kernel]))[:3] == []


@pytest.mark.parametrize("kernel", STACKS)
def test_the_traces_visit_every_phase_event_and_a_policer(kernel: str) -> None:
    seen = [(kind, after) for seed in SEEDS[kernel] for kind, _, after in events(kernel, seed)]
    assert {kind for kind, _ in seen} == {"start", "ack", "state", "timeout", "restart", "undo"}
    assert {after.phase for _, after in seen} | {1} == {0, 1, 2, *range(8, 16)}, (
        "DRAIN may end with the ACK that begins it"
    )
    assert any(after.policed for _, after in seen)


#: Facts without an effect where a kernel's traces go.
UNSEEN = {
    "linux-6": {"pacing_falls", "tso_goal", "in_flight_of"},
    "linux-4.14": {"pacing_falls", "gains_by_event", "tso_goal", "undo_resets", "conservation_floor", "in_flight_of"},
    "linux-4.11": {"tso_goal", "probe_headroom_while", "unknown_rtt_budget", "undo_resets", "conservation_floor"},
}


@pytest.mark.parametrize("kernel", STACKS)
def test_no_other_value_of_a_fact_gives_the_kernels_traces(kernel: str) -> None:
    stack, facts = STACKS[kernel]

    def is_noticed(row: dict[str, Any]) -> bool:
        value = row["presets"][stack]
        index = int(value) if row["kind"] == "flag" else row["choices"].index(value)
        changed = facts | {row["name"]: 1 - facts.get(row["name"], index)}
        return any(any(differences(kernel, seed, stack, changed)) for seed in SEEDS[kernel])

    assert {row["name"] for row in ALGORITHM if not is_noticed(row)} == UNSEEN[kernel] | OF_OTHERS


def test_the_algorithm_of_linux_6_is_that_of_5_10_and_of_4_11_that_of_4_9() -> None:
    for row in ALGORITHM:
        assert row["presets"]["linux-6"] == row["presets"]["linux-5.10"]
        assert row["presets"]["linux-4.11"] == row["presets"]["linux-4.9"]
