# SPDX-License-Identifier: GPL-2.0-only
"""Run the papers' experiments on ns-3 and print each beside the published figures.

usage: python benchmarks/reproduce.py EXPERIMENT [--seeds 5] [--jobs 2] [--world ns3] [--write docs/results.md]

The Markdown it prints is what docs/results.md holds; ``--write`` replaces the experiment's section there.
Experiments are named after the papers' own (docs/results.md says where each is from).
"""

from __future__ import annotations

import argparse
import copy
import datetime
import shlex
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from report import replace_section
from rich.console import Console
from rich.progress import track

import bbrgym
from bbrgym.evaluate.statistics import student_mean

Mapping = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """A cell of an experiment: a scenario without a seed."""

    label: tuple[str, ...]
    scenario: Mapping


@dataclass
class Measured:
    """Per-seed summaries of a case, each field an array [seeds, flows] or [seeds]."""

    flow_names: list[str]
    flows: dict[str, np.ndarray]
    link: dict[str, np.ndarray]


@dataclass(frozen=True)
class Experiment:
    """A table: its cases, its columns and the published figures."""

    title: str
    says: str
    header: tuple[str, ...]
    cases: Callable[[], list[Case]]
    row: Callable[[Measured], list[np.ndarray]]
    published: dict[tuple[str, ...], str] = field(default_factory=dict)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("experiment", choices=[*EXPERIMENTS, "all"])
    parser.add_argument("--seeds", type=int, default=5, help="seeds 1..N of each case (default: 5)")
    parser.add_argument("--jobs", type=int, default=2, help="cases run at once (default: 2)")
    parser.add_argument("--world", default="ns3")
    parser.add_argument("--write", type=Path, help="Markdown file whose section is replaced")
    options = parser.parse_args(arguments)
    names = list(EXPERIMENTS) if options.experiment == "all" else [options.experiment]
    for name in names:
        seeds = range(1, options.seeds + 1)
        table = run(EXPERIMENTS[name], seeds, options.jobs, options.world)
        section = render(name, EXPERIMENTS[name], table, options)
        Console(soft_wrap=True, markup=False, highlight=False).print(section)
        if options.write is not None:
            replace_section(options.write, name, section)
    return 0


# ---- running ------------------------------------------------------------------------------------------


def run(experiment: Experiment, seeds: Iterable[int], jobs: int, world: str) -> list[tuple[Case, Measured]]:
    cases = experiment.cases()
    tasks = [(case, seed) for case in cases for seed in seeds]
    with ThreadPoolExecutor(jobs) as pool:
        results = list(
            track(
                pool.map(lambda task: simulate(task[0].scenario, task[1], world), tasks),
                description=experiment.title,
                total=len(tasks),
                console=Console(stderr=True),
            )
        )
    by_case: dict[tuple[str, ...], list[tuple[Mapping, Mapping, list[str]]]] = {}
    for (case, _seed), result in zip(tasks, results, strict=True):
        by_case.setdefault(case.label, []).append(result)
    return [(case, gather(by_case[case.label])) for case in cases]


def simulate(scenario: Mapping, seed: int, world_name: str) -> tuple[Mapping, Mapping, list[str]]:
    loaded = bbrgym.load_scenario(scenario)
    with bbrgym.make_world(world_name, loaded, seed=seed) as world:
        while not world.done:
            world.advance(1.0)
        flows, link = world.summary()
        flow_names = [flow.name for flow in loaded.resolved().flows]
        return (
            {f: np.array(flows[:, i]) for i, f in enumerate(world.flow_summary_fields)},
            {f: float(link[i]) for i, f in enumerate(world.link_summary_fields)},
            flow_names,
        )


def gather(results: list[tuple[Mapping, Mapping, list[str]]]) -> Measured:
    return Measured(
        flow_names=results[0][2],
        flows={f: np.array([r[0][f] for r in results]) for f in results[0][0]},
        link={f: np.array([r[1][f] for r in results]) for f in results[0][1]},
    )


# ---- rendering ----------------------------------------------------------------------------------------


