# SPDX-License-Identifier: GPL-2.0-only
"""Random scenarios of all that both worlds have: not a radio behind the link, nor ns-3's own congestion controls."""

import math
import random
from collections.abc import Callable
from typing import Any

import bbrgym.worlds
from bbrgym.scenario.stack import STACK_PRESETS
from bbrgym.worlds.specs import world_spec

Mapping = dict[str, Any]

MAX_PACKETS = 10_000  # that the link carries in a scenario, unless its round trips are longer
VARIANTS = [name for name, variant in bbrgym.VARIANTS.items() if world_spec("twin").has_controller(name)]


class _Draw(random.Random):
    def log(self, low: float, high: float) -> float:
        """Spread evenly over magnitudes; to a thousandth."""
        return round(math.exp(self.uniform(math.log(low), math.log(high))), 3)

    def chance(self, probability: float) -> bool:
        return self.random() < probability


def random_scenario(
    seed: int, *, flows: tuple[int, ...] = (1, 1, 2, 2, 3, 5), least_mbps: float = 0.1, longest_s: float = 15.0
) -> Mapping:
    """Some flows and a crowd, `least_mbps` to 10 Gbit/s, RTTs of 0.1 ms to 1 s, any stack for each flow.

    It lasts for some hundred packets of the link or some round trips, at most `longest_s`.
    """
    draw = _Draw(seed)
    if draw.chance(0.01):
        return _full_buffer(draw, seed)
    rtts_ms = [draw.log(0.1, 1000) for _ in range(draw.choice(flows))]
    rate_mbps = draw.log(least_mbps, 10_000)
    mss_bytes = draw.choice([1448, 1448, 500, 200, 8960, 65_000])
    packet_s = (mss_bytes + 40) * 8e-6 / rate_mbps
    rounds_s = draw.choice([3, 5, 8]) * max(rtts_ms) / 1e3
    duration_s = round(min(max(draw.log(300, MAX_PACKETS) * packet_s, rounds_s, 0.002), longest_s), 6)
    has_few_rounds = duration_s > 3 * MAX_PACKETS * packet_s  # slow starts fill no more of it, so RTTs stay as long
    if has_few_rounds:
        rtts_ms = [round(max(rtts_ms) * draw.uniform(0.6, 1.0), 3) for _ in rtts_ms]
    link: Mapping = {
        "delay_ms": round(min(rtts_ms) / 2 * draw.random(), 3),
        "queue": _queue(draw, mss_bytes + 40),
        "loss": _loss(draw),
        **_features(draw, mss_bytes + 40, rate_mbps),
    }
    is_trace = draw.chance(0.15)
    if is_trace:
        link["trace"] = _trace(draw, mss_bytes + 40, rate_mbps)
    else:
        link["rate_mbps"] = rate_mbps
    link["changes"] = _changes(
        draw, duration_s, None if is_trace else rate_mbps, link["loss"]["kind"] == "gilbert_elliott"
    )
    if has_few_rounds:
        for change in link["changes"]:
            change["delay_ms"] = max(change.get("delay_ms", 0.0), link["delay_ms"])
    most_mbps = min(2 * rate_mbps, MAX_PACKETS * mss_bytes * 8e-6 / duration_s)
    specs = [_flow(draw, f"flow-{i}", rtt_ms, most_mbps, duration_s) for i, rtt_ms in enumerate(rtts_ms)]
    if draw.chance(0.15):
        app = {"kind": "flows", "size_bytes": [1, 20_000, 200_000], "exponential": draw.chance(0.5)}
        crowd = {"name": "crowd", "count": draw.randint(2, 8), "cc": draw.choice(VARIANTS), "rtt_ms": rtts_ms[0]}
        specs.append({**crowd, "app": app})
    return {
        "name": f"random-{seed}",
        "duration_s": duration_s,
        "warmup_s": duration_s * draw.choice([0.0, 0.3 * draw.random()]),
        "mss_bytes": mss_bytes,
        "stack": draw.choice(["ns3", "linux-6", draw.choice(STACK_PRESETS)]),
        "link": link,
        "flows": specs,
    }


def random_scenario_of_laws(seed: int) -> Mapping:
    """As random_scenario, and what ns-3 would take too long for: up to 20 flows, 1 kbit/s, an hour for every timer."""
    return random_scenario(seed, flows=(1, 1, 2, 3, 5, 10, 20), least_mbps=0.001, longest_s=5000.0)


