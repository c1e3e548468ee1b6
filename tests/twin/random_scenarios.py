# SPDX-License-Identifier: GPL-2.0-only
"""Random scenarios that both worlds run alike: without a flow's end before the run's."""

from __future__ import annotations

import math
import random
from typing import Any

import bbrgym
from bbrgym.scenario.stack import STACK_PRESETS

Mapping = dict[str, Any]

VARIANTS = [name for name, variant in bbrgym.VARIANTS.items() if bbrgym.worlds.world_spec("twin").has_controller(name)]


class _Draw(random.Random):
    def log(self, low: float, high: float) -> float:
        """Spread evenly over magnitudes; to a thousandth."""
        return round(math.exp(self.uniform(math.log(low), math.log(high))), 3)

    def chance(self, probability: float) -> bool:
        return self.random() < probability


def random_scenario(seed: int) -> Mapping:
    """Up to five flows, 0.2 to 60 Mbit/s, RTTs of 1 to 500 ms, 1 to 15 s."""
    draw = _Draw(seed)
    rtts_ms = [draw.log(1, 500) for _ in range(draw.choice([1, 1, 2, 2, 3, 5]))]
    duration_s = draw.log(1, 15)
    mss_bytes = draw.choice([1448, 1448, 500, 200, 8960])
    link: Mapping = {
        "delay_ms": round(min(rtts_ms) / 2 * draw.random(), 3),
        "queue": _queue(draw, mss_bytes + 40),
        "loss": _loss(draw),
        **_features(draw, mss_bytes + 40),
    }
    is_trace = draw.chance(0.15)
    if is_trace:
        link["trace"] = _trace(draw, mss_bytes + 40)
    else:
        link["rate_mbps"] = draw.log(0.2, 60)
    link["changes"] = _changes(draw, duration_s, is_trace, link["loss"]["kind"] == "gilbert_elliott")
    return {
        "name": f"random-{seed}",
        "duration_s": duration_s,
        "mss_bytes": mss_bytes,
        "stack": "ns3",
        "link": link,
        "flows": [_flow(draw, f"flow-{i}", rtt_ms, duration_s) for i, rtt_ms in enumerate(rtts_ms)],
    }


def random_stack(seed: int) -> Mapping:
    """Any preset, with buffers and pacing of its own."""
    draw = _Draw(seed)
    stack: Mapping = {"preset": draw.choice(STACK_PRESETS)}
    for buffer in ("send_buffer_bytes", "receive_buffer_bytes"):
        if draw.chance(0.6):
            stack[buffer] = draw.choice(["ample", "auto", int(draw.log(1e3, 1e7))])
    if draw.chance(0.3):
        stack["pacing"] = draw.choice(["internal", "fq", "none"])
    if draw.chance(0.3):
        stack["gso_max_segs"] = draw.choice([1, 2, 3, 10])
    if draw.chance(0.2):
        stack |= {"delayed_ack_segments": draw.randint(1, 8), "delayed_ack_ms": draw.randint(1, 500)}
    return stack


def random_scenario_on_a_beat(seed: int) -> Mapping:
    """Up to three flows for 2 s on a fast link; packets and the receivers' timers fall on multiples of 50 or 100 us.

    So timers are due when packets arrive, often. A held ACK waits for 1.1 ms, longer than most of these links.
    """
    draw = _Draw(seed)
    packet_us = draw.choice([50, 100])
    link: Mapping = {
        "rate_mbps": 1488 * 8 / packet_us,
        "delay_ms": draw.choice([0.05, 0.5, 1.0, 1.05, 2.0]),
        "queue": {
            "kind": draw.choice(["droptail", "droptail", "codel", "fq_codel"]),
            "size_packets": draw.choice([20, 60, 200]),
        },
        "loss": {"kind": "bernoulli", "rate": draw.choice([0.001, 0.005, 0.02])},
    }
    if draw.chance(0.2):
        link["jitter"] = {"share": 0.05, "delay_ms": 1.0, "reorder": True}
    if draw.chance(0.2):
        slots = {"kind": "slots", "every_ms": 1.0}
        link["acks"] = draw.choice([slots, {"kind": "bursts", "packets": 4, "timeout_ms": 1.0}])
    flows = [
        {
            "name": f"flow-{number}",
            "cc": draw.choice(VARIANTS),
            "rtt_ms": draw.choice([5.0, 10.0, 20.5, 30.0, 31.0, 60.0]),
            "start_s": draw.choice([0.0, 0.1, 0.2]),
        }
        for number in range(draw.randint(1, 3))
    ]
    stack = draw.choice(["linux-6", "linux-6", "linux-5.10", *STACK_PRESETS])
    return {"name": f"beat-{seed}", "duration_s": 2.0, "stack": stack, "link": link, "flows": flows}