def render(
    name: str,
    experiment: Experiment,
    table: list[tuple[Case, Measured]],
    options: argparse.Namespace,
) -> str:
    command = f"python benchmarks/reproduce.py {name} --seeds {options.seeds}"
    if options.world != "ns3":
        command += f" --world {shlex.quote(options.world)}"
    has_published = bool(experiment.published)
    header = [*experiment.header, *(["published"] if has_published else [])]
    lines = [
        f"## {experiment.title}",
        "",
        experiment.says,
        "",
        f"`{command}`, {datetime.date.today().isoformat()}, mean and 95 % interval over {options.seeds} seeds.",
        "",
        "| " + " | ".join(header) + " |",
        "|" + "---|" * len(header),
    ]
    for case, measured in table:
        cells = [*case.label, *(interval(values) for values in experiment.row(measured))]
        if has_published:
            cells.append(experiment.published.get(case.label, ""))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def interval(values: np.ndarray) -> str:
    mean = student_mean(values)
    digits = 3 if abs(mean.value) < 2 else 1
    return mean.short(digits) if float(np.std(values)) > 0.0 else mean.text(digits).split(" ")[0]


# ---- experiments --------------------------------------------------------------------------------------


def two_flows(
    cc: str,
    *,
    rate_mbps: float = 100.0,
    queue: Mapping | None = None,
    short_ms: float = 10.0,
    long_ms: float = 50.0,
    duration_s: float = 120.0,
    warmup_s: float = 30.0,
    tunables: Mapping | None = None,
) -> Mapping:
    """One short-RTT and one long-RTT flow of the same kind at one bottleneck."""
    flow = {"cc": cc, "role": "fixed", "tunables": tunables or {}}
    return {
        "name": "two_flows",
        "duration_s": duration_s,
        "warmup_s": warmup_s,
        "link": {
            "rate_mbps": rate_mbps,
            "delay_ms": 1.0,
            "queue": queue or {"kind": "droptail", "size_bytes": 2_000_000},
        },
        "flows": [
            {"name": "short", "rtt_ms": short_ms, **copy.deepcopy(flow)},
            {"name": "long", "rtt_ms": long_ms, "start_s": 0.5, **copy.deepcopy(flow)},
        ],
    }


def bbq_13() -> list[Case]:
    return [
        Case((cc,), bbq_13_scenario(cc))
        for cc in ("bbr", "bbq", "bbr-plus", "bbr-acd", "bbr-pg", "bbr-pg-inv", "cubic")
    ]


def bbq_13_scenario(cc: str) -> Mapping:
    scenario = two_flows(cc)
    scenario["flows"][0]["stop_s"] = 110.0
    return scenario


def short_long_delay(m: Measured) -> list[np.ndarray]:
    goodput = m.flows["goodput_mbps"]
    return [goodput[:, 0], goodput[:, 1], m.link["queue_delay_mean_ms"], m.link["utilisation"]]


def congested(cc: str, size_bytes: int, alpha_us: float | None = None) -> Mapping:
    scenario = bbrgym.load_scenario("congested").model_dump(mode="json", exclude_none=True)
    scenario["link"]["queue"] = {"kind": "droptail", "size_bytes": size_bytes}
    for flow in scenario["flows"]:
        flow["cc"] = cc
        flow["role"] = "fixed"
        flow["tunables"] = {} if alpha_us is None else {"acd_alpha_us": alpha_us}
    return scenario


def acd_s1() -> list[Case]:
    return [
        Case((cc, f"{size_bytes / 1000:g} kB"), congested(cc, size_bytes))
        for size_bytes in (15_000, 85_000)
        for cc in ("bbr", "bbr-acd")
    ]


def acd_s2() -> list[Case]:
    return [
        Case((f"{alpha_us:g} us", f"{size_bytes / 1000:g} kB"), congested("bbr-acd", size_bytes, alpha_us))
        for size_bytes in (15_000, 85_000)
        for alpha_us in (500.0, 1000.0, 1500.0)
    ]


def totals_of_loss(m: Measured) -> list[np.ndarray]:
    return [
        m.flows["sent_pkts"].sum(axis=1),
        m.flows["lost_pkts"].sum(axis=1),
        m.flows["lost_pkts"].sum(axis=1) / m.flows["sent_pkts"].sum(axis=1),
        m.flows["goodput_mbps"].sum(axis=1),
        m.flows["rtt_mean_ms"].mean(axis=1),
    ]


