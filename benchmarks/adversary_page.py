# SPDX-License-Identifier: GPL-2.0-only
"""The worst networks that `bbrgym adversary` found for the variants: a table in words, and a figure.

usage: python benchmarks/adversary_page.py RUN... [--write docs/adversary.md] [--figure docs/figures/adversary.svg]

Each RUN is a run folder of `bbrgym adversary variant=...`. The figure runs the worst network of each in the twin, with
the first seed that the search did not see: goodput of the tuned flows together and of the others, and queueing delay,
means over a second.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from report import measured_on, replace_section

import bbrgym
from bbrgym.evaluate.adversary.network_search import scores_in
from bbrgym.evaluate.adversary.search import FIRST_SEED_B, AdversaryFolder, read_cases
from bbrgym.report.figure_spec import Axis, FigureSpec, Line, Panel, colour
from bbrgym.report.matplotlib_renderer import draw
from bbrgym.scenario.files import load_scenario, with_variant

_STEP_S = 0.1
_SMOOTHED = 10  # steps


def main() -> None:
    """Print the section, and write it and the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", metavar="RUN", nargs="+", type=Path)
    parser.add_argument("--write", type=Path, help="page whose section is replaced")
    parser.add_argument("--figure", type=Path, help="figure to write")
    asked = parser.parse_args()
    parts, panels = [], []
    for run in asked.runs:
        folder = AdversaryFolder(run)
        config = folder.read_config()
        variant, reference = config["variant"], config["reference"]
        scores = np.array(scores_in(folder.read_table("trials.parquet")))
        losses = scores[:, 1] - scores[:, 0]
        drawn = losses[: max(1, round(config["random_share"] * config["budget"]))]
        cases = read_cases(run)
        rows = [f"### {variant}, against {reference}\n"]
        share = 100 * (drawn > 0).mean()
        rows.append(
            f"It loses on {share:.0f} % of {len(drawn)} networks drawn at random, {drawn.mean():+.2f} on average and "
            f"{drawn.max():.2f} at most (seeds A); the search ended at {losses.max():.2f}.\n"
        )
        where = config["replay"] or "no other world"
        rows.append(f"| network | loss A | loss B (least) | in {where} |\n| --- | --- | --- | --- |")
        for case in cases.iter_rows(named=True):
            replayed = case["loss_replayed"]
            rows.append(
                f"| {case['description']} | {case['loss_a']:.2f} | {case['loss_b']:.2f} ({case['least_b']:.2f}) | "
                f"{'' if replayed is None else f'{replayed:.2f}'} |"
            )
        parts.append("\n".join(rows) + "\n")
        if len(cases):
            panels += panels_of(run / "cases" / f"{cases['network'][0]}.yaml", variant, reference)
    section = f"{measured_on()}.\n\n" + "\n".join(parts)
    print(section)
    if asked.write:
        replace_section(asked.write, "adversary", section)
    if asked.figure:
        figure = draw(
            FigureSpec(
                name="adversary",
                title="Each variant's worst network",
                panels=panels,
                columns=2,
                width_in=10,
                height_in=1.0 + 2.1 * (len(panels) // 2),
            )
        )
        figure.savefig(asked.figure, metadata={"Date": None})


def panels_of(path: Path, variant: str, reference: str) -> list[Panel]:
    """Return the panels of a network: goodput and queueing delay with both."""
    scenario = load_scenario(path)
    goodput, delay = [], []
    for number, name in enumerate((variant, reference)):
        times_s, tuned, others, queue_ms = series_of(with_variant(scenario, name))
        label = "entrant" if number == 0 else "reference"
        goodput.append(Line(times_s, tuned, f"{label}: tuned flows", colour(number)))
        if others.any():
            goodput.append(Line(times_s, others, f"{label}: others", colour(number), dash="dot"))
        delay.append(Line(times_s, queue_ms, None, colour(number)))
    time = Axis("time (s)")
    return [
        Panel(time, Axis("goodput (Mbit/s)", starts_at_zero=True), goodput, title=f"{variant} against {reference}"),
        Panel(time, Axis("queueing delay (ms)", starts_at_zero=True), delay),
    ]


def series_of(scenario: Any) -> tuple[Any, Any, Any, Any]:
    """Return times, goodput of the tuned flows and of the others, and the queueing delay."""
    is_tuned = np.array([flow.role == "learner" for flow in scenario.resolved().flows])
    rows = []
    with bbrgym.make_world("twin", scenario, seed=FIRST_SEED_B) as world:
        goodput = world.flow_fields.index("goodput_mbps")
        queue = world.link_fields.index("queue_delay_mean_ms")
        while not world.done:
            world.advance(_STEP_S)
            rates = world.flow_stats()[:, goodput]
            rows.append((world.now_s, rates[is_tuned].sum(), rates[~is_tuned].sum(), world.link_stats()[queue]))
    times_s, *others = np.array(rows).T
    window = np.ones(_SMOOTHED) / _SMOOTHED
    smoothed = [np.convolve(np.pad(one, (_SMOOTHED - 1, 0), mode="edge"), window, mode="valid") for one in others]
    return times_s, *smoothed


if __name__ == "__main__":
    main()