def _queue(draw: _Draw, packet_bytes: int) -> Mapping:
    queue: Mapping = {"kind": draw.choice(["droptail", "droptail", "droptail", "red", "codel", "fq_codel"])}
    if draw.chance(0.5):
        queue["size_packets"] = int(draw.log(1, 500))
    else:
        queue["size_bytes"] = int(draw.log(packet_bytes, 1e6))
    if queue["kind"] == "red":
        most_bytes = queue.get("size_bytes") or queue["size_packets"] * packet_bytes
        max_bytes = int(draw.log(2, most_bytes))
        queue["red"] = {
            "min_bytes": draw.randint(1, max_bytes - 1),
            "max_bytes": max_bytes,
            "max_probability": draw.log(0.002, 1),
        }
    if queue["kind"] in ("codel", "fq_codel") and draw.chance(0.5):
        queue["codel"] = {"target_ms": draw.log(0.5, 50), "interval_ms": draw.log(51, 500)}
    if queue["kind"] == "fq_codel" and draw.chance(0.5):
        queue["quantum_bytes"] = int(draw.log(64, 20_000))
    if queue["kind"] != "droptail" and draw.chance(0.5):
        queue["ecn"] = draw.chance(0.5)
    if draw.chance(0.2):
        thresholds = {"bytes": int(draw.log(1, 1e5)), "packets": int(draw.log(1, 60)), "ms": draw.log(0.1, 50)}
        unit = draw.choice(list(thresholds))
        queue[f"ecn_threshold_{unit}"] = thresholds[unit]
    return queue


def _features(draw: _Draw, packet_bytes: int) -> Mapping:
    """What a link may have beside rate, delay, queue and loss."""
    features: Mapping = {}
    if draw.chance(0.15):
        features["policer"] = {"rate_mbps": draw.log(0.2, 60), "burst_bytes": int(draw.log(packet_bytes, 1e6))}
    if draw.chance(0.2):
        features["jitter"] = {"share": draw.log(0.001, 1), "delay_ms": draw.log(0.01, 50), "reorder": draw.chance(0.6)}
    if draw.chance(0.25):
        slots = {"kind": "slots", "every_ms": draw.log(0.01, 100)}
        bursts = {"kind": "bursts", "packets": int(draw.log(1, 40)), "timeout_ms": draw.log(0.01, 100)}
        features["acks"] = draw.choice([slots, bursts])
    return features


def _loss(draw: _Draw) -> Mapping:
    kind = draw.choices(["none", "bernoulli", "gilbert_elliott"], [0.55, 0.3, 0.15])[0]
    if kind == "bernoulli":
        return {"kind": kind, "rate": draw.log(0.001, 0.5)}
    if kind == "gilbert_elliott":
        chances = {"good_to_bad": 0.05, "bad_to_good": 1.0, "loss_good": 0.02, "loss_bad": 0.9}
        clock = {"clock": draw.choice(["packet", "time"])}
        return {"kind": kind, **{name: draw.uniform(0, most) for name, most in chances.items()}, **clock}
    return {"kind": kind}


def _trace(draw: _Draw, packet_bytes: int) -> Mapping:
    period_ms = int(draw.log(5, 2000))
    times_ms = [
        draw.choice([period_ms * draw.random(), draw.randrange(period_ms + 1)]) for _ in range(draw.randint(1, 99))
    ]
    opportunity_bytes = draw.choice([1500, packet_bytes, 300, 5000])
    return {"times_ms": sorted(times_ms), "period_ms": period_ms, "opportunity_bytes": opportunity_bytes}


def _changes(draw: _Draw, duration_s: float, is_trace: bool, has_states: bool) -> list[Mapping]:
    changes = []
    for at_s in sorted(duration_s * draw.random() for _ in range(draw.choice([0, 0, 0, 1, 3, 6]))):
        change = {}
        if not is_trace and draw.chance(0.6):
            change["rate_mbps"] = draw.log(0.2, 60)
        if draw.chance(0.5):
            change["delay_ms"] = draw.log(0.1, 100)
        if not has_states and draw.chance(0.4):
            change["loss_rate"] = 0.2 * draw.random()
        if change:
            changes.append({"at_s": at_s, **change})
    return changes


def _flow(draw: _Draw, name: str, rtt_ms: float, duration_s: float) -> Mapping:
    cc = draw.choice(VARIANTS)
    flow: Mapping = {"name": name, "cc": cc, "rtt_ms": rtt_ms, "tunables": {}}
    kind = draw.choices(["bulk", "cbr", "onoff"], [0.65, 0.15, 0.2])[0]
    if kind != "bulk":
        flow["app"] = {"kind": kind, "rate_mbps": draw.log(0.05, 40)}
    if kind == "onoff":
        flow["app"] |= {"on_s": draw.log(0.01, 2), "off_s": draw.log(0.01, 2), "random": draw.chance(0.5)}
    if draw.chance(0.4):
        flow["start_s"] = 0.7 * duration_s * draw.random()
    if draw.chance(0.4):
        flow["stack"] = {"ecn": True}
    for tunable in bbrgym.VARIANTS[cc].preset:
        if draw.chance(0.2):
            flow["tunables"][tunable] = random_value(draw, tunable)
    return flow


def random_value(draw: random.Random, tunable: str) -> float:
    """Any value that a tunable may have."""
    declared = bbrgym.TUNABLES[tunable]
    value = draw.uniform(declared.low, declared.high)
    return float(round(value)) if declared.unit in ("count", "mode", "switch") else value