def deep_buffer(cc: str, size_bdp: float) -> Mapping:
    return {
        "name": "deep_buffer",
        "duration_s": 120.0,
        "warmup_s": 20.0,
        "link": {
            "rate_mbps": 10.0,
            "delay_ms": 1.0,
            "queue": {"kind": "droptail", "size_bdp": size_bdp},
        },
        "flows": [
            {"name": "learner", "cc": cc, "role": "fixed", "rtt_ms": 40.0},
            {"name": "cubic", "cc": "cubic", "role": "background", "rtt_ms": 40.0},
        ],
    }


def bp_3() -> list[Case]:
    return [
        Case((cc, f"{size_bdp:g} BDP"), deep_buffer(cc, size_bdp))
        for size_bdp in (1, 2, 4, 8, 12, 18)
        for cc in ("bbr", "bbr-plus")
    ]


def against_cubic(m: Measured) -> list[np.ndarray]:
    goodput = m.flows["goodput_mbps"]
    throughput = m.flows["throughput_mbps"].sum(axis=1)
    return [goodput[:, 0], goodput[:, 1], throughput, goodput[:, 0] / goodput.sum(axis=1)]


def pg() -> list[Case]:
    cases = []
    for size_bdp in (0.5, 5.0):
        queue = {"kind": "droptail", "size_bdp": size_bdp}
        size = f"{size_bdp:g} BDP"
        cases.append(Case(("bbr", "", size), two_flows("bbr", queue=queue)))
        for exponent in (1.0, 0.0, -1.0):
            for mode, cruise in ((0.0, "fixed"), (1.0, "per RTT")):
                tunables = {"pg_gain_exponent": exponent, "pg_cruise_mode": mode}
                label = ("bbr-pg", f"exponent {exponent:g}, {cruise} cruise", size)
                cases.append(Case(label, two_flows("bbr-pg", queue=queue, tunables=tunables)))
    return cases


def jain_and_delay(m: Measured) -> list[np.ndarray]:
    return [*short_long_delay(m)[:2], m.link["jain"], m.link["queue_delay_mean_ms"]]


def lossy(cc: str, loss: float, rate_mbps: float) -> Mapping:
    scenario: Mapping = {
        "name": "lossy",
        "duration_s": 60.0,
        "warmup_s": 0.0,
        "link": {
            "rate_mbps": rate_mbps,
            "delay_ms": 49.0,
            "queue": {"kind": "droptail", "size_bdp": 100.0},
            "loss": {"kind": "bernoulli", "rate": loss},
        },
        "flows": [{"name": "flow", "cc": cc, "role": "fixed", "rtt_ms": 100.0}],
    }
    return scenario


RE_F8_PUBLISHED_MBPS = {
    0.001: (5.92, 94.94),
    0.01: (1.62, 85.37),
    0.05: (0.61, 76.89),
    0.10: (0.34, 74.56),
    0.20: (0.20, 67.38),
}


def re_f8(rate_mbps: float) -> Callable[[], list[Case]]:
    return lambda: [
        Case((cc, f"{100 * loss:g} %"), lossy(cc, loss, rate_mbps))
        for loss in RE_F8_PUBLISHED_MBPS
        for cc in ("cubic", "bbr")
    ]


def policer_edge() -> list[Case]:
    return [
        Case((f"{100 * loss:g} %", f"{100 * loss / (1 - loss):.1f} %"), lossy("bbr", loss, 20.0))
        for loss in (0.12, 0.14, 0.15, 0.16, 0.17, 0.18, 0.20)
    ]


def egress(m: Measured) -> list[np.ndarray]:
    return [m.flows["throughput_mbps"][:, 0], m.flows["goodput_mbps"][:, 0], m.flows["rto_count"][:, 0]]