def with_reverse(mapping: Mapping, seed: int) -> Mapping:
    """Return a scenario of these with a reverse link, by which some of the flows send: narrow for ACKs, or wide."""
    draw = _Draw(f"reverse {seed}")
    packet_bytes = mapping.get("mss_bytes", 1448) + 40
    link, duration_s = mapping["link"], mapping["duration_s"]
    trace = link.get("trace")
    if trace is None:
        forward_mbps = link["rate_mbps"]
    else:
        forward_mbps = len(trace["times_ms"]) * trace["opportunity_bytes"] * 8e-3 / trace["period_ms"]
    rate_mbps = max(forward_mbps * draw.log(0.003, 1.5), 0.001)
    reverse: Mapping = {
        "delay_ms": round(min(flow["rtt_ms"] for flow in mapping["flows"]) / 2 * draw.random(), 3),
        "queue": _queue(draw, packet_bytes),
        "loss": _loss(draw),
    }
    has_trace = draw.chance(0.15) and packet_bytes * 8e-6 / rate_mbps * 200 < duration_s
    if has_trace:
        reverse["trace"] = _trace(draw, packet_bytes, rate_mbps)
    else:
        reverse["rate_mbps"] = rate_mbps
    has_states = reverse["loss"]["kind"] == "gilbert_elliott"
    reverse["changes"] = _changes(draw, duration_s, None if has_trace else rate_mbps, has_states)
    reorders = link.get("jitter", {}).get("reorder", False)
    directions = ["forward"] if reorders else ["forward", "forward", "reverse"]
    flows = [{**flow, "direction": draw.choice(directions)} for flow in mapping["flows"]]
    return {**mapping, "link": {**link, "reverse": reverse}, "flows": flows}


def with_links(mapping: Mapping, seed: int) -> Mapping:
    """Return a scenario of these whose link is one of 2 to 5, each flow's data over some of them, ACKs over others."""
    draw = _Draw(f"links {seed}")
    packet_bytes = mapping.get("mss_bytes", 1448) + 40
    first = {name: value for name, value in mapping["link"].items() if name != "acks"}
    trace = first.get("trace")
    mean_mbps = (
        first.get("rate_mbps") or len(trace["times_ms"]) * trace["opportunity_bytes"] * 8e-3 / trace["period_ms"]
    )
    most_mbps = 2 * MAX_PACKETS * packet_bytes * 8e-6 / mapping["duration_s"]
    count = draw.randint(2, 5)
    least_ms = min(flow["rtt_ms"] for flow in mapping["flows"])
    links = {"link-0": {**first, "delay_ms": first.get("delay_ms", 1.0) / count}}
    for number in range(1, count):
        rate_mbps = max(min(mean_mbps * draw.log(0.3, 3), most_mbps), 0.001)
        loss = _loss(draw)
        links[f"link-{number}"] = {
            "rate_mbps": rate_mbps,
            "delay_ms": round(least_ms / 2 / count * draw.random(), 3),
            "queue": _queue(draw, packet_bytes),
            "loss": loss,
            **{name: value for name, value in _features(draw, packet_bytes, rate_mbps).items() if name != "acks"},
            "changes": _changes(draw, mapping["duration_s"], rate_mbps, loss["kind"] == "gilbert_elliott"),
        }
    for_acks = [name for name, link in links.items() if not link.get("jitter", {}).get("reorder")]
    flows = []
    for flow in mapping["flows"]:
        path = draw.sample(list(links), draw.randint(1, count))
        left = [name for name in for_acks if name not in path]
        back = draw.sample(left, draw.randint(0, len(left))) if draw.chance(0.4) else []
        flows.append({**flow, "path": path, "ack_path": back})
    crossed = {name for flow in flows for name in (*flow["path"], *flow["ack_path"])}
    rest = {name: value for name, value in mapping.items() if name != "link"}
    return {**rest, "links": {name: link for name, link in links.items() if name in crossed}, "flows": flows}


