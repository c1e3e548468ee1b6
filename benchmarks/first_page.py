# SPDX-License-Identifier: GPL-2.0-only
"""The pictures of the first page.

usage: python benchmarks/first_page.py flows|bench [--output docs/figures]

    flows      two flows over time in the twin under BBR, BBQ and a learned policy, as a table too. The policy is
               agents/shipped/flow in C, compiled here: it needs a C compiler, and no PyTorch
    bench      mean scores of bench/*.json, with 95 % intervals, and own scores

Their ground is transparent and their ink grey, for light pages and dark ones.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import numpy.typing as npt

import bbrgym
from bbrgym.agents.deploy.policy_file import read_policy
from bbrgym.agents.deploy.policy_header import policy_header
from bbrgym.agents.shipped import POLICY, SHIPPED
from bbrgym.evaluate.bench.results import read_results
from bbrgym.report.figure_spec import NEUTRAL, Axis, FigureSpec, Line, Panel, Points, colour
from bbrgym.report.markdown import markdown_table
from bbrgym.report.matplotlib_renderer import write_figures
from bbrgym.scenario.files import with_variant
from bbrgym.worlds.score import score_of_run

ROOT = Path(__file__).resolve().parents[1]
SCENARIO, SHOWN_S, INTERVAL_S = "rtt_fairness", 40.0, 0.5
LEARNED = "learned"
VARIANTS = {"BBR": "bbr", "BBQ": "bbq", LEARNED: "bbr-mix"}  # each a column of the flows' picture
#: Kinds of entries; a fixed setting is the best one that a search found.
COLOURS = {"published": colour(5), "fixed": colour(4), "learned": colour(2)}
OWN = "tuned flows alone"
INK = "#717983"
STYLE: dict[Any, Any] = {
    **dict.fromkeys(("figure.facecolor", "axes.facecolor"), "none"),
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK),
    "font.size": 11.5,
}


def main() -> None:
    """Draw a picture; print the flows' table."""
    pictures = {"flows": flows_picture, "bench": bench_picture}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("picture", choices=pictures)
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "figures")
    asked = parser.parse_args()
    with matplotlib.rc_context(STYLE):
        write_figures(asked.output, [pictures[asked.picture]()])
    print(f"picture: {asked.output / asked.picture}.png")


def flows_picture() -> FigureSpec:
    """Run the two flows under each control, print their means, and specify goodput and queue over time."""
    with tempfile.TemporaryDirectory() as folder:
        policy, header = (str(Path(folder) / name) for name in ("policy.so", "policy.h"))
        Path(header).write_text(policy_header(read_policy(SHIPPED["shipped/flow"] / POLICY)), encoding="utf-8")
        flags = ["-O2", "-shared", "-fPIC", "-DBBRGYM_POLICY_ENTRY", "-x", "c", header, "-o", policy]
        subprocess.run([os.environ.get("CC", "cc"), *flags], check=True, timeout=300)
        runs = {name: run(variant, {"policy": policy} if name == LEARNED else {}) for name, variant in VARIANTS.items()}
    heads = [f"{SCENARIO}, {SHOWN_S:g} s", "short RTT (Mbit/s)", "long RTT (Mbit/s)", "queue (ms)", "score"]
    print(markdown_table(heads, ([name, *means] for name, (_, means) in runs.items())))
    highest_ms = 1.05 * max(series[-1].max() for series, _ in runs.values())
    upper: list[Panel] = []
    lower: list[Panel] = []
    for name, ((time_s, short, long, fair, queue_ms), means) in runs.items():
        titles = ("", "") if upper else ("goodput (Mbit/s)", "queue (ms)")
        lines = [
            Line(time_s, short, "RTT 10 ms", colour(1), width=1.6),
            Line(time_s, long, "RTT 50 ms", colour(5), width=1.6),
            Line(time_s, fair, "fair share", NEUTRAL, dash="dot"),
        ]
        upper.append(Panel(Axis("time (s)"), Axis(titles[0], limits=(0, 100)), lines, f"{name}, score {means[-1]}"))
        queue = Line(time_s, queue_ms, "queueing delay", colour(3), width=1.6)
        lower.append(Panel(Axis("time (s)"), Axis(titles[1], limits=(0, highest_ms)), [queue]))
    panels, title = [*upper, *lower], "Two flows share 100 Mbit/s"
    return FigureSpec("flows", title, panels, columns=len(runs), shares_x=True, width_in=7.0, height_in=4.4)


def run(variant: str, options: dict[str, str]) -> tuple[npt.NDArray[Any], list[str]]:
    """Return time, both goodputs, the fair share and the queueing delay, [5, intervals], and the run's means."""
    scenario = with_variant(bbrgym.load_scenario(SCENARIO), variant)
    rows = []
    with bbrgym.make_world("twin", scenario, seed=1, options=options) as world:
        while world.now_s < SHOWN_S:
            world.advance(INTERVAL_S)
            flows = dict(zip(world.flow_fields, world.flow_stats().T, strict=True))
            link = dict(zip(world.link_fields, world.link_stats(), strict=True))
            fair, queue_ms = flows["fair_share_mbps"].min(), link["queue_delay_mean_ms"]
            rows.append([world.now_s, *flows["goodput_mbps"], fair, queue_ms])
        of_flows, of_link = world.summary()
        score = score_of_run(scenario, world.flow_summary_fields, of_flows)
        goodput_mbps = of_flows[:, world.flow_summary_fields.index("goodput_mbps")]
        queue_ms = of_link[world.link_summary_fields.index("queue_delay_mean_ms")]
    return np.array(rows).T, [*(f"{one:.1f}" for one in (*goodput_mbps, queue_ms)), f"{score:.2f}"]


def bench_picture() -> FigureSpec:
    """Specify the mean score of each entry of the benchmark that is not a reference."""
    found = [entry for path in sorted((ROOT / "bench").glob("*.json")) for entry in read_results(path).entries]
    entries = sorted((entry for entry in found if entry.kind in COLOURS), key=lambda entry: -entry.score.mean)
    series: list[Line | Points] = []
    for at, entry in enumerate(entries):
        kind = "published" if entry.entrant in bbrgym.VARIANTS else entry.kind
        series.append(Line([entry.own_score.mean], [at], OWN, NEUTRAL, width=0, opacity=0.6, symbol="diamond"))
        series.append(Points([at], [entry.score.estimate], "x", kind, COLOURS[kind]))
    names = Axis(names=[entry.entrant.removeprefix("runs/") for entry in entries], is_reversed=True)
    panel = Panel(Axis("score of all flows, 95 % intervals", limits=(-2.0, 0.0)), names, series)
    return FigureSpec("bench", "Mean score on 500 held-out networks", [panel], width_in=4.6, height_in=4.4)


if __name__ == "__main__":
    main()