EXPERIMENTS = {
    "bbq-13": Experiment(
        title="BBQ-13: a 10-ms and a 50-ms flow",
        says="BBQ (Ma et al.), figure 13: 100 Mbit/s, 2 MB drop-tail, 120 s; the 10-ms flow leaves at "
        "110 s. Goodput and queueing delay after 30 s of warm-up.",
        header=("variant", "short (Mbit/s)", "long (Mbit/s)", "queueing delay (ms)", "utilisation"),
        cases=bbq_13,
        row=short_long_delay,
        published={("bbr",): "6.3 / 87.3, 23.4 ms", ("bbq",): "51.4 / 42.5, 8.3 ms"},
    ),
    "acd-s1": Experiment(
        title="ACD-S1: seven flows at a congested 1 Mbit/s link",
        says="BBR-ACD (Mahmud et al.), section 4.2, in both readings of its queue.",
        header=("variant", "queue", "sent (packets)", "lost (packets)", "lost / sent", "goodput (Mbit/s)", "RTT (ms)"),
        cases=acd_s1,
        row=totals_of_loss,
        published={
            ("bbr", "15 kB"): "42 % lost, 0.50 Mbit/s (queue not clear)",
            ("bbr-acd", "15 kB"): "3.3 % lost, 0.863 Mbit/s (queue not clear)",
        },
    ),
    "acd-s2": Experiment(
        title="ACD-S2: the width of BBR-ACD's band",
        says="BBR-ACD, table 3 (4 523, 2 311 and 1 568 packets lost for 500, 1000 and 1500 us).",
        header=("alpha", "queue", "sent (packets)", "lost (packets)", "lost / sent", "goodput (Mbit/s)", "RTT (ms)"),
        cases=acd_s2,
        row=totals_of_loss,
    ),
    "bp-3": Experiment(
        title="BP-2 and BP-3: one flow against CUBIC, by buffer",
        says="BBR+ (Utsumi et al.): 10 Mbit/s, 40 ms, 120 s. The paper has curves only: BBR below CUBIC and "
        "total below the link rate at deep buffers; BBR+ close to CUBIC and total near the link rate.",
        header=(
            "variant",
            "buffer",
            "its goodput (Mbit/s)",
            "CUBIC's (Mbit/s)",
            "total on the link (Mbit/s)",
            "its share",
        ),
        cases=bp_3,
        row=against_cubic,
    ),
    "pg": Experiment(
        title="PG-6: BBR-PG and the exponent of its gain",
        says="BBR-PG (Xu et al.): 10 against 50 ms, scaled to 100 Mbit/s. The paper claims a Jain index of "
        "about 0.95 at 5 BDP, a difference that does not grow with the buffer and the lowest latency.",
        header=("variant", "setting", "buffer", "short (Mbit/s)", "long (Mbit/s)", "Jain index", "queueing delay (ms)"),
        cases=pg,
        row=jain_and_delay,
    ),
    "re-f8": Experiment(
        title="RE-F8: random loss, 100 Mbit/s, 100 ms",
        says="ReBBR (Hsiao and Muindi), figure 8; published is the link's egress ahead of the loss.",
        header=("cc", "loss", "link egress (Mbit/s)", "goodput (Mbit/s)", "timeouts"),
        cases=re_f8(100.0),
        row=egress,
        published={
            (cc, f"{100 * loss:g} %"): f"{values[i]:g}"
            for loss, values in RE_F8_PUBLISHED_MBPS.items()
            for i, cc in enumerate(("cubic", "bbr"))
        },
    ),
    "re-f8-20": Experiment(
        title="RE-F8 at 20 Mbit/s",
        says="The same at a fifth of the rate, which is faster to run; published is for 100 Mbit/s.",
        header=("cc", "loss", "link egress (Mbit/s)", "goodput (Mbit/s)", "timeouts"),
        cases=re_f8(20.0),
        row=egress,
    ),
    "policer-edge": Experiment(
        title="Where random loss looks like a policer",
        says="BBR v1 takes a path for policed where lost / delivered reaches 50/256 = 19.5 %, which is a "
        "loss rate of 16.3 %: 20 Mbit/s, 100 ms, 60 s, BBR.",
        header=("loss", "lost / delivered", "link egress (Mbit/s)", "goodput (Mbit/s)", "timeouts"),
        cases=policer_edge,
        row=egress,
    ),
}

if __name__ == "__main__":
    sys.exit(main())