def with_parts(mapping: Mapping, seed: int) -> Mapping:
    """Return any network of these whose links and flows have what others have not: losses of sk_buffs, PIE, CAKE."""
    draw = _Draw(f"parts {seed}")
    mapping = draw.choice([lambda mapping, _: mapping, with_reverse, with_links])(mapping, seed)
    links = [*mapping.get("links", {}).values(), *([mapping["link"]] if "link" in mapping else [])]
    for link in [*links, *(link["reverse"] for link in links if "reverse" in link)]:
        if link["loss"]["kind"] == "none":
            link["loss"] = {"kind": "bernoulli", "rate": draw.log(0.001, 0.3)}
        link["loss"] = {**link["loss"], "unit": draw.choice(["packet", "skb", "skb"])}
        if draw.chance(0.4):
            size = {name: size for name, size in link["queue"].items() if name in ("size_packets", "size_bytes")}
            of_kind = {"pie": {"target_ms": draw.log(0.5, 50)}, "cake": {"rtt_ms": draw.log(0.1, 1000)}}
            kind = draw.choice(list(of_kind))
            link["queue"] = {"kind": kind, **size, kind: of_kind[kind], "ecn": draw.chance(0.5)}
    flows = [{**flow, "app": _media(draw, mapping)} if draw.chance(0.4) else flow for flow in mapping["flows"]]
    for flow in flows:
        is_bulk = flow.get("app", {"kind": "bulk"})["kind"] == "bulk"
        if is_bulk and "reverse" not in mapping.get("link", {}) and not flow.get("ack_path") and draw.chance(0.5):
            flow["app"] = {**flow.get("app", {"kind": "bulk"}), "read_mbps": draw.log(0.01, 1000)}
            flow["stack"] = {
                **flow.get("stack", {}),
                "receive_buffer_bytes": draw.choice(["auto", int(draw.log(1e3, 1e7))]),
            }
    return {**mapping, "flows": flows}


def _media(draw: _Draw, mapping: Mapping) -> Mapping:
    """Return frames of up to some thousand packets in all."""
    most_mbps = max(MAX_PACKETS * mapping.get("mss_bytes", 1448) * 8e-6 / mapping["duration_s"] / 5, 0.002)
    sizes = {"key_every": draw.randint(1, 30), "key_ratio": draw.log(1, 20), "spread": draw.random()}
    rate_mbps = max(min(draw.log(0.01, 100), most_mbps), 0.001)
    late = {"late_after_ms": draw.log(1, 1000)} if draw.chance(0.5) else {}
    return {
        "kind": "frames",
        "fps": min(draw.log(1, 200), 3000 / mapping["duration_s"]),
        "rate_mbps": rate_mbps,
        **sizes,
        **late,
    }


def with_delays(mapping: Mapping, seed: int) -> Mapping:
    """Return any network of these whose delays move, and may let packets overtake others."""
    draw = _Draw(f"delays {seed}")
    mapping = NETWORKS[draw.choice(["link", "link", "reverse", "links"])](mapping, seed)
    links = {"link": mapping["link"]} if "link" in mapping else mapping["links"]
    with_acks = {name for flow in mapping["flows"] for name in flow.get("ack_path", [])}
    if any(flow.get("direction") == "reverse" for flow in mapping["flows"]):
        with_acks.add("link")
    flows = []
    for flow in mapping["flows"]:
        changes = "use_path_change" in bbrgym.VARIANTS[flow["cc"]].preset and draw.chance(0.7)
        path = {
            "use_path_change": 1.0,
            "path_rounds": float(draw.randint(1, 3)),
            "path_rise_us": draw.log(1000, 20_000),
        }
        flows.append({**flow, "tunables": {**flow.get("tunables", {}), **(path if changes else {})}})
    moved = {}
    for name, link in links.items():
        most_ms = draw.log(0.1, 200)
        delays_ms = [draw.choice([0.0, most_ms, most_ms * draw.random()]) for _ in range(draw.randint(1, 40))]
        trace = {"delays_ms": delays_ms, "step_ms": draw.log(0.01, 500)}
        reverse = (
            {"reverse": {**link["reverse"], "delay_trace": trace}} if "reverse" in link and draw.chance(0.3) else {}
        )
        reorder = name not in with_acks and draw.chance(0.6)
        moves = {"delay_trace": trace} if draw.chance(0.8) else {}
        reorder = reorder and bool(moves or any("delay_ms" in change for change in link.get("changes", [])))
        moved[name] = {**link, **reverse, "reorder": reorder, **moves}
    return {**mapping, "flows": flows, **({"link": moved["link"]} if "link" in mapping else {"links": moved})}


#: Networks made of a random scenario, by name.
NETWORKS: dict[str, Callable[[Mapping, int], Mapping]] = {
    "link": lambda mapping, _: mapping,
    "reverse": with_reverse,
    "links": with_links,
    "parts": with_parts,
    "delays": with_delays,
}


def random_changes(seed: int) -> dict[int, Mapping]:
    """Tunables of the first flow to set before the steps of these numbers."""
    draw = _Draw(seed)
    preset = _tunables_of(random_scenario(seed)["flows"][0]["cc"])
    names = {step: draw.choice(preset) for step in (2, 5) if preset and draw.chance(0.5)}
    return {step: {name: random_value(draw, name)} for step, name in names.items()}


def _full_buffer(draw: _Draw, seed: int) -> Mapping:
    """BBR on a path so fast, long and lossy that its ample buffer is full of what waits behind a lost segment."""
    link: Mapping = {
        "rate_mbps": draw.log(2000, 5000),
        "delay_ms": 1.0,
        "queue": {"kind": "droptail", "size_packets": draw.randint(10, 100)},
        "loss": {"kind": "bernoulli", "rate": 0.3},
    }
    flow = {"name": "flow", "cc": draw.choice(["bbr", "bbr-plus", "bbq"]), "rtt_ms": draw.log(20, 60)}
    whole = {"name": f"random-{seed}", "duration_s": 1.5, "mss_bytes": 65_000, "stack": draw.choice(STACK_PRESETS)}
    return {**whole, "link": link, "flows": [flow]}


def _stack(draw: _Draw) -> Mapping:
    """Any preset, with buffers and pacing of its own."""
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


def _features(draw: _Draw, packet_bytes: int, rate_mbps: float) -> Mapping:
    """What a link may have beside rate, delay, queue and loss."""
    features: Mapping = {}
    if draw.chance(0.15):
        features["policer"] = {
            "rate_mbps": max(rate_mbps * draw.log(0.3, 3), 0.001),
            "burst_bytes": int(draw.log(packet_bytes, 1e6)),
        }
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


def _trace(draw: _Draw, packet_bytes: int, rate_mbps: float) -> Mapping:
    opportunity_bytes = draw.choice([1500, packet_bytes, 300, 5000])
    count = draw.randint(1, 99)
    period_ms = max(1, math.ceil(count * opportunity_bytes * 8e-3 / rate_mbps))
    times_ms = [draw.choice([period_ms * draw.random(), draw.randrange(period_ms + 1)]) for _ in range(count)]
    return {"times_ms": sorted(times_ms), "period_ms": period_ms, "opportunity_bytes": opportunity_bytes}


def _changes(draw: _Draw, duration_s: float, rate_mbps: float | None, has_states: bool) -> list[Mapping]:
    changes = []
    for at_s in sorted(duration_s * draw.random() for _ in range(draw.choice([0, 0, 0, 1, 3, 6]))):
        change = {}
        if rate_mbps and draw.chance(0.6):
            change["rate_mbps"] = 0.0 if draw.chance(0.15) else max(rate_mbps * draw.log(0.05, 1.5), 0.05)
        if draw.chance(0.5):
            change["delay_ms"] = draw.log(0.1, 100)
        if not has_states and draw.chance(0.4):
            change["loss_rate"] = 0.2 * draw.random()
        if change:
            changes.append({"at_s": at_s, **change})
    return changes


def _flow(draw: _Draw, name: str, rtt_ms: float, most_mbps: float, duration_s: float) -> Mapping:
    cc = draw.choice(VARIANTS)
    flow: Mapping = {"name": name, "cc": cc, "rtt_ms": rtt_ms, "tunables": {}}
    kind = draw.choices(["bulk", "cbr", "onoff"], [0.65, 0.15, 0.2])[0]
    if kind != "bulk":
        flow["app"] = {"kind": kind, "rate_mbps": max(most_mbps * draw.log(0.02, 1), 0.01)}
    elif draw.chance(0.3):
        flow["app"] = {"kind": "bulk", "size_bytes": int(draw.log(1, 1e6))}
    if kind == "onoff":
        on_s, off_s = (max(0.001, duration_s * draw.log(0.01, 0.5)) for _ in range(2))
        flow["app"] |= {"on_s": on_s, "off_s": off_s, "random": draw.chance(0.5)}
    if draw.chance(0.4):
        flow["start_s"] = 0.7 * duration_s * draw.random()
    if draw.chance(0.2):
        flow["stop_s"] = flow.get("start_s", 0.0) + (duration_s - flow.get("start_s", 0.0)) * draw.uniform(0.05, 0.95)
    if draw.chance(0.5):
        flow["stack"] = _stack(draw)
    if draw.chance(0.4):
        flow["stack"] = {**flow.get("stack", {}), "ecn": True}
    for tunable in _tunables_of(cc):
        if draw.chance(0.2):
            flow["tunables"][tunable] = random_value(draw, tunable)
    return flow


def _tunables_of(cc: str) -> list[str]:
    """Return those of a variant but PATH_CHANGE's, which `with_delays` draws."""
    return [name for name in bbrgym.VARIANTS[cc].preset if bbrgym.TUNABLES[name].mechanism != "PATH_CHANGE"]


def random_value(draw: random.Random, tunable: str) -> float:
    """Any value that a tunable may have."""
    declared = bbrgym.TUNABLES[tunable]
    value = draw.uniform(declared.low, declared.high)
    return float(round(value)) if declared.unit in ("count", "mode", "switch") else value
